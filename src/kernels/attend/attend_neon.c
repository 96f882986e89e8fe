// SPDX-License-Identifier: Apache-2.0
//
// Attention records in 128-bit vectors (AArch64).

#include "kernels/attend/attend_simd.h"

void qsa_attend_neon(const qsa_attend_args *args) {
    attend_simd(args);
}
