// SPDX-License-Identifier: Apache-2.0
//
// Bounds of block sums in 512-bit vectors (x86-64-v4).

#include "kernels/score/screen_simd.h"

void qsa_screen_avx512(const qsa_screen_args *args) {
    screen_simd(args);
}
