// SPDX-License-Identifier: Apache-2.0
//
// Batches through the library: in one call, stage by stage, and a whole list of rows in chunks.
#include "rig.h"

#include <stdlib.h>
#include <string.h>

void rig_force(qsa_context *context, const char *where) {
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        qsa_kernel_info info = {.size = sizeof info};
        RIG_OK(qsa_kernel_at(i, &info));
        if (info.usable && info.kernel_class == QSA_CLASS_STRICT && !strcmp(info.where, where))
            RIG_OK(qsa_context_set_kernel(context, info.stage, where));
    }
}

int rig_wheres(const char *names[16]) {
    int count = 0;
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        qsa_kernel_info info = {.size = sizeof info};
        RIG_OK(qsa_kernel_at(i, &info));
        bool known = count == 16 || !info.usable || info.kernel_class != QSA_CLASS_STRICT;
        for (int j = 0; j < count; j++)
            known = known || !strcmp(names[j], info.where);
        if (!known)
            names[count++] = info.where;
    }
    return count;
}

// Memory full of NaN: what a call forgets to write shows.
static void *poisoned(size_t count, size_t size) {
    void *p = rig_new(count, size);
    memset(p, 0xff, (count ? count : 1) * size);
    return p;
}

void rig_result_init(rig_result *s, const rig *r, int32_t rows) {
    const oracle_geometry *g = &r->config.geometry;
    const size_t n = (size_t)rows, dim = (size_t)g->head_dim;
    const size_t q = (size_t)g->heads * dim, kv = (size_t)g->kv_heads * dim;
    *s = (rig_result){.rows = rows, .score_stride = r->config.max_cells / g->ratio + 1};
    s->cells = poisoned(n, sizeof *s->cells);
    s->q = poisoned(n * q, sizeof(float));
    s->index_q = poisoned(n * (size_t)g->index_heads * (size_t)g->index_dim, sizeof(float));
    s->k = poisoned(n * kv, sizeof(float));
    s->v = poisoned(n * kv, sizeof(float));
    s->scores = poisoned(n * (size_t)s->score_stride, sizeof(float));
    s->selection =
        (qsa_selection){.size = sizeof s->selection, .stride = qsa_selection_stride(&r->geometry, QSA_RULE_CUT)};
    s->selection.ids = poisoned(n * (size_t)s->selection.stride, sizeof(int32_t));
    s->selection.count = poisoned(n, sizeof(int32_t));
    s->selection.cut_index = poisoned(n, sizeof(int32_t));
    s->selection.cut_cells = poisoned(n, sizeof(int32_t));
    s->out = poisoned(n * q, sizeof(float));
    s->lse = poisoned(n * (size_t)g->heads, sizeof(float));
    s->chunks = poisoned(n, sizeof(int32_t));
    s->record_stride = (int64_t)qsa_max_chunks(&r->geometry) * g->heads * (2 + g->head_dim);
}

void rig_result_free(rig_result *s) {
    free(s->cells);
    free(s->q);
    free(s->index_q);
    free(s->k);
    free(s->v);
    free(s->scores);
    free(s->selection.ids);
    free(s->selection.count);
    free(s->selection.cut_index);
    free(s->selection.cut_cells);
    free(s->records);
    free(s->chunks);
    free(s->out);
    free(s->lse);
    memset(s, 0, sizeof *s);
}

static qsa_rows_out out_of(const rig *r, float *out) {
    const oracle_geometry *g = &r->config.geometry;
    return (qsa_rows_out){.data = out,
                          .type = QSA_F32,
                          .row_stride = (int64_t)g->heads * g->head_dim * 4,
                          .head_stride = (int64_t)g->head_dim * 4};
}

// All rows in one call if all attend, else the attending ones one by one.
static void score(rig *r, int32_t layer, const qsa_batch *batch, rig_result *s) {
    const size_t index_q = (size_t)r->config.geometry.index_heads * (size_t)r->config.geometry.index_dim;
    bool all = true;
    for (int32_t i = 0; batch->attend && i < batch->rows; i++)
        all = all && batch->attend[i];
    const int32_t each = all ? batch->rows : 1;
    for (int32_t i = 0; i < batch->rows; i += each) {
        if (!all && !batch->attend[i])
            continue;
        size_t bytes;
        void *workspace = rig_workspace(r, QSA_STAGE_SCORE, each, &bytes);
        const qsa_row_set rows = {
            .size = sizeof rows, .rows = each, .sequences = batch->sequences + i, .cells = s->cells + i};
        RIG_OK(qsa_score(r->context, r->cache, layer, &rows, s->index_q + (size_t)i * index_q,
                         s->scores + i * s->score_stride, s->score_stride, workspace, bytes));
    }
}

