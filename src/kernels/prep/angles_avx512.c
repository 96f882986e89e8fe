// SPDX-License-Identifier: Apache-2.0
//
// Cosines and sines of a token's rotary angles in 512-bit vectors (x86-64-v4).

#include "kernels/prep/angles_simd.h"

void qsa_angles_avx512(const qsa_angles_args *args) {
    angles_simd(args);
}
