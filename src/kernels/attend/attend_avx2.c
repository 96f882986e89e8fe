// SPDX-License-Identifier: Apache-2.0
//
// Attention records in 256-bit vectors (x86-64-v3).

#include "kernels/attend/attend_simd.h"

void qsa_attend_avx2(const qsa_attend_args *args) {
    attend_simd(args);
}
