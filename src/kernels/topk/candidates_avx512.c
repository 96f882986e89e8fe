// SPDX-License-Identifier: Apache-2.0
//
// Candidates in 512-bit vectors (x86-64-v4).

#include "kernels/topk/candidates_simd.h"

void qsa_candidates_avx512(const qsa_candidates_args *args) {
    candidates_simd(args);
}
