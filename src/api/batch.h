// SPDX-License-Identifier: Apache-2.0
//
// A batch, checked and located: which cell each row becomes, and where its sequence's earlier rows are.

#ifndef QSA_API_BATCH_H
#define QSA_API_BATCH_H

#include "api/cache.h"

typedef struct qsa_plan {
    const qsa_batch *batch;
    int32_t *cells;     // [T] cells the row sees, itself included
    int32_t *previous;  // [T] the batch row that is the cell before it, -1 if that is committed or does not exist
    int32_t *attending; // [attending_count] rows that attend, ascending
    int32_t attending_count;
} qsa_plan;

// Memory that a call was given.
typedef struct qsa_scratch {
    const void *workspace;
    size_t bytes;
} qsa_scratch;

// Checks every field of a batch against the cache and layer; nothing changes. The workspace of the stage is checked before
// any array is read: a number of rows that the arrays cannot have is caught by it.
qsa_status qsa_batch_check(const char *call, const qsa_context *context, const qsa_layer *layer, const qsa_cache *cache,
                           int32_t layer_index, const qsa_batch *batch, qsa_stage stage, qsa_scratch scratch);
// Sequences and positions of the batch alone.
qsa_status qsa_check_row_numbers(const char *call, const qsa_cache *cache, const qsa_batch *batch);
// Bytes of the plan's arrays.
static inline size_t qsa_plan_bytes(int32_t rows) {
    return 3 * (size_t)rows * sizeof(int32_t);
}
// Fills the plan in `memory` (qsa_plan_bytes, aligned to 4) and the cache's counts.
void qsa_batch_plan(qsa_cache *cache, const qsa_batch *batch, void *memory, qsa_plan *plan);

// The positions of a row as three.
static inline void qsa_row_positions(const qsa_batch *batch, int32_t row, int32_t positions[3]) {
    for (int i = 0; i < 3; i++) {
        const int64_t at = batch->positions_per_row == 3 ? 3 * (int64_t)row + i : row;
        positions[i] = batch->positions[at];
    }
}
static inline const unsigned char *qsa_row_at(const qsa_rows *rows, int32_t row, int32_t head) {
    return (const unsigned char *)rows->data + row * rows->row_stride + head * rows->head_stride;
}

// Writes the batch's keys, values, raw index keys and completed block keys of one layer into the pending cells.
void qsa_append(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                const qsa_plan *plan, const qsa_prep_out *out);

// Checks common to outputs and inputs that are rows: type, data not null.
qsa_status qsa_check_rows(const char *call, const char *name, const void *data, qsa_type type);

// The memory of a workspace, aligned to 64.
static inline unsigned char *qsa_align(void *workspace) {
    uintptr_t at = (uintptr_t)workspace;
    return (unsigned char *)workspace + ((64 - at % 64) % 64);
}
qsa_status qsa_check_workspace(const char *call, const qsa_context *context, const qsa_cache *cache, qsa_stage stage,
                               int32_t rows, qsa_scratch scratch);

#endif
