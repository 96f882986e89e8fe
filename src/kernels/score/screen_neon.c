// SPDX-License-Identifier: Apache-2.0
//
// Bounds of block sums in 128-bit vectors (AArch64).

#include "kernels/score/screen_simd.h"

void qsa_screen_neon(const qsa_screen_args *args) {
    screen_simd(args);
}
