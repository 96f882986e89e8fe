// SPDX-License-Identifier: Apache-2.0
//
// forward, prep and replay on a device. The host checks, takes pages and sends the plan; kernels read every length from there,
// so that what is launched depends on the batch's shape alone and a captured graph holds no length.

#include "api/device.h"

#include <string.h>

enum { STRICT_ROWS = 64 }; // rows in flight of the strict kernels, whose scores and records lie in the workspace

static size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

// Where forward's arrays lie in the workspace.
typedef struct places {
    size_t q, index_q, ids, counts, scores, records, scratch, total;
    size_t choose, attention; // bytes of scratch, 0: the strict kernels
    int32_t in_flight;
    int64_t score_stride, record_stride, id_stride;
} places;

static int is_fast(const qsa_context *context) {
    return context->kernel_class == QSA_CLASS_FAST;
}

static int fast_choose(const qsa_context *context, const qsa_cuda_cache *on_device) {
    const qsa_device *d = context->device;
    return is_fast(context) && !d->strict_score && d->ops->choose_row(d->handle, on_device) != NULL;
}

static int fast_attention(const qsa_context *context, const qsa_cuda_cache *on_device) {
    const qsa_device *d = context->device;
    return is_fast(context) && !d->strict_attend && d->ops->attention_row(d->handle, on_device) != NULL;
}

static places places_of(const qsa_context *context, const qsa_cache *cache, int32_t rows) {
    const qsa_device *device = context->device;
    const qsa_geometry *g = &cache->config.geometry;
    const qsa_cuda_cache layer = qsa_device_cache(cache, 0);
    const int64_t width = qsa_width(g), most = width < cache->config.max_cells ? width : cache->config.max_cells;
    const size_t count = (size_t)rows;
    places p = {.in_flight = rows < STRICT_ROWS ? rows : STRICT_ROWS,
                .score_stride = cache->config.max_cells / g->ratio,
                .record_stride = (most + QSA_CHUNK - 1) / QSA_CHUNK * g->heads * (2 + g->head_dim),
                .id_stride = g->budget / g->ratio + 1};
    size_t at = 0;
    p.q = at, at += aligned(count * (size_t)g->heads * (size_t)g->head_dim * 4);
    p.index_q = at, at += aligned(count * (size_t)g->index_heads * (size_t)g->index_dim * 4);
    p.ids = at, at += aligned(count * (size_t)p.id_stride * 4);
    p.counts = at, at += aligned(count * 3 * 4);
    // One after the other: scores are done with when attention begins.
    size_t choosing, attending;
    if (fast_choose(context, &layer))
        choosing = p.choose = device->ops->choose_scratch(device->handle, &layer, rows, cache->config.max_cells);
    else
        choosing = (size_t)p.in_flight * (size_t)p.score_stride * 4;
    if (fast_attention(context, &layer))
        attending = p.attention = device->ops->attention_scratch(device->handle, &layer, rows);
    else
        attending = (size_t)p.in_flight * (size_t)p.record_stride * 4;
    p.scores = p.records = p.scratch = at;
    p.total = at + aligned(choosing > attending ? choosing : attending) + 256;
    return p;
}

size_t qsa_device_workspace(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows) {
    return stage == QSA_STAGE_FORWARD && rows > 0 ? places_of(context, cache, rows).total : 0;
}

typedef struct batch_plan {
    const qsa_plan *plan;
    const qsa_cache *cache;
} batch_plan;

static void fill_row(const void *arg, int32_t i, qsa_cuda_row *row) {
    const batch_plan *job = arg;
    const qsa_batch *batch = job->plan->batch;
    const qsa_sequence *s = &job->cache->sequences[batch->sequences[i]];
    row->cells = job->plan->cells[i];
    row->sequence = batch->sequences[i];
    row->previous = job->plan->previous[i];
    row->attends = !batch->attend || batch->attend[i];
    row->keeps = job->cache->config.rollback == QSA_ROLLBACK_ALL ||
                 s->length + s->pending - (row->cells - 1) <= job->cache->keep;
    qsa_row_positions(batch, i, row->positions);
}

