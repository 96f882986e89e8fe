// SPDX-License-Identifier: Apache-2.0
//
// Norm and RoPE of one token's heads in 256-bit vectors (x86-64-v3).

#include "kernels/prep/prep_simd.h"

void qsa_norm_rope_avx2(const qsa_norm_rope_args *args) {
    norm_rope_simd(args);
}
