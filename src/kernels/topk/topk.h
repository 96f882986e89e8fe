// SPDX-License-Identifier: Apache-2.0
//
// Stage topk: the `take` best of `blocks` scores in the total order (higher score, then lower block; -0 = +0; NaN last),
// written ascending. Exact for every input; no scratch that could overflow.

#ifndef QSA_KERNELS_TOPK_TOPK_H
#define QSA_KERNELS_TOPK_TOPK_H

#include "num/num.h"
#include "qsa/qsa.h"

typedef struct qsa_topk_args {
    const float *scores; // [blocks]
    int32_t blocks;
    int32_t take;  // 1..blocks
    int32_t *ids;  // [take], ascending
    int32_t *last; // index in ids of the block that ranks last among the taken
} qsa_topk_args;
typedef void (*qsa_topk_fn)(const qsa_topk_args *args);

// candidates: the blocks that may be among the `take` best, from bounds of their sums. Group g is the blocks g, g + groups,
// ... Of the groups' largest lower bounds the take-th best is a threshold that `take` blocks reach; a block is a candidate
// unless its upper bound stays below the threshold by so much that its score does too, after any division by 1..32. There are
// at least `take` candidates.
typedef struct qsa_candidates_args {
    float *lower;       // [blocks], no NaN, no -0; the first `groups` become the groups' largest
    const float *upper; // [blocks], no NaN, upper >= lower
    int32_t blocks;
    int32_t groups; // take <= groups <= blocks
    int32_t take;
    int32_t *chosen; // [take] scratch: the groups that topk chooses
    int32_t *ids;    // [blocks] ascending, *count of them are written; may be the memory of lower
    int32_t *count;
} qsa_candidates_args;
typedef void (*qsa_candidates_fn)(const qsa_candidates_args *args);

// The upper bound that a candidate must reach. Below 2^-100 quotients may be subnormal: then all are candidates.
QSA_ANYWHERE float qsa_candidate_bar(float threshold) {
    return threshold > 0x1p-100f ? threshold * (1.0f - 0x1p-20f) : -qsa_infinity();
}

#endif
