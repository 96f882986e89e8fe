// SPDX-License-Identifier: Apache-2.0
//
// Block scores in 512-bit vectors (x86-64-v4).

#include "kernels/score/score_simd.h"

void qsa_score_avx512(const qsa_score_args *args) {
    score_simd(args);
}