// Takes pages for the batch unless it is pending, and brings tables and plan to the device. *most: see qsa_device_most. A
// failure leaves the cache as it was.
static qsa_status begin(const char *call, qsa_context *context, qsa_cache *cache, const qsa_batch *batch,
                        qsa_plan *plan, int32_t *most) {
    QSA_REQUIRE(batch->rows <= QSA_DEVICE_ROWS, QSA_ERR_UNSUPPORTED,
                "%s: batch.rows is %d, backend cuda takes at most %d at once", call, (int)batch->rows, QSA_DEVICE_ROWS);
    qsa_batch_plan(cache, batch, context->device->numbers, plan);
    QSA_TRY(qsa_pending_check(call, cache, batch->rows));
    const int fresh = cache->pending_rows == 0;

    qsa_pending_begin(cache, batch->rows);
    const batch_plan filled = {plan, cache};
    int32_t seen = 0;
    for (int32_t i = 0; i < batch->rows; i++)
        seen = plan->cells[i] > seen ? plan->cells[i] : seen;
    qsa_status status = qsa_device_settle(call, cache);
    if (status == QSA_OK)
        status = qsa_device_tables(call, cache, context->device->stream);
    if (status == QSA_OK)
        status = qsa_device_plan(call, context, batch->rows, fill_row, &filled);
    if (status == QSA_OK)
        status = qsa_device_most(call, context, cache, seen, most);
    if (status != QSA_OK && fresh)
        (void)qsa_cache_discard(cache);
    return status;
}

static qsa_status run_prep(const char *call, qsa_context *context, const qsa_layer *layer, const qsa_cuda_cache *on,
                           const qsa_batch *batch, const qsa_prep_out *out) {
    const qsa_device *device = context->device;
    const qsa_geometry *g = &layer->geometry;
    const float *at = layer->on_device;
    const qsa_cuda_prep_args args = {.cache = *on,
                                     .rows = device->plan,
                                     .count = batch->rows,
                                     .q = batch->q,
                                     .k = batch->k,
                                     .v = batch->v,
                                     .index_q = batch->index_q,
                                     .index_k = batch->index_k,
                                     .q_factor = at,
                                     .k_factor = at + g->head_dim,
                                     .iq_factor = at + 2 * g->head_dim,
                                     .ik_factor = at + 2 * g->head_dim + g->index_dim,
                                     .inv_freq = at + 2 * g->head_dim + 2 * g->index_dim,
                                     .axis =
                                         (const uint8_t *)(at + 2 * g->head_dim + 2 * g->index_dim + g->rotary_dim / 2),
                                     .q_out = out->q,
                                     .index_q_out = out->index_q,
                                     .k_out = out->k,
                                     .v_out = out->v};
    return qsa_device_check(call, device, device->ops->prep(device->handle, &args, device->stream));
}

// Scores and selections of all rows into `chosen`.
static qsa_status run_choose(qsa_context *context, const qsa_cuda_cache *on, const places *p, unsigned char *memory,
                             int32_t rows, int32_t most, qsa_rule rule, const qsa_cuda_selection *chosen,
                             int identity) {
    const char *call = "qsa_forward";
    const qsa_device *device = context->device;
    const float *index_q = (const float *)(memory + p->index_q);
    if (p->choose) {
        const qsa_cuda_choose_args args = {.cache = *on,
                                           .rows = device->plan,
                                           .count = rows,
                                           .most_cells = most,
                                           .index_q = index_q,
                                           .rule = rule,
                                           .selection = *chosen,
                                           .identity = identity,
                                           .scratch = memory + p->scratch,
                                           .scratch_bytes = p->choose};
        return qsa_device_check(call, device, device->ops->choose(device->handle, &args, device->stream));
    }
    const qsa_geometry *g = &on->geometry;
    for (int32_t first = 0; first < rows; first += p->in_flight) {
        const int32_t count = rows - first < p->in_flight ? rows - first : p->in_flight;
        const qsa_cuda_score_args score = {.cache = *on,
                                           .rows = device->plan + first,
                                           .count = count,
                                           .most_cells = most,
                                           .index_q = index_q + (int64_t)first * g->index_heads * g->index_dim,
                                           .scores = (float *)(memory + p->scores),
                                           .stride = p->score_stride,
                                           .skip_identity = 1};
        QSA_TRY(qsa_device_check(call, device, device->ops->score(device->handle, &score, device->stream)));
        qsa_cuda_selection part = *chosen;
        part.ids += first * chosen->stride;
        part.counts += first;
        part.cut_index = chosen->cut_index ? chosen->cut_index + first : NULL;
        part.cut_cells = chosen->cut_cells ? chosen->cut_cells + first : NULL;
        const qsa_cuda_topk_args topk = {.geometry = *g,
                                         .rows = device->plan + first,
                                         .count = count,
                                         .most_cells = most,
                                         .rule = rule,
                                         .scores = score.scores,
                                         .stride = p->score_stride,
                                         .selection = part,
                                         .identity = identity};
        QSA_TRY(qsa_device_check(call, device, device->ops->topk(device->handle, &topk, device->stream)));
    }
    return QSA_OK;
}

