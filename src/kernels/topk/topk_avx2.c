// SPDX-License-Identifier: Apache-2.0
//
// Top-k in 256-bit vectors (x86-64-v3).

#include "kernels/topk/topk_simd.h"

void qsa_topk_avx2(const qsa_topk_args *args) {
    topk_simd(args);
}
