// SPDX-License-Identifier: Apache-2.0
//
// A context of the CPU takes the arrays as they are, and workspaces through its allocator hook.

#include "host/host_call.h"
#include "host/host_copies.h"

#include "api/device.h"

#include <string.h>

int host_is_device(const qsa_context *context) {
    return strcmp(qsa_context_device(context), "cpu") != 0;
}

// The workspace of a stage, in the context's memory.
static void *workspace(host_copies *c, const qsa_cache *cache, qsa_stage stage, int32_t rows, size_t *bytes) {
    if (c->status == QSA_OK)
        c->status = qsa_workspace_size(c->context, cache, stage, rows, bytes);
    if (c->status == QSA_OK && *bytes == 0)
        *bytes = 1;
    return c->status == QSA_OK ? host_room(c, *bytes) : NULL;
}

static qsa_batch copy_batch(host_copies *c, const qsa_batch *batch, const qsa_geometry *g) {
    qsa_batch b = *batch;
    b.q = host_rows_in(c, &batch->q, batch->rows, g->heads, g->head_dim);
    b.k = host_rows_in(c, &batch->k, batch->rows, g->kv_heads, g->head_dim);
    b.v = host_rows_in(c, &batch->v, batch->rows, g->kv_heads, g->head_dim);
    b.index_q = host_rows_in(c, &batch->index_q, batch->rows, g->index_heads, g->index_dim);
    b.index_k = host_rows_in(c, &batch->index_k, batch->rows, 1, g->index_dim);
    b.gate = host_rows_in(c, &batch->gate, batch->rows, g->heads, g->head_dim);
    return b;
}

qsa_status host_forward(qsa_context *context, const qsa_geometry *g, const qsa_layer *layer, qsa_cache *cache,
                        int32_t layer_index, const qsa_batch *batch, const qsa_forward_options *options,
                        const qsa_rows_out *out) {
    host_copies c = {.context = context};
    size_t bytes = 0;
    void *memory = workspace(&c, cache, QSA_STAGE_FORWARD, batch->rows, &bytes);
    if (c.status != QSA_OK)
        return host_finish(&c, c.status);
    if (!host_is_device(context) || batch->rows == 0)
        return host_finish(&c, qsa_forward(context, layer, cache, layer_index, batch, options, out, memory, bytes));
    const qsa_batch b = copy_batch(&c, batch, g);
    const qsa_rows_out to = host_rows_both(&c, out, batch->rows, g->heads, g->head_dim);
    qsa_forward_options o = {.size = sizeof o};
    qsa_selection use, give;
    if (options)
        o = *options;
    // On a device a selection that is used is the one that is given: it comes back as it went.
    if (o.use) {
        use = host_selection(&c, o.use, batch->rows);
        o.use = &use;
        o.give = NULL;
    } else if (o.give) {
        give = host_selection(&c, o.give, batch->rows);
        o.give = &give;
    }
    o.lse = host_both(&c, o.lse, (size_t)batch->rows * (size_t)g->heads * sizeof(float));
    if (c.status == QSA_OK)
        c.status = qsa_forward(context, layer, cache, layer_index, &b, &o, &to, memory, bytes);
    return host_finish(&c, c.status);
}

qsa_status host_prep(qsa_context *context, const qsa_geometry *g, const qsa_layer *layer, qsa_cache *cache,
                     int32_t layer_index, const qsa_batch *batch, const qsa_prep_out *out) {
    host_copies c = {.context = context};
    size_t bytes = 0;
    void *memory = workspace(&c, cache, QSA_STAGE_PREP, batch->rows, &bytes);
    if (c.status != QSA_OK)
        return host_finish(&c, c.status);
    if (!host_is_device(context) || batch->rows == 0)
        return host_finish(&c, qsa_prep(context, layer, cache, layer_index, batch, out, memory, bytes));
    const qsa_batch b = copy_batch(&c, batch, g);
    const size_t rows = (size_t)batch->rows, f = sizeof(float), kv = rows * (size_t)g->kv_heads * (size_t)g->head_dim;
    qsa_prep_out o = {.size = sizeof o};
    if (out) {
        o = *out;
        o.q = host_both(&c, out->q, rows * (size_t)g->heads * (size_t)g->head_dim * f);
        o.index_q = host_both(&c, out->index_q, rows * (size_t)g->index_heads * (size_t)g->index_dim * f);
        o.k = host_both(&c, out->k, kv * f);
        o.v = host_both(&c, out->v, kv * f);
    }
    if (c.status == QSA_OK)
        c.status = qsa_prep(context, layer, cache, layer_index, &b, &o, memory, bytes);
    return host_finish(&c, c.status);
}

qsa_status host_score(qsa_context *context, const qsa_geometry *g, const qsa_cache *cache, int32_t layer_index,
                      const qsa_row_set *rows, const float *index_q, float *scores, int64_t stride) {
    host_copies c = {.context = context};
    size_t bytes = 0;
    void *memory = workspace(&c, cache, QSA_STAGE_SCORE, rows->rows, &bytes);
    if (c.status == QSA_OK && host_is_device(context) && rows->rows > 0) {
        const size_t n = (size_t)rows->rows, last = (size_t)(rows->cells[rows->rows - 1] / g->ratio);
        index_q = host_in(&c, index_q, n * (size_t)g->index_heads * (size_t)g->index_dim * sizeof(float));
        scores = host_both(&c, scores, ((n - 1) * (size_t)stride + last) * sizeof(float));
        if (!scores)
            scores = host_room(&c, sizeof(float)); // no block at all
    }
    if (c.status == QSA_OK)
        c.status = qsa_score(context, cache, layer_index, rows, index_q, scores, stride, memory, bytes);
    return host_finish(&c, c.status);
}

