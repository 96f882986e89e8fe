// SPDX-License-Identifier: Apache-2.0
//
// Top-k in 128-bit vectors (AArch64).

#include "kernels/topk/topk_simd.h"

void qsa_topk_neon(const qsa_topk_args *args) {
    topk_simd(args);
}