static qsa_status run_attention(qsa_context *context, const qsa_cuda_cache *on, const places *p, unsigned char *memory,
                                const qsa_batch *batch, int32_t most, const qsa_cuda_selection *chosen,
                                const qsa_rows_out *out, float *lse) {
    const char *call = "qsa_forward";
    const qsa_device *device = context->device;
    const float *q = (const float *)(memory + p->q);
    if (p->attention) {
        const qsa_cuda_attention_args args = {.cache = *on,
                                              .rows = device->plan,
                                              .count = batch->rows,
                                              .most_cells = most,
                                              .q = q,
                                              .selection = *chosen,
                                              .gate = batch->gate,
                                              .out = *out,
                                              .lse = lse,
                                              .scratch = memory + p->scratch,
                                              .scratch_bytes = p->attention};
        return qsa_device_check(call, device, device->ops->attention(device->handle, &args, device->stream));
    }
    for (int32_t first = 0; first < batch->rows; first += p->in_flight) {
        const int32_t count = batch->rows - first < p->in_flight ? batch->rows - first : p->in_flight;
        const qsa_cuda_attend_args attend = {.cache = *on,
                                             .rows = device->plan,
                                             .first = first,
                                             .count = count,
                                             .q = q,
                                             .selection = *chosen,
                                             .records = (float *)(memory + p->records),
                                             .row_stride = p->record_stride};
        QSA_TRY(qsa_device_check(call, device, device->ops->attend(device->handle, &attend, device->stream)));
        const qsa_cuda_merge_args merge = {.geometry = on->geometry,
                                           .rows = device->plan,
                                           .first = first,
                                           .count = count,
                                           .selection = *chosen,
                                           .records = attend.records,
                                           .row_stride = p->record_stride,
                                           .gate = batch->gate,
                                           .out = *out,
                                           .lse = lse};
        QSA_TRY(qsa_device_check(call, device, device->ops->merge(device->handle, &merge, device->stream)));
    }
    return QSA_OK;
}

static qsa_cuda_selection selection_of(const qsa_selection *s) {
    return (qsa_cuda_selection){
        .ids = s->ids, .stride = s->stride, .counts = s->count, .cut_index = s->cut_index, .cut_cells = s->cut_cells};
}

static qsa_status run_layer(qsa_context *context, const qsa_layer *layer, const qsa_cache *cache, int32_t layer_index,
                            const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                            unsigned char *memory, int32_t most) {
    const places p = places_of(context, cache, batch->rows);
    const qsa_cuda_cache on = qsa_device_cache(cache, layer_index);
    const qsa_prep_out prepared = {.q = (float *)(memory + p.q), .index_q = (float *)(memory + p.index_q)};
    int32_t *numbers = (int32_t *)(memory + p.counts);
    qsa_cuda_selection chosen = {.ids = (int32_t *)(memory + p.ids),
                                 .stride = p.id_stride,
                                 .counts = numbers,
                                 .cut_index = numbers + batch->rows,
                                 .cut_cells = numbers + 2 * (size_t)batch->rows};
    const qsa_selection *give = options ? options->give : NULL, *use = options ? options->use : NULL;
    QSA_TRY(run_prep("qsa_forward", context, layer, &on, batch, &prepared));
    if (use)
        chosen = selection_of(use);
    else if (give)
        chosen = selection_of(give);
    if (!use)
        QSA_TRY(run_choose(context, &on, &p, memory, batch->rows, most, options ? options->rule : QSA_RULE_OFFICIAL,
                           &chosen, give != NULL));
    return run_attention(context, &on, &p, memory, batch, most, &chosen, out, options ? options->lse : NULL);
}

