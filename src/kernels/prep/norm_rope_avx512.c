// SPDX-License-Identifier: Apache-2.0
//
// Norm and RoPE of one token's heads in 512-bit vectors (x86-64-v4).

#include "kernels/prep/prep_simd.h"

void qsa_norm_rope_avx512(const qsa_norm_rope_args *args) {
    norm_rope_simd(args);
}