qsa_status host_topk(qsa_context *context, const qsa_geometry *g, qsa_rule rule, int32_t rows, const int32_t *cells,
                     const float *scores, int64_t stride, qsa_selection *selection) {
    host_copies c = {.context = context};
    qsa_selection s = *selection;
    if (host_is_device(context) && rows > 0) {
        const size_t last = (size_t)(cells[rows - 1] / g->ratio);
        scores = host_in(&c, scores, ((size_t)(rows - 1) * (size_t)stride + last) * sizeof(float));
        s = host_selection(&c, selection, rows);
    }
    if (c.status == QSA_OK)
        c.status = qsa_topk(context, g, rule, rows, cells, scores, stride, &s);
    return host_finish(&c, c.status);
}

qsa_status host_attend(qsa_context *context, const qsa_geometry *g, const qsa_cache *cache, int32_t layer_index,
                       const qsa_row_set *rows, const float *q, const qsa_selection *selection, float *records,
                       int64_t row_stride, int32_t *chunks) {
    host_copies c = {.context = context};
    size_t bytes = 0;
    qsa_selection s;
    void *memory = workspace(&c, cache, QSA_STAGE_ATTEND, rows->rows, &bytes);
    if (c.status == QSA_OK && host_is_device(context) && rows->rows > 0) {
        const size_t n = (size_t)rows->rows;
        q = host_in(&c, q, n * (size_t)g->heads * (size_t)g->head_dim * sizeof(float));
        records = host_both(&c, records, n * (size_t)row_stride * sizeof(float));
        chunks = host_both(&c, chunks, n * sizeof(int32_t));
        if (selection) {
            s = host_selection(&c, selection, rows->rows);
            selection = &s;
        }
    }
    if (c.status == QSA_OK)
        c.status =
            qsa_attend(context, cache, layer_index, rows, q, selection, records, row_stride, chunks, memory, bytes);
    return host_finish(&c, c.status);
}

qsa_status host_merge(qsa_context *context, const qsa_geometry *g, int32_t rows, const float *records,
                      int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                      float *lse) {
    host_copies c = {.context = context};
    qsa_rows gates;
    qsa_rows_out to = *out;
    if (host_is_device(context) && rows > 0) {
        const size_t n = (size_t)rows, record = (size_t)g->heads * (size_t)(2 + g->head_dim);
        records =
            host_in(&c, records, ((n - 1) * (size_t)row_stride + (size_t)chunks[rows - 1] * record) * sizeof(float));
        if (!records)
            records = host_room(&c, sizeof(float)); // no record at all
        chunks = host_in(&c, chunks, n * sizeof(int32_t));
        to = host_rows_both(&c, out, rows, g->heads, g->head_dim);
        lse = host_both(&c, lse, n * (size_t)g->heads * sizeof(float));
        if (gate) {
            gates = host_rows_in(&c, gate, rows, g->heads, g->head_dim);
            gate = &gates;
        }
    }
    if (c.status == QSA_OK)
        c.status = qsa_merge(context, g, rows, records, row_stride, chunks, gate, &to, lse);
    return host_finish(&c, c.status);
}

qsa_status host_gate(qsa_context *context, const qsa_geometry *g, int32_t rows, const qsa_rows *x, const qsa_rows *gate,
                     const qsa_rows_out *out) {
    host_copies c = {.context = context};
    qsa_rows from = *x, gates = *gate;
    qsa_rows_out to = *out;
    if (host_is_device(context) && rows > 0) {
        from = host_rows_in(&c, x, rows, g->heads, g->head_dim);
        gates = host_rows_in(&c, gate, rows, g->heads, g->head_dim);
        to = host_rows_both(&c, out, rows, g->heads, g->head_dim);
    }
    if (c.status == QSA_OK)
        c.status = qsa_gate(context, g, rows, &from, &gates, &to);
    return host_finish(&c, c.status);
}

int host_has_fast(const qsa_context *context, const qsa_cache *cache) {
    const qsa_device *d = context->device;
    if (!d || context->kernel_class != QSA_CLASS_FAST || d->strict_attend)
        return 0;
    const qsa_cuda_cache on = qsa_device_cache(cache, 0);
    return d->ops->attention_row(d->handle, &on) != NULL;
}

qsa_status host_attention(qsa_context *context, const qsa_geometry *g, const qsa_cache *cache, int32_t layer_index,
                          const qsa_row_set *rows, const float *q, const qsa_selection *selection, const qsa_rows *gate,
                          const qsa_rows_out *out) {
    host_copies c = {.context = context};
    if (!host_has_fast(context, cache))
        return QSA_ERR_UNSUPPORTED;
    size_t bytes = 0;
    void *memory = workspace(&c, cache, QSA_STAGE_FORWARD, rows->rows, &bytes);
    qsa_rows gates = {0};
    if (gate)
        gates = host_rows_in(&c, gate, rows->rows, g->heads, g->head_dim);
    q = host_in(&c, q, (size_t)rows->rows * (size_t)g->heads * (size_t)g->head_dim * sizeof(float));
    qsa_selection s = {0};
    if (selection)
        s = host_selection(&c, selection, rows->rows);
    const qsa_rows_out to = host_rows_both(&c, out, rows->rows, g->heads, g->head_dim);
    if (c.status == QSA_OK)
        c.status = qsa_device_attention(context, cache, layer_index, rows, q, selection ? &s : NULL,
                                        gate ? &gates : NULL, &to, memory);
    return host_finish(&c, c.status);
}
