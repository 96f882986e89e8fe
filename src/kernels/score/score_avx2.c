// SPDX-License-Identifier: Apache-2.0
//
// Block scores in 256-bit vectors (x86-64-v3).

#include "kernels/score/score_simd.h"

void qsa_score_avx2(const qsa_score_args *args) {
    score_simd(args);
}
