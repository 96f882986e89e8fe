// SPDX-License-Identifier: Apache-2.0
//
// Candidates in 128-bit vectors (AArch64).

#include "kernels/topk/candidates_simd.h"

void qsa_candidates_neon(const qsa_candidates_args *args) {
    candidates_simd(args);
}
