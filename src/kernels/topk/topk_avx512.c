// SPDX-License-Identifier: Apache-2.0
//
// Top-k in 512-bit vectors (x86-64-v4).

#include "kernels/topk/topk_simd.h"

void qsa_topk_avx512(const qsa_topk_args *args) {
    topk_simd(args);
}
