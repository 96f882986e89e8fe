// SPDX-License-Identifier: Apache-2.0
//
// Norm and RoPE of one token's heads in 128-bit vectors (AArch64).

#include "kernels/prep/prep_simd.h"

void qsa_norm_rope_neon(const qsa_norm_rope_args *args) {
    norm_rope_simd(args);
}
