// SPDX-License-Identifier: Apache-2.0
//
// The stages as separate calls: the phases of a wave over the caller's own arrays. top-k is in selection.c.

#include "api/device.h"

static qsa_status check_prep_out(const qsa_prep_out *out) {
    if (!out)
        return QSA_OK;
    QSA_REQUIRE_ARG(out->size == sizeof *out, "qsa_prep: out->size is %zu, this library's is %zu", out->size,
                    sizeof *out);
    return QSA_OK;
}

// The wave's rows: attending ones from `first` on, at most `most`, with their places in arrays by row of the batch.
static void aim_queries(qsa_wave *wave, const qsa_plan *plan, int32_t first, int32_t most, float *q, float *index_q) {
    const qsa_geometry *g = wave->geometry;
    wave->count = plan->attending_count - first < most ? plan->attending_count - first : most;
    for (int32_t w = 0; w < wave->count; w++) {
        const int64_t i = plan->attending[first + w];
        wave->rows[w] = (qsa_wave_row){.batch_row = (int32_t)i,
                                       .q = q ? q + i * g->heads * g->head_dim : NULL,
                                       .index_q = index_q ? index_q + i * g->index_heads * g->index_dim : NULL};
    }
}

qsa_status qsa_prep(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                    const qsa_batch *batch, const qsa_prep_out *out, void *workspace, size_t workspace_bytes) {
    const qsa_scratch scratch = {workspace, workspace_bytes};
    QSA_TRY(qsa_batch_check("qsa_prep", context, layer, cache, layer_index, batch, QSA_STAGE_PREP, scratch));
    QSA_TRY(check_prep_out(out));
    if (batch->rows == 0)
        return QSA_OK;
    if (context->device)
        return qsa_device_prep(context, layer, cache, layer_index, batch, out);
    unsigned char *memory = qsa_align(workspace);
    qsa_plan plan;
    qsa_batch_plan(cache, batch, memory, &plan);
    QSA_TRY(qsa_pending_check("qsa_prep", cache, batch->rows));
    qsa_pending_begin(cache, batch->rows);
    qsa_append(context, layer, cache, layer_index, &plan, out);
    if (out && out->cells)
        memcpy(out->cells, plan.cells, (size_t)batch->rows * sizeof(int32_t));
    if (!out || (!out->q && !out->index_q))
        return QSA_OK;
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, batch->rows, &l);
    qsa_wave wave = {.context = context, .layer = layer, .geometry = &layer->geometry, .batch = batch};
    wave.rows = (qsa_wave_row *)(memory + (qsa_plan_bytes(batch->rows) + 63) / 64 * 64);
    for (int32_t first = 0; first < plan.attending_count; first += wave.count) {
        aim_queries(&wave, &plan, first, l.rows, out->q, out->index_q);
        qsa_wave_queries(&wave);
    }
    return QSA_OK;
}

void qsa_prep_fused(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                    const qsa_batch *batch, float *q, float *index_q, void *workspace) {
    unsigned char *memory = qsa_align(workspace);
    qsa_plan plan;
    qsa_batch_plan(cache, batch, memory, &plan);
    qsa_pending_begin(cache, batch->rows);
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, batch->rows, &l);
    qsa_wave wave = {
        .context = context, .layer = layer, .layer_index = layer_index, .geometry = &layer->geometry, .batch = batch};
    wave.rows = (qsa_wave_row *)(memory + (qsa_plan_bytes(batch->rows) + 63) / 64 * 64);
    int32_t first = 0, prepared = 0;
    do {
        aim_queries(&wave, &plan, first, l.rows, q, index_q);
        first += wave.count;
        const int32_t end = qsa_wave_end(&plan, first);
        qsa_append_fused(&wave, cache, &plan, prepared, end);
        prepared = end;
    } while (first < plan.attending_count);
}

