// SPDX-License-Identifier: Apache-2.0
//
// Bounds of block sums in 512-bit vectors with AVX512-VNNI.

#include "kernels/score/screen_simd.h"

void qsa_screen_avx512_vnni(const qsa_screen_args *args) {
    screen_simd(args);
}