qsa_status qsa_device_forward(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                              const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                              void *workspace) {
    QSA_REQUIRE(!options || !options->use || !options->give || options->use->ids == options->give->ids,
                QSA_ERR_UNSUPPORTED,
                "qsa_forward: options->use and options->give differ, on backend cuda they are one");
    const int fresh = cache->pending_rows == 0;
    qsa_plan plan;
    int32_t most;
    QSA_TRY(begin("qsa_forward", context, cache, batch, &plan, &most));
    const qsa_status status =
        run_layer(context, layer, cache, layer_index, batch, options, out, qsa_device_align(workspace), most);
    if (status == QSA_OK)
        cache->written[layer_index] = 1;
    else if (fresh)
        (void)qsa_cache_discard(cache);
    return status;
}

qsa_status qsa_device_prep(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                           const qsa_batch *batch, const qsa_prep_out *out) {
    static const qsa_prep_out none = {0};
    const int fresh = cache->pending_rows == 0;
    qsa_plan plan;
    int32_t most;
    QSA_TRY(begin("qsa_prep", context, cache, batch, &plan, &most));
    const qsa_cuda_cache on = qsa_device_cache(cache, layer_index);
    const qsa_status status = run_prep("qsa_prep", context, layer, &on, batch, out ? out : &none);
    if (status != QSA_OK) {
        if (fresh)
            (void)qsa_cache_discard(cache);
        return status;
    }
    if (out && out->cells)
        memcpy(out->cells, plan.cells, (size_t)batch->rows * sizeof(int32_t));
    cache->written[layer_index] = 1;
    return QSA_OK;
}

static qsa_status check_replay(const qsa_context *context, const qsa_cache *cache, const qsa_batch *batch) {
    const char *call = "qsa_replay";
    QSA_REQUIRE_ARG(context, "%s: context is null", call);
    QSA_REQUIRE_ARG(cache, "%s: cache is null", call);
    QSA_REQUIRE_STRUCT("qsa_replay", batch, "batch");
    QSA_REQUIRE(context->device, QSA_ERR_UNSUPPORTED, "%s: the context is of the cpu, which has no graphs", call);
    QSA_TRY(qsa_check_devices(call, context, NULL, cache));
    QSA_REQUIRE_ARG(batch->rows >= 1, "%s: batch->rows is %d, must be at least 1", call, (int)batch->rows);
    QSA_REQUIRE_ARG(batch->sequences, "%s: batch->sequences is null", call);
    QSA_REQUIRE_ARG(batch->positions, "%s: batch->positions is null", call);
    QSA_REQUIRE_ARG(batch->positions_per_row == 1 || batch->positions_per_row == 3,
                    "%s: batch->positions_per_row is %d, must be 1 or 3", call, (int)batch->positions_per_row);
    QSA_REQUIRE(cache->pending_rows == 0, QSA_ERR_STATE,
                "%s: a batch of %d rows is pending; commit or discard it first", call, (int)cache->pending_rows);
    return qsa_check_row_numbers(call, cache, batch);
}

qsa_status qsa_replay(qsa_context *context, qsa_cache *cache, const qsa_batch *batch) {
    QSA_TRY(check_replay(context, cache, batch));
    qsa_plan plan;
    int32_t most;
    QSA_TRY(begin("qsa_replay", context, cache, batch, &plan, &most));
    memset(cache->written, 1, (size_t)cache->config.layers);
    return QSA_OK;
}
