// SPDX-License-Identifier: Apache-2.0
//
// A wave: the few rows that are worked on at once. forward runs all phases over it, the stage calls one each, so both give
// the same bits. Waves bound the scratch: scores and records exist for 2 x threads rows, whatever the batch's size.

#ifndef QSA_API_WAVE_H
#define QSA_API_WAVE_H

#include "api/batch.h"

typedef struct qsa_wave_row {
    int32_t sequence;
    int32_t n;             // cells the row sees
    int32_t batch_row;     // its row in the batch or row set
    int32_t candidates;    // their count, with `blocks`
    float *q;              // [heads][head_dim]
    float *index_q;        // [index_heads][index_dim]
    float *scores;         // [n / ratio]; with `blocks` those of the candidates
    float *lower;          // [n / ratio] lower bounds of screening, or null
    int32_t *blocks;       // candidates of screening, ascending; null: all blocks are scored
    int16_t *screen_codes; // index_q in integers, see qsa_screen_query_args
    float *screen_scales;
    int32_t *ids; // selected blocks, ascending
    int32_t count, cut_index, cut_cells;
    int32_t given; // 1: ids were given, the row is neither scored nor selected
    float screen_bound[3];
    int32_t selected; // count of the selected cells
    int32_t *list;    // their row numbers in the cache
    float *records;   // [chunks][heads][2 + head_dim]
} qsa_wave_row;

typedef struct qsa_wave {
    qsa_context *context;
    const qsa_layer *layer; // queries only
    const qsa_cache *cache;
    int32_t layer_index;
    const qsa_geometry *geometry;
    qsa_rule rule;
    qsa_wave_row *rows;
    int32_t count;
    const qsa_batch *batch;  // queries, and gates of merge
    const qsa_rows_out *out; // merge
    float *lse;              // merge, [batch rows][heads] or null
} qsa_wave;

// Rows per wave of a context.
static inline int32_t qsa_wave_rows(const qsa_context *context) {
    return 2 * context->threads;
}
static inline int qsa_below_budget(const qsa_geometry *g, int32_t n) {
    return n <= qsa_width(g);
}
// Blocks to take of a row above the budget: K, one more if the rule cuts one.
int32_t qsa_take(const qsa_geometry *g, qsa_rule rule, int32_t n, int32_t *cut_cells);
static inline int32_t qsa_chunks_of(int32_t selected) {
    return (int32_t)(((int64_t)selected + QSA_CHUNK - 1) / QSA_CHUNK);
}

// Norm and RoPE of a row's queries, or index queries; x is null if they are not wanted. Cosines and sines are left to the caller.
qsa_norm_rope_args qsa_wave_query(const qsa_wave *wave, const qsa_wave_row *row, int index);

// Prep of rows first .. end - 1 of the batch by the fused kernel: what qsa_append does for them and qsa_wave_queries for those
// that are in the wave (its rows may be none).
void qsa_append_fused(const qsa_wave *wave, qsa_cache *cache, const qsa_plan *plan, int32_t first, int32_t end);

// Where the rows of the batch end that are prepared with a wave, given how many attending rows there are up to its last one.
static inline int32_t qsa_wave_end(const qsa_plan *plan, int32_t attending) {
    return attending < plan->attending_count ? plan->attending[attending - 1] + 1 : plan->batch->rows;
}

// Phases. Each runs over all rows of the wave on the context's threads.
void qsa_wave_queries(qsa_wave *wave); // q and index_q from the batch's raw rows
void qsa_wave_screen(qsa_wave *wave);  // candidates of the rows with scores and lower not null, where it pays
void qsa_wave_score(qsa_wave *wave);   // every row with scores not null: candidates or all blocks
void qsa_wave_select(qsa_wave *wave);  // ids from scores; rows below the budget get all blocks
void qsa_wave_list(qsa_wave *wave);    // cells of the selection, through the page table
void qsa_wave_attend(qsa_wave *wave);
void qsa_wave_merge(qsa_wave *wave);

#endif
