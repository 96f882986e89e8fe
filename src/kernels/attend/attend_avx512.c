// SPDX-License-Identifier: Apache-2.0
//
// Attention records in 512-bit vectors (x86-64-v4).

#include "kernels/attend/attend_simd.h"

void qsa_attend_avx512(const qsa_attend_args *args) {
    attend_simd(args);
}
