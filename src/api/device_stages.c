// SPDX-License-Identifier: Apache-2.0
//
// The stages after prep as separate calls on a device: one launch each, of the strict kernels.

#include "api/device.h"

typedef struct row_numbers {
    const int32_t *sequences, *cells; // null: 0
} row_numbers;

static void fill_row(const void *arg, int32_t i, qsa_cuda_row *row) {
    const row_numbers *numbers = arg;
    row->cells = numbers->cells ? numbers->cells[i] : 0;
    row->sequence = numbers->sequences ? numbers->sequences[i] : 0;
    row->previous = -1;
    row->attends = 1;
}

// The plan of a row set.
static qsa_status plan_rows(const char *call, qsa_context *context, int32_t rows, const int32_t *sequences,
                            const int32_t *cells) {
    const row_numbers numbers = {sequences, cells};
    return qsa_device_plan(call, context, rows, fill_row, &numbers);
}

static int32_t most_of(const int32_t *cells, int32_t rows) {
    int32_t most = 0;
    for (int32_t i = 0; i < rows; i++)
        most = cells[i] > most ? cells[i] : most;
    return most;
}

qsa_status qsa_device_score(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                            const float *index_q, float *scores, int64_t stride) {
    const qsa_device *device = context->device;
    QSA_TRY(plan_rows("qsa_score", context, rows->rows, rows->sequences, rows->cells));
    const qsa_cuda_score_args args = {.cache = qsa_device_cache(cache, layer_index),
                                      .rows = device->plan,
                                      .count = rows->rows,
                                      .most_cells = most_of(rows->cells, rows->rows),
                                      .index_q = index_q,
                                      .scores = scores,
                                      .stride = stride};
    return qsa_device_check("qsa_score", device, device->ops->score(device->handle, &args, device->stream));
}

static qsa_cuda_selection selection_of(const qsa_selection *s) {
    if (!s)
        return (qsa_cuda_selection){0};
    return (qsa_cuda_selection){
        .ids = s->ids, .stride = s->stride, .counts = s->count, .cut_index = s->cut_index, .cut_cells = s->cut_cells};
}

qsa_status qsa_device_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                           const int32_t *cells, const float *scores, int64_t stride, const qsa_selection *selection) {
    const qsa_device *device = context->device;
    if (rows == 0)
        return QSA_OK;
    QSA_TRY(plan_rows("qsa_topk", context, rows, NULL, cells));
    const qsa_cuda_topk_args args = {.geometry = *geometry,
                                     .rows = device->plan,
                                     .count = rows,
                                     .most_cells = most_of(cells, rows),
                                     .rule = rule,
                                     .scores = scores,
                                     .stride = stride,
                                     .selection = selection_of(selection),
                                     .identity = 1};
    return qsa_device_check("qsa_topk", device, device->ops->topk(device->handle, &args, device->stream));
}

qsa_status qsa_device_attend(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *q, const qsa_selection *selection, float *records, int64_t row_stride,
                             int32_t *chunks) {
    const qsa_device *device = context->device;
    QSA_TRY(plan_rows("qsa_attend", context, rows->rows, rows->sequences, rows->cells));
    const qsa_cuda_attend_args args = {.cache = qsa_device_cache(cache, layer_index),
                                       .rows = device->plan,
                                       .count = rows->rows,
                                       .q = q,
                                       .selection = selection_of(selection),
                                       .records = records,
                                       .row_stride = row_stride,
                                       .chunks = chunks};
    return qsa_device_check("qsa_attend", device, device->ops->attend(device->handle, &args, device->stream));
}

qsa_status qsa_device_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                            int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                            float *lse) {
    const qsa_device *device = context->device;
    // Of the plan only `attends` is read: one that says so already will do, and attend and merge can be captured together.
    int there = device->known_rows >= rows;
    for (int32_t i = 0; there && i < rows; i++)
        there = device->known[i].attends;
    if (!there)
        QSA_TRY(plan_rows("qsa_merge", context, rows, NULL, NULL));
    const qsa_cuda_merge_args args = {.geometry = *geometry,
                                      .rows = device->plan,
                                      .count = rows,
                                      .records = records,
                                      .row_stride = row_stride,
                                      .chunks = chunks,
                                      .gate = gate ? *gate : (qsa_rows){0},
                                      .out = *out,
                                      .lse = lse};
    return qsa_device_check("qsa_merge", device, device->ops->merge(device->handle, &args, device->stream));
}

qsa_status qsa_device_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                           const qsa_rows *gate, const qsa_rows_out *out) {
    const qsa_device *device = context->device;
    const qsa_cuda_gate_args args = {.geometry = *geometry, .count = rows, .x = *x, .gate = *gate, .out = *out};
    return qsa_device_check("qsa_gate", device, device->ops->gate(device->handle, &args, device->stream));
}

qsa_status qsa_device_choose(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *index_q, const qsa_selection *selection, void *workspace) {
    const qsa_device *device = context->device;
    int32_t most;
    QSA_TRY(plan_rows("qsa_choose", context, rows->rows, rows->sequences, rows->cells));
    QSA_TRY(qsa_device_most("qsa_choose", context, cache, most_of(rows->cells, rows->rows), &most));
    const qsa_cuda_cache on = qsa_device_cache(cache, layer_index);
    const qsa_cuda_choose_args args = {
        .cache = on,
        .rows = device->plan,
        .count = rows->rows,
        .most_cells = most,
        .index_q = index_q,
        .selection = selection_of(selection),
        .identity = 1,
        .scratch = qsa_device_align(workspace),
        .scratch_bytes = device->ops->choose_scratch(device->handle, &on, rows->rows, cache->config.max_cells)};
    return qsa_device_check("qsa_choose", device, device->ops->choose(device->handle, &args, device->stream));
}

qsa_status qsa_device_attention(qsa_context *context, const qsa_cache *cache, int32_t layer_index,
                                const qsa_row_set *rows, const float *q, const qsa_selection *selection,
                                const qsa_rows *gate, const qsa_rows_out *out, void *workspace) {
    const qsa_device *device = context->device;
    int32_t most;
    QSA_TRY(plan_rows("qsa_attention", context, rows->rows, rows->sequences, rows->cells));
    QSA_TRY(qsa_device_most("qsa_attention", context, cache, most_of(rows->cells, rows->rows), &most));
    const qsa_cuda_cache on = qsa_device_cache(cache, layer_index);
    const qsa_cuda_attention_args args = {.cache = on,
                                          .rows = device->plan,
                                          .count = rows->rows,
                                          .most_cells = most,
                                          .q = q,
                                          .selection = selection_of(selection),
                                          .gate = gate ? *gate : (qsa_rows){0},
                                          .out = *out,
                                          .scratch = qsa_device_align(workspace),
                                          .scratch_bytes =
                                              device->ops->attention_scratch(device->handle, &on, rows->rows)};
    return qsa_device_check("qsa_attention", device, device->ops->attention(device->handle, &args, device->stream));
}
