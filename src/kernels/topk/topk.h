// SPDX-License-Identifier: Apache-2.0
//
// Stage topk: the `take` best of `blocks` scores in the total order (higher score, then lower block; -0 = +0; NaN last),
// written ascending. Exact for every input; no scratch that could overflow.

#ifndef QSA_KERNELS_TOPK_TOPK_H
#define QSA_KERNELS_TOPK_TOPK_H

#include "qsa/qsa.h"

typedef struct qsa_topk_args {
    const float *scores; // [blocks]
    int32_t blocks;
    int32_t take;  // 1..blocks
    int32_t *ids;  // [take], ascending
    int32_t *last; // index in ids of the block that ranks last among the taken
} qsa_topk_args;
typedef void (*qsa_topk_fn)(const qsa_topk_args *args);

#endif
