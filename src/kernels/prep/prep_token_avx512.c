// SPDX-License-Identifier: Apache-2.0
//
// All of one token's prep in 512-bit vectors (x86-64-v4).

#include "kernels/prep/prep_token_simd.h"

void qsa_prep_token_avx512(const qsa_prep_token_args *args) {
    prep_token_simd(args);
}