void rig_observe(rig *r, int32_t layer, const qsa_batch *batch, rig_result *s) {
    size_t bytes;
    void *workspace = rig_workspace(r, QSA_STAGE_PREP, batch->rows, &bytes);
    const qsa_prep_out prep = {
        .size = sizeof prep, .q = s->q, .index_q = s->index_q, .k = s->k, .v = s->v, .cells = s->cells};
    RIG_OK(qsa_prep(r->context, r->layer, r->cache, layer, batch, &prep, workspace, bytes));
    score(r, layer, batch, s);
}

void rig_forward(rig *r, int32_t layer, const qsa_batch *batch, qsa_rule rule, rig_result *s) {
    size_t bytes;
    void *workspace = rig_workspace(r, QSA_STAGE_FORWARD, batch->rows, &bytes);
    const qsa_forward_options options = {.size = sizeof options, .rule = rule, .give = &s->selection, .lse = s->lse};
    const qsa_rows_out out = out_of(r, s->out);
    RIG_OK(qsa_forward(r->context, r->layer, r->cache, layer, batch, &options, &out, workspace, bytes));
}

void rig_stages(rig *r, int32_t layer, const qsa_batch *batch, qsa_rule rule, rig_result *s) {
    rig_observe(r, layer, batch, s);
    RIG_OK(qsa_topk(r->context, &r->geometry, rule, batch->rows, s->cells, s->scores, s->score_stride, &s->selection));
    size_t bytes;
    void *workspace = rig_workspace(r, QSA_STAGE_ATTEND, batch->rows, &bytes);
    const qsa_row_set rows = {
        .size = sizeof rows, .rows = batch->rows, .sequences = batch->sequences, .cells = s->cells};
    free(s->records);
    s->records = poisoned((size_t)s->record_stride * (size_t)batch->rows, sizeof(float));
    RIG_OK(qsa_attend(r->context, r->cache, layer, &rows, s->q, &s->selection, s->records, s->record_stride, s->chunks,
                      workspace, bytes));
    const qsa_rows_out out = out_of(r, s->out);
    RIG_OK(qsa_merge(r->context, &r->geometry, batch->rows, s->records, s->record_stride, s->chunks,
                     batch->gate.data ? &batch->gate : NULL, &out, s->lse));
}

// Rows from `first` on of a result, for a batch that starts there.
static rig_result from_row(const rig *r, const rig_result *s, int32_t first) {
    const oracle_geometry *g = &r->config.geometry;
    rig_result view = *s;
    view.selection.ids += (int64_t)first * s->selection.stride;
    view.selection.count += first;
    view.selection.cut_index += first;
    view.selection.cut_cells += first;
    view.out += (size_t)first * (size_t)g->heads * (size_t)g->head_dim;
    view.lse += (size_t)first * (size_t)g->heads;
    return view;
}

void rig_run(rig *r, const rig_rows *rows, int32_t chunk, qsa_rule rule, bool gate, rig_result *s) {
    for (int32_t first = 0; first < rows->rows; first += chunk) {
        const int32_t count = rows->rows - first < chunk ? rows->rows - first : chunk;
        const qsa_batch batch = rig_batch(rows, &r->config.geometry, first, count, gate);
        rig_result view = from_row(r, s, first);
        rig_forward(r, 0, &batch, rule, &view);
        RIG_OK(qsa_cache_commit(r->cache));
    }
}

oracle_selection rig_selection(const rig *r, const rig_result *s, int32_t i, int32_t n, int32_t *cells) {
    const oracle_geometry *g = &r->config.geometry;
    const int32_t *ids = s->selection.ids + i * s->selection.stride;
    oracle_selection selection = {.n = n,
                                  .blocks = s->selection.count[i],
                                  .cut_index = s->selection.cut_index[i],
                                  .cut_cells = s->selection.cut_cells[i],
                                  .tail = n % g->ratio};
    selection.cells = selection.blocks * g->ratio + selection.tail;
    if (selection.cut_index >= 0)
        selection.cells -= g->ratio - selection.cut_cells;
    if (cells)
        oracle_cells(g, &selection, ids, cells);
    return selection;
}
