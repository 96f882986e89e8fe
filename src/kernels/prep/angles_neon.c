// SPDX-License-Identifier: Apache-2.0
//
// Cosines and sines of a token's rotary angles in 128-bit vectors (AArch64).

#include "kernels/prep/angles_simd.h"

void qsa_angles_neon(const qsa_angles_args *args) {
    angles_simd(args);
}