static qsa_status check_row_set(const char *call, const qsa_context *context, const qsa_cache *cache,
                                int32_t layer_index, const qsa_row_set *rows, qsa_stage stage, qsa_scratch scratch) {
    QSA_REQUIRE_ARG(context, "%s: context is null", call);
    QSA_REQUIRE_ARG(cache, "%s: cache is null", call);
    QSA_TRY(qsa_check_layer_index(call, cache, layer_index));
    QSA_TRY(qsa_check_devices(call, context, NULL, cache));
    QSA_REQUIRE_ARG(rows, "%s: rows is null", call);
    QSA_REQUIRE_ARG(rows->size == sizeof *rows, "%s: rows->size is %zu, this library's is %zu", call, rows->size,
                    sizeof *rows);
    QSA_REQUIRE_ARG(rows->rows >= 0, "%s: rows->rows is %d, must not be negative", call, (int)rows->rows);
    if (rows->rows == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(rows->sequences, "%s: rows->sequences is null", call);
    QSA_REQUIRE_ARG(rows->cells, "%s: rows->cells is null", call);
    QSA_TRY(qsa_check_workspace(call, context, cache, stage, rows->rows, scratch));
    for (int32_t i = 0; i < rows->rows; i++) {
        QSA_TRY(qsa_check_sequence(call, cache, rows->sequences[i]));
        const qsa_sequence *s = &cache->sequences[rows->sequences[i]];
        // pending first: a writer of other sequences may be changing written[] right now.
        const int32_t written = s->length + (s->pending && cache->written[layer_index] ? s->pending : 0);
        QSA_REQUIRE_ARG(rows->cells[i] >= 0 && rows->cells[i] <= written,
                        "%s: rows->cells[%d] is %d, sequence %d has %d cells in layer %d", call, (int)i,
                        (int)rows->cells[i], (int)rows->sequences[i], (int)written, (int)layer_index);
    }
    return QSA_OK;
}

qsa_status qsa_score(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                     const float *index_q, float *scores, int64_t stride, void *workspace, size_t workspace_bytes) {
    const qsa_scratch scratch = {workspace, workspace_bytes};
    QSA_TRY(check_row_set("qsa_score", context, cache, layer_index, rows, QSA_STAGE_SCORE, scratch));
    if (rows->rows == 0)
        return QSA_OK;
    const qsa_geometry *g = &cache->config.geometry;
    QSA_REQUIRE_ARG(index_q, "qsa_score: index_q is null");
    QSA_REQUIRE_ARG(scores, "qsa_score: scores is null");
    for (int32_t i = 0; i < rows->rows; i++)
        QSA_REQUIRE_ARG(stride >= rows->cells[i] / g->ratio || rows->rows == 1,
                        "qsa_score: stride is %lld, row %d has %d blocks", (long long)stride, (int)i,
                        (int)(rows->cells[i] / g->ratio));
    if (context->device)
        return qsa_device_score(context, cache, layer_index, rows, index_q, scores, stride);
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, rows->rows, &l);
    qsa_wave wave = {.context = context, .cache = cache, .layer_index = layer_index, .geometry = g};
    wave.rows = (qsa_wave_row *)qsa_align(workspace);
    for (int32_t first = 0; first < rows->rows; first += l.rows) {
        wave.count = rows->rows - first < l.rows ? rows->rows - first : l.rows;
        for (int32_t w = 0; w < wave.count; w++) {
            const int64_t i = first + w;
            // The phase only reads index_q.
            wave.rows[w] = (qsa_wave_row){.sequence = rows->sequences[i],
                                          .n = rows->cells[i],
                                          .index_q = (float *)index_q + i * g->index_heads * g->index_dim,
                                          .scores = scores + i * stride};
        }
        qsa_wave_score(&wave);
    }
    return QSA_OK;
}

static qsa_status check_attend(const qsa_geometry *g, const qsa_row_set *rows, const float *q,
                               const qsa_selection *selection, const float *records, int64_t row_stride,
                               const int32_t *chunks, int on_device) {
    QSA_REQUIRE_ARG(q, "qsa_attend: q is null");
    QSA_REQUIRE_ARG(records, "qsa_attend: records is null");
    QSA_REQUIRE_ARG(chunks, "qsa_attend: chunks is null");
    if (selection)
        QSA_TRY(qsa_check_selection("qsa_attend", g, QSA_RULE_OFFICIAL, selection, 0));
    for (int32_t i = 0; i < rows->rows; i++) {
        const int32_t n = rows->cells[i];
        int64_t cells = n;
        if (!qsa_below_budget(g, n)) {
            QSA_REQUIRE_ARG(selection, "qsa_attend: selection is null, but row %d with %d cells is above the budget",
                            (int)i, (int)n);
            if (!on_device)
                QSA_TRY(qsa_check_selected("qsa_attend", g, selection, i, n));
            cells = qsa_width(g);
        }
        const int64_t needed = (cells + QSA_CHUNK - 1) / QSA_CHUNK * g->heads * (2 + g->head_dim);
        QSA_REQUIRE_ARG(row_stride >= needed || rows->rows == 1,
                        "qsa_attend: row_stride is %lld floats, row %d may need %lld", (long long)row_stride, (int)i,
                        (long long)needed);
    }
    return QSA_OK;
}

qsa_status qsa_attend(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                      const float *q, const qsa_selection *selection, float *records, int64_t row_stride,
                      int32_t *chunks, void *workspace, size_t workspace_bytes) {
    const qsa_scratch scratch = {workspace, workspace_bytes};
    QSA_TRY(check_row_set("qsa_attend", context, cache, layer_index, rows, QSA_STAGE_ATTEND, scratch));
    if (rows->rows == 0)
        return QSA_OK;
    const qsa_geometry *g = &cache->config.geometry;
    QSA_TRY(check_attend(g, rows, q, selection, records, row_stride, chunks, context->device != NULL));
    if (context->device)
        return qsa_device_attend(context, cache, layer_index, rows, q, selection, records, row_stride, chunks);
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, rows->rows, &l);
    unsigned char *memory = qsa_align(workspace);
    qsa_wave wave = {.context = context, .cache = cache, .layer_index = layer_index, .geometry = g};
    wave.rows = (qsa_wave_row *)memory;
    for (int32_t first = 0; first < rows->rows; first += l.rows) {
        wave.count = rows->rows - first < l.rows ? rows->rows - first : l.rows;
        for (int32_t w = 0; w < wave.count; w++) {
            const int32_t i = first + w;
            // The phase only reads q.
            wave.rows[w] = (qsa_wave_row){.sequence = rows->sequences[i],
                                          .n = rows->cells[i],
                                          .q = (float *)q + (int64_t)i * g->heads * g->head_dim,
                                          .list = (int32_t *)(memory + (size_t)l.rows * l.row + (size_t)w * l.list),
                                          .records = records + i * row_stride};
            if (!qsa_below_budget(g, rows->cells[i]))
                qsa_use_selection(selection, i, &wave.rows[w]);
        }
        qsa_wave_list(&wave);
        qsa_wave_attend(&wave);
        for (int32_t w = 0; w < wave.count; w++)
            chunks[first + w] = qsa_chunks_of(wave.rows[w].selected);
    }
    return QSA_OK;
}
