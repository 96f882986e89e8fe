// SPDX-License-Identifier: Apache-2.0
//
// Stage score: scores of the complete blocks of one row, and bounds of them (docs/numerics.md, screened scoring). Block b's
// key is row page_table[b / page_blocks] * page_blocks + b % page_blocks of the layer's block keys.

#ifndef QSA_KERNELS_SCORE_SCORE_H
#define QSA_KERNELS_SCORE_SCORE_H

#include "kernels/score/screen.h"

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
    const int32_t *blocks;     // null, or the blocks are blocks[first..end-1]
} qsa_score_args;
typedef void (*qsa_score_fn)(const qsa_score_args *args);

// screen_query: the index queries of a row as integers, and what the row's error bound is made of.
typedef struct qsa_screen_query_args {
    const float *index_q; // [heads][dim]
    int32_t heads;
    int32_t dim;
    int16_t *codes;  // [qsa_screen_heads(heads)][qsa_screen_stride(dim)], zeros behind heads and dims
    float *scales;   // [qsa_screen_heads(heads)]: head h is about scales[h] * codes; zeros behind heads
    float *bound;    // [3] error per unit of a key's residual, per unit of its scale, and the rest
    int32_t *usable; // 0: not finite or beyond QSA_SCREEN_MOST; then the arrays above are left alone
} qsa_screen_query_args;
typedef void (*qsa_screen_query_fn)(const qsa_screen_query_args *args);

// screen: bounds of the blocks' sums, before the division. dot = the exact integer query . key of a head,
//   about = (chain over the heads of relu(float(dot) * scales[h])) * key_scale
//   error = (bound[0] * residual + bound[1] * key_scale) + bound[2]
// lower = about - error, upper = about + error: the plain score's sum lies between them. An infinite residual gives -inf, inf.
typedef struct qsa_screen_args {
    const int16_t *codes;      // of screen_query, [heads][stride]
    const float *scales;       // [heads]
    const float *bound;        // [3]
    int32_t heads;             // a multiple of QSA_SCREEN_HEADS
    int32_t stride;            // a multiple of QSA_SCREEN_LANES
    const int8_t *keys;        // the layer's, [pages][page_blocks][stride]
    const float *key_scales;   // [pages][page_blocks]
    const float *residuals;    // [pages][page_blocks]
    const int32_t *page_table; // of the sequence
    int32_t page_blocks;
    int32_t first, end; // blocks first..end-1
    float *lower;       // lower[b - first] is written, never NaN or -0
    float *upper;       // upper[b - first], never NaN
} qsa_screen_args;
typedef void (*qsa_screen_fn)(const qsa_screen_args *args);

#endif
