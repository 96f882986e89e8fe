// SPDX-License-Identifier: Apache-2.0
//
// Block scores in 128-bit vectors (AArch64).

#include "kernels/score/score_simd.h"

void qsa_score_neon(const qsa_score_args *args) {
    score_simd(args);
}
