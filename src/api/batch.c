// SPDX-License-Identifier: Apache-2.0
//
// Batches: every check before anything is written, and the plan that tells each row its cell.

#include "api/device.h"

#include <string.h>

qsa_status qsa_check_rows(const char *call, const char *name, const void *data, qsa_type type) {
    QSA_REQUIRE_ARG(data, "%s: %s.data is null", call, name);
    QSA_REQUIRE_ARG(qsa_is_float_type(type), "%s: %s.type is %d, must be f32 (1), f16 (2) or bf16 (3)", call, name,
                    (int)type);
    return QSA_OK;
}

qsa_status qsa_check_row_numbers(const char *call, const qsa_cache *cache, const qsa_batch *batch) {
    for (int32_t i = 0; i < batch->rows; i++) {
        QSA_REQUIRE_ARG(batch->sequences[i] >= 0 && batch->sequences[i] < cache->config.max_sequences &&
                            cache->sequences[batch->sequences[i]].alive,
                        "%s: batch.sequences[%d] is %d, no living sequence", call, (int)i, (int)batch->sequences[i]);
        int32_t positions[3];
        qsa_row_positions(batch, i, positions);
        for (int j = 0; j < 3; j++)
            QSA_REQUIRE_ARG(positions[j] >= 0, "%s: batch.positions of row %d are %d %d %d, must not be negative", call,
                            (int)i, (int)positions[0], (int)positions[1], (int)positions[2]);
    }
    return QSA_OK;
}

qsa_status qsa_batch_check(const char *call, const qsa_context *context, const qsa_layer *layer, const qsa_cache *cache,
                           int32_t layer_index, const qsa_batch *batch, qsa_stage stage, qsa_scratch scratch) {
    QSA_REQUIRE_ARG(context, "%s: context is null", call);
    QSA_REQUIRE_ARG(layer, "%s: layer is null", call);
    QSA_REQUIRE_ARG(cache, "%s: cache is null", call);
    QSA_TRY(qsa_check_layer_index(call, cache, layer_index));
    QSA_REQUIRE_ARG(batch, "%s: batch is null", call);
    QSA_REQUIRE_ARG(batch->size == sizeof *batch, "%s: batch->size is %zu, this library's is %zu", call, batch->size,
                    sizeof *batch);
    QSA_REQUIRE_ARG(batch->rows >= 0, "%s: batch.rows is %d, must not be negative", call, (int)batch->rows);
    QSA_TRY(qsa_check_same_geometry(call, &layer->geometry, &cache->config.geometry));
    QSA_TRY(qsa_check_devices(call, context, layer, cache));
    if (batch->rows == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(batch->sequences, "%s: batch.sequences is null", call);
    QSA_REQUIRE_ARG(batch->positions, "%s: batch.positions is null", call);
    QSA_REQUIRE_ARG(batch->positions_per_row == 1 || batch->positions_per_row == 3,
                    "%s: batch.positions_per_row is %d, must be 1 or 3", call, (int)batch->positions_per_row);
    QSA_TRY(qsa_check_rows(call, "batch.q", batch->q.data, batch->q.type));
    QSA_TRY(qsa_check_rows(call, "batch.k", batch->k.data, batch->k.type));
    QSA_TRY(qsa_check_rows(call, "batch.v", batch->v.data, batch->v.type));
    QSA_TRY(qsa_check_rows(call, "batch.index_q", batch->index_q.data, batch->index_q.type));
    QSA_TRY(qsa_check_rows(call, "batch.index_k", batch->index_k.data, batch->index_k.type));
    if (batch->gate.data)
        QSA_TRY(qsa_check_rows(call, "batch.gate", batch->gate.data, batch->gate.type));
    QSA_TRY(qsa_check_workspace(call, context, cache, stage, batch->rows, scratch));
    return qsa_check_row_numbers(call, cache, batch);
}

void qsa_batch_plan(qsa_cache *cache, const qsa_batch *batch, void *memory, qsa_plan *plan) {
    int32_t *numbers = memory;
    *plan = (qsa_plan){.batch = batch,
                       .cells = numbers,
                       .previous = numbers + batch->rows,
                       .attending = numbers + 2 * (size_t)batch->rows};
    memset(cache->counts, 0, (size_t)cache->config.max_sequences * sizeof(int32_t));
    for (int32_t i = 0; i < batch->rows; i++) {
        const int32_t sequence = batch->sequences[i], before = cache->counts[sequence]++;
        plan->previous[i] = before ? cache->last_row[sequence] : -1;
        // A sequence that would overflow is refused before the plan is used.
        plan->cells[i] = (int32_t)((uint32_t)cache->sequences[sequence].length + (uint32_t)before + 1u);
        cache->last_row[sequence] = i;
        if (!batch->attend || batch->attend[i])
            plan->attending[plan->attending_count++] = i;
    }
}
