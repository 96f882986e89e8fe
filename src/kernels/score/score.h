// SPDX-License-Identifier: Apache-2.0
//
// Stage score: scores of the complete blocks of one row. Block b's key is row page_table[b / page_blocks] * page_blocks
// + b % page_blocks of the layer's block keys.

#ifndef QSA_KERNELS_SCORE_SCORE_H
#define QSA_KERNELS_SCORE_SCORE_H

#include "qsa/qsa.h"

typedef struct qsa_score_args {
    const float *index_q;      // [heads][dim]
    int32_t heads;             // IH
    int32_t dim;               // ID, 1..QSA_MAX_HEAD_DIM
    float divisor;             // sqrtf(ID)
    const void *block_keys;    // the layer's, [pages][page_blocks][dim]
    qsa_type format;           // f32, f16, bf16
    const int32_t *page_table; // of the sequence
    int32_t page_blocks;       // page_cells / ratio
    int32_t first, end;        // blocks first..end-1
    float *scores;             // scores[b - first] is written
} qsa_score_args;
typedef void (*qsa_score_fn)(const qsa_score_args *args);

#endif
