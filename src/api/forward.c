// SPDX-License-Identifier: Apache-2.0
//
// forward: all checks, then waves of rows through the phases, prep first. Nothing can fail once the first byte is written.

#include "api/device.h"

#include <string.h>

static qsa_status check_options(const qsa_geometry *g, const qsa_forward_options *options) {
    if (!options)
        return QSA_OK;
    QSA_REQUIRE_ARG(options->size == sizeof *options, "qsa_forward: options->size is %zu, this library's is %zu",
                    options->size, sizeof *options);
    QSA_TRY(qsa_check_rule("qsa_forward", options->rule));
    if (options->use)
        QSA_TRY(qsa_check_selection("qsa_forward (options->use)", g, options->rule, options->use, 0));
    if (options->give)
        QSA_TRY(qsa_check_selection("qsa_forward (options->give)", g, options->rule, options->give, 1));
    return QSA_OK;
}

// The selection to use, checked for every row above the budget.
static qsa_status check_used(const qsa_geometry *g, const qsa_plan *plan, const qsa_forward_options *options) {
    if (!options || !options->use)
        return QSA_OK;
    const int32_t most = options->give ? g->budget / g->ratio + (options->rule == QSA_RULE_CUT ? 1 : 0) : INT32_MAX;
    for (int32_t a = 0; a < plan->attending_count; a++) {
        const int32_t i = plan->attending[a];
        if (qsa_below_budget(g, plan->cells[i]))
            continue;
        QSA_TRY(qsa_check_selected("qsa_forward (options->use)", g, options->use, i, plan->cells[i]));
        QSA_REQUIRE_ARG(options->use->count[i] <= most && (!options->give || options->give->cut_index ||
                                                           !options->use->cut_index || options->use->cut_index[i] < 0),
                        "qsa_forward: options->use of row %d does not fit options->give", (int)i);
    }
    return QSA_OK;
}

static void give_selection(const qsa_wave *wave, qsa_selection *give) {
    for (int32_t w = 0; w < wave->count; w++) {
        const qsa_wave_row *row = &wave->rows[w];
        const int64_t i = row->batch_row;
        memmove(give->ids + i * give->stride, row->ids, (size_t)row->count * sizeof(int32_t));
        give->count[i] = row->count;
        if (give->cut_index) {
            give->cut_index[i] = row->cut_index;
            give->cut_cells[i] = row->cut_cells;
        }
    }
}

static void run_wave(qsa_wave *wave, const qsa_forward_options *options) {
    const qsa_selection *use = options ? options->use : NULL;
    for (int32_t w = 0; w < wave->count; w++) {
        qsa_wave_row *row = &wave->rows[w];
        const int below = qsa_below_budget(wave->geometry, row->n);
        if (use && !below)
            qsa_use_selection(use, row->batch_row, row);
        if (use || below)
            row->scores = NULL;
    }
    qsa_wave_screen(wave);
    qsa_wave_score(wave);
    qsa_wave_select(wave);
    if (options && options->give)
        give_selection(wave, options->give);
    qsa_wave_list(wave);
    qsa_wave_attend(wave);
    qsa_wave_merge(wave);
}

// Each wave begins with prep of the batch's rows up to its last one: a row sees its own cell and earlier ones.
static void run_waves(qsa_wave *wave, qsa_cache *cache, const qsa_plan *plan, const qsa_wave_layout *l,
                      unsigned char *memory, const qsa_forward_options *options) {
    int32_t first = 0, prepared = 0;
    wave->rows = (qsa_wave_row *)memory;
    do {
        const int32_t rest = plan->attending_count - first;
        wave->count = rest < l->rows ? rest : l->rows;
        for (int32_t w = 0; w < wave->count; w++) {
            const int32_t i = plan->attending[first + w];
            wave->rows[w] = (qsa_wave_row){.sequence = wave->batch->sequences[i], .n = plan->cells[i], .batch_row = i};
            qsa_wave_place(wave, l, memory, w);
        }
        first += wave->count;
        const int32_t end = qsa_wave_end(plan, first);
        qsa_append_fused(wave, cache, plan, prepared, end);
        prepared = end;
        if (wave->count > 0)
            run_wave(wave, options);
    } while (first < plan->attending_count);
}

qsa_status qsa_forward(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                       const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                       void *workspace, size_t workspace_bytes) {
    const qsa_scratch scratch = {workspace, workspace_bytes};
    QSA_TRY(qsa_batch_check("qsa_forward", context, layer, cache, layer_index, batch, QSA_STAGE_FORWARD, scratch));
    QSA_TRY(check_options(&layer->geometry, options));
    if (batch->rows == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(out, "qsa_forward: out is null");
    QSA_TRY(qsa_check_rows("qsa_forward", "out", out->data, out->type));
    if (context->device)
        return qsa_device_forward(context, layer, cache, layer_index, batch, options, out, workspace);
    unsigned char *memory = qsa_align(workspace);
    qsa_plan plan;
    qsa_batch_plan(cache, batch, memory, &plan);
    QSA_TRY(qsa_pending_check("qsa_forward", cache, batch->rows));
    QSA_TRY(check_used(&layer->geometry, &plan, options));
    qsa_pending_begin(cache, batch->rows);
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, batch->rows, &l);
    qsa_wave wave = {.context = context,
                     .layer = layer,
                     .cache = cache,
                     .layer_index = layer_index,
                     .geometry = &layer->geometry,
                     .rule = options ? options->rule : QSA_RULE_OFFICIAL,
                     .batch = batch,
                     .out = out,
                     .lse = options ? options->lse : NULL};
    run_waves(&wave, cache, &plan, &l, memory + (qsa_plan_bytes(batch->rows) + 63) / 64 * 64, options);
    return QSA_OK;
}
