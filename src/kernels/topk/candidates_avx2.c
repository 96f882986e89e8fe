// SPDX-License-Identifier: Apache-2.0
//
// Candidates in 256-bit vectors (x86-64-v3).

#include "kernels/topk/candidates_simd.h"

void qsa_candidates_avx2(const qsa_candidates_args *args) {
    candidates_simd(args);
}
