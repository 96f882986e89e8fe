// SPDX-License-Identifier: Apache-2.0
//
// All of one token's prep in 256-bit vectors (x86-64-v3).

#include "kernels/prep/prep_token_simd.h"

void qsa_prep_token_avx2(const qsa_prep_token_args *args) {
    prep_token_simd(args);
}
