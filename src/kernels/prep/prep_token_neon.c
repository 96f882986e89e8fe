// SPDX-License-Identifier: Apache-2.0
//
// All of one token's prep in 128-bit vectors (AArch64).

#include "kernels/prep/prep_token_simd.h"

void qsa_prep_token_neon(const qsa_prep_token_args *args) {
    prep_token_simd(args);
}
