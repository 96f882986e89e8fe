// SPDX-License-Identifier: Apache-2.0
//
// What each case calls. `prompt` and `step` go through qsa_forward, the way an engine takes; a chunk's records would
// otherwise have to be kept for every row. The append that forward begins with is in their time. The rows are discarded
// after each call, so every call finds the same cache.

#include "bench/cases.h"

#include "bench/device.h"

#include "api/forward.h"

static qsa_row_set rows_of(const bench_world *w, int32_t first, int32_t count) {
    return (qsa_row_set){
        .size = sizeof(qsa_row_set), .rows = count, .sequences = w->sequences + first, .cells = w->cells + first};
}

static qsa_status forward(bench_world *w, const qsa_selection *use) {
    const qsa_forward_options options = {.size = sizeof options, .use = use};
    const qsa_status status =
        qsa_forward(w->context, w->layer, w->cache, 0, &w->batch, &options, &w->out, w->workspace, w->workspace_bytes);
    return status == QSA_OK ? world_discard(w) : status;
}

static qsa_status call_prompt(bench_world *w) {
    return forward(w, &w->selection);
}

static qsa_status call_step(bench_world *w) {
    return forward(w, NULL);
}

static qsa_status call_prep(bench_world *w) {
    const qsa_status status = world_append(w);
    return status == QSA_OK ? world_discard(w) : status;
}

qsa_status bench_call_prep_fused(bench_world *w) {
    qsa_prep_fused(w->context, w->layer, w->cache, 0, &w->batch, w->q, w->index_q, w->workspace);
    return world_discard(w);
}

qsa_status bench_call_score(bench_world *w) {
    const qsa_row_set rows = rows_of(w, 0, w->rows);
    return qsa_score(w->context, w->cache, 0, &rows, w->index_q, w->scores, w->score_stride, w->workspace,
                     w->workspace_bytes);
}

static qsa_status call_topk(bench_world *w) {
    return qsa_topk(w->context, &w->geometry, QSA_RULE_OFFICIAL, w->rows, w->cells, w->scores, w->score_stride,
                    &w->found);
}

qsa_status bench_call_score_topk(bench_world *w) {
    if (w->options->screen) { // the stage calls do not screen: the part of forward that does
        const qsa_row_set rows = rows_of(w, 0, w->rows);
        qsa_choose(w->context, w->cache, 0, &rows, w->index_q, QSA_RULE_OFFICIAL, &w->found, NULL, w->workspace);
        return QSA_OK;
    }
    const qsa_status status = bench_call_score(w);
    return status == QSA_OK ? call_topk(w) : status;
}

static qsa_status attend(bench_world *w, int32_t first, int32_t count) {
    const qsa_geometry *g = &w->geometry;
    const qsa_row_set rows = rows_of(w, first, count);
    qsa_selection selection = w->selection;
    selection.ids += first * selection.stride;
    selection.count += first;
    return qsa_attend(w->context, w->cache, 0, &rows, w->q + (int64_t)first * g->heads * g->head_dim, &selection,
                      w->records, w->record_stride, w->chunks, w->workspace, w->workspace_bytes);
}

static qsa_status merge(bench_world *w, int32_t first, int32_t count) {
    qsa_rows gate = w->batch.gate;
    qsa_rows_out out = w->out;
    gate.data = (const unsigned char *)gate.data + first * gate.row_stride;
    out.data = (unsigned char *)out.data + first * out.row_stride;
    return qsa_merge(w->context, &w->geometry, count, w->records, w->record_stride, w->chunks, &gate, &out, NULL);
}

static qsa_status in_groups(bench_world *w, bool merged) {
    qsa_status status = QSA_OK;
    for (int32_t first = 0; status == QSA_OK && first < w->rows; first += w->group) {
        const int32_t count = w->rows - first < w->group ? w->rows - first : w->group;
        status = attend(w, first, count);
        if (status == QSA_OK && merged)
            status = merge(w, first, count);
    }
    return status;
}

static qsa_status call_decode(bench_world *w) {
    return in_groups(w, true);
}

qsa_status bench_call_attend(bench_world *w) {
    return in_groups(w, false);
}

static qsa_status call_merge(bench_world *w) {
    return merge(w, 0, w->rows);
}

static const bench_case cases[BENCH_CASES] = {
    [BENCH_PROMPT] = {.call = call_prompt, .selects = true, .stages = "attend merge", .tokens = 512},
    [BENCH_DECODE] = {.call = call_decode, .appended = true, .selects = true, .stages = "attend merge", .tokens = 1},
    [BENCH_SCORE] = {.call = bench_call_score, .appended = true, .stages = "score", .tokens = 1},
    [BENCH_TOPK] = {.call = call_topk, .appended = true, .stages = "topk", .tokens = 1},
    [BENCH_SCORE_TOPK] = {.call = bench_call_score_topk, .appended = true, .stages = "score topk", .tokens = 1},
    [BENCH_PREP] = {.call = call_prep, .stages = "prep", .tokens = 1},
    [BENCH_MERGE] = {.call = call_merge, .appended = true, .selects = true, .stages = "merge", .tokens = 1},
    [BENCH_STEP] = {.call = call_step, .scores = true, .stages = "prep score topk attend merge", .tokens = 1},
};

const bench_case *bench_case_of(bench_id id) {
    return &cases[id];
}

static bool all_numbers(bench_world *w, const float *array, size_t count, const char *what, bench_error *error) {
    double squares = 0;
    const float *values = device_values(w, array, count, error);
    if (!values)
        return false;
    for (size_t i = 0; i < count; i++)
        squares += (double)values[i] * (double)values[i];
    if (!isfinite(squares) || squares == 0)
        return bench_fail(error, "the case's %s are no numbers or all zero", what);
    return true;
}

// The call once, with what it needs; topk and merge take the results of the stage before.
static qsa_status run_once(bench_world *w, bench_id id) {
    const bench_case *c = bench_case_of(id);
    const bool appended = c->appended || w->n_device; // device_call takes nothing back
    qsa_status status = appended ? world_append(w) : QSA_OK;
    if (status == QSA_OK && id == BENCH_TOPK)
        status = bench_call_score(w);
    for (int32_t i = 0; status == QSA_OK && id == BENCH_MERGE && i < w->rows; i++) {
        bench_world one = *w; // every row's records are kept
        one.records += (int64_t)i * w->record_stride;
        one.chunks += i;
        status = attend(&one, i, 1);
    }
    if (status == QSA_OK)
        status = w->n_device ? device_call(w, id) : c->call(w);
    if (status == QSA_OK && appended)
        status = world_discard(w);
    return status;
}

bool bench_case_ready(bench_world *w, bench_id id, bench_error *error) {
    const bench_case *c = bench_case_of(id);
    const qsa_geometry *g = &w->geometry;
    if ((c->selects && !world_select(w, w->options->selection, error)) ||
        (c->scores && !world_select(w, BENCH_SCORED, error)))
        return false;
    if (w->options->backend == QSA_BACKEND_CUDA && !device_move(w, error))
        return false;
    if (run_once(w, id) != QSA_OK)
        return bench_fail_library(error);
    const size_t vector = (size_t)g->heads * (size_t)g->head_dim;
    if (id == BENCH_SCORE)
        return w->cells[0] < g->ratio || all_numbers(w, w->scores, (size_t)(w->cells[0] / g->ratio), "scores", error);
    if (id == BENCH_PREP)
        return all_numbers(w, w->q, (size_t)w->rows * vector, "queries", error);
    if (c->selects || c->scores)
        return all_numbers(w, w->out.data, (size_t)w->rows * vector, "outputs", error);
    return true;
}
