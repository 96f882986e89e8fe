// SPDX-License-Identifier: Apache-2.0
//
// One batch through one layer: by forward, or by the five stages, with every output taken to its token's place.
#include "fixture.h"
#include "host/host_call.h"

#include <stdlib.h>
#include <string.h>

fx_batch fx_batch_make(const fx_session *s, int32_t layer, int32_t rows, const int32_t *tokens) {
    const fx_world *w = s->world;
    const int32_t per_row = w->positions_per_row;
    fx_batch b = {.rows = rows};
    b.tokens = fx_alloc((size_t)rows * 4);
    b.sequences = fx_alloc((size_t)rows * 4);
    b.positions = fx_alloc((size_t)(rows * per_row) * 4);
    b.attend = fx_alloc((size_t)rows);
    for (int32_t i = 0; i < rows; i++) {
        int32_t of = 0;
        while (tokens[i] >= w->first[of] + w->length[of])
            of++;
        b.tokens[i] = tokens[i];
        b.sequences[i] = s->sequence[of];
        b.attend[i] = w->attend[tokens[i]];
        memcpy(b.positions + (size_t)i * (size_t)per_row, w->positions + 3 * (size_t)tokens[i], (size_t)per_row * 4);
    }
    for (int a = 0; a < FX_ARRAYS; a++) {
        int32_t heads, dim;
        fx_shape(&w->geometry, (fx_array)a, &heads, &dim);
        b.arrays[a] = fx_rows_make(rows, heads, dim, s->options.raw_type, s->options.layout);
        fx_rows_fill(&b.arrays[a], w->values[layer][a], tokens);
    }
    b.batch = (qsa_batch){.size = sizeof b.batch,
                          .rows = rows,
                          .sequences = b.sequences,
                          .positions = b.positions,
                          .positions_per_row = per_row,
                          .q = fx_rows_in(&b.arrays[FX_Q]),
                          .k = fx_rows_in(&b.arrays[FX_K]),
                          .v = fx_rows_in(&b.arrays[FX_V]),
                          .index_q = fx_rows_in(&b.arrays[FX_INDEX_Q]),
                          .index_k = fx_rows_in(&b.arrays[FX_INDEX_K]),
                          .attend = s->options.masked ? b.attend : NULL};
    if (s->options.gate)
        b.batch.gate = fx_rows_in(&b.arrays[FX_GATE]);
    return b;
}

void fx_batch_free(fx_batch *b) {
    free(b->tokens);
    free(b->sequences);
    free(b->positions);
    free(b->attend);
    for (int a = 0; a < FX_ARRAYS; a++)
        free(b->arrays[a].memory);
}

void *fx_workspace(const fx_session *s, qsa_stage stage, int32_t rows, size_t *bytes) {
    FX_OK(qsa_workspace_size(s->context, s->cache, stage, rows, bytes));
    return (unsigned char *)fx_alloc(*bytes + 1) + 1;
}

void fx_workspace_free(void *workspace) {
    free((unsigned char *)workspace - 1);
}

// Selection arrays of some rows, filled with the pattern.
static qsa_selection selection_make(const qsa_geometry *g, qsa_rule rule, int32_t rows) {
    qsa_selection s = {.size = sizeof s, .stride = qsa_selection_stride(g, rule)};
    s.ids = fx_alloc((size_t)rows * (size_t)s.stride * 4);
    s.count = fx_alloc((size_t)rows * 4);
    s.cut_index = fx_alloc((size_t)rows * 4);
    s.cut_cells = fx_alloc((size_t)rows * 4);
    return s;
}

static void selection_free(qsa_selection *s) {
    free(s->ids);
    free(s->count);
    free(s->cut_index);
    free(s->cut_cells);
}

// Row i of a selection to its token's place, or from it.
static void selection_copy(const qsa_selection *s, int32_t i, const fx_results *r, int32_t layer, int32_t token,
                           int from) {
    const struct {
        fx_section section;
        void *here;
        size_t bytes;
    } parts[] = {{FX_IDS, s->ids + i * s->stride, (size_t)s->stride * 4},
                 {FX_COUNT, s->count + i, 4},
                 {FX_CUT_INDEX, s->cut_index + i, 4},
                 {FX_CUT_CELLS, s->cut_cells + i, 4}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        unsigned char *there = fx_at(r, layer, parts[p].section, token);
        memcpy(from ? parts[p].here : there, from ? there : parts[p].here, parts[p].bytes);
    }
}

static int attends(const fx_batch *b, int32_t i) {
    return !b->batch.attend || b->batch.attend[i];
}

void fx_compute(fx_session *s, int32_t layer, const fx_batch *b, fx_results *r) {
    if (s->options.stages) {
        fx_compute_stages(s, layer, b, r);
        return;
    }
    const qsa_geometry *g = &s->world->geometry;
    const int32_t rows = b->rows, world_layer = s->options.first_layer + layer;
    fx_rows out = fx_rows_make(rows, g->heads, g->head_dim, s->options.out_type, s->options.layout);
    float *lse = fx_alloc((size_t)rows * (size_t)g->heads * 4);
    qsa_selection give = selection_make(g, s->options.rule, rows), use = selection_make(g, s->options.rule, rows);
    for (int32_t i = 0; s->options.use && i < rows; i++)
        selection_copy(&use, i, s->options.use, world_layer, b->tokens[i], 1);
    qsa_forward_options options = {.size = sizeof options, .rule = s->options.rule, .give = &give, .lse = lse};
    options.use = s->options.use ? &use : NULL;
    const qsa_rows_out to = fx_rows_out(&out);
    if (host_is_device(s->context)) {
        FX_OK(host_forward(s->context, g, s->layer[layer], s->cache, layer, &b->batch, &options, &to));
    } else {
        size_t bytes;
        void *workspace = fx_workspace(s, QSA_STAGE_FORWARD, rows, &bytes);
        FX_OK(qsa_forward(s->context, s->layer[layer], s->cache, layer, &b->batch, &options, &to, workspace, bytes));
        fx_workspace_free(workspace);
    }
    unsigned char *scrap = fx_alloc((size_t)g->heads * (size_t)g->head_dim * 4);
    for (int32_t i = 0; i < rows; i++) {
        if (r) {
            memcpy(fx_at(r, world_layer, FX_LSE, b->tokens[i]), lse + (size_t)i * (size_t)g->heads, r->row[FX_LSE]);
            selection_copy(&give, i, r, world_layer, b->tokens[i], 0);
        }
        // Of a row that does not attend the pattern stays, and is found by the check below if it does not.
        if (attends(b, i))
            fx_rows_take(&out, i, r ? fx_at(r, world_layer, FX_OUT, b->tokens[i]) : scrap);
    }
    free(scrap);
    fx_rows_check_and_free(&out);
    free(lse);
    selection_free(&give);
    selection_free(&use);
}

// The arrays of the stage calls: prep's for all rows, the others for the `count` rows that attend.
typedef struct stage_arrays {
    int32_t count;
    int32_t *rows, *tokens, *sequences, *cells, *chunks; // [count]
    float *q, *index_q, *scores, *records, *lse;
    int64_t score_stride, record_stride;
    qsa_selection selection;
    qsa_prep_out prep;
} stage_arrays;

static void run_prep(fx_session *s, int32_t layer, const fx_batch *b, stage_arrays *a) {
    const qsa_geometry *g = &s->world->geometry;
    const size_t rows = (size_t)b->rows, q = (size_t)g->heads * (size_t)g->head_dim;
    const size_t iq = (size_t)g->index_heads * (size_t)g->index_dim, k = (size_t)g->kv_heads * (size_t)g->head_dim;
    a->prep = (qsa_prep_out){.size = sizeof a->prep,
                             .q = fx_alloc(rows * q * 4),
                             .index_q = fx_alloc(rows * iq * 4),
                             .k = fx_alloc(rows * k * 4),
                             .v = fx_alloc(rows * k * 4),
                             .cells = fx_alloc(rows * 4)};
    if (host_is_device(s->context)) {
        FX_OK(host_prep(s->context, g, s->layer[layer], s->cache, layer, &b->batch, &a->prep));
    } else {
        size_t bytes;
        void *workspace = fx_workspace(s, QSA_STAGE_PREP, b->rows, &bytes);
        FX_OK(qsa_prep(s->context, s->layer[layer], s->cache, layer, &b->batch, &a->prep, workspace, bytes));
        fx_workspace_free(workspace);
    }
    a->rows = fx_alloc(rows * 4);
    a->tokens = fx_alloc(rows * 4);
    a->sequences = fx_alloc(rows * 4);
    a->cells = fx_alloc(rows * 4);
    a->chunks = fx_alloc(rows * 4);
    a->q = fx_alloc(rows * q * 4);
    a->index_q = fx_alloc(rows * iq * 4);
    for (int32_t i = 0; i < b->rows; i++) {
        if (!attends(b, i))
            continue;
        const size_t at = (size_t)a->count++;
        a->rows[at] = i;
        a->tokens[at] = b->tokens[i];
        a->sequences[at] = b->sequences[i];
        a->cells[at] = a->prep.cells[i];
        memcpy(a->q + at * q, a->prep.q + (size_t)i * q, q * 4);
        memcpy(a->index_q + at * iq, a->prep.index_q + (size_t)i * iq, iq * 4);
    }
}

static void run_on_device(fx_session *s, int32_t layer, const qsa_row_set *set, stage_arrays *a) {
    const qsa_geometry *g = &s->world->geometry;
    FX_OK(host_score(s->context, g, s->cache, layer, set, a->index_q, a->scores, a->score_stride));
    FX_OK(host_topk(s->context, g, s->options.rule, a->count, a->cells, a->scores, a->score_stride, &a->selection));
    FX_OK(
        host_attend(s->context, g, s->cache, layer, set, a->q, &a->selection, a->records, a->record_stride, a->chunks));
}

static void run_score_to_attend(fx_session *s, int32_t layer, stage_arrays *a) {
    const qsa_geometry *g = &s->world->geometry;
    const qsa_row_set set = {.size = sizeof set, .rows = a->count, .sequences = a->sequences, .cells = a->cells};
    int32_t most = 0;
    for (int32_t i = 0; i < a->count; i++)
        most = a->cells[i] > most ? a->cells[i] : most;
    a->score_stride = most / g->ratio;
    a->scores = fx_alloc((size_t)a->count * (size_t)a->score_stride * 4);
    a->selection = selection_make(g, s->options.rule, a->count);
    a->record_stride = (int64_t)qsa_max_chunks(g) * g->heads * (2 + g->head_dim);
    a->records = fx_alloc((size_t)a->count * (size_t)a->record_stride * 4);
    if (host_is_device(s->context)) {
        run_on_device(s, layer, &set, a);
        return;
    }
    size_t bytes;
    void *workspace = fx_workspace(s, QSA_STAGE_SCORE, a->count, &bytes);
    FX_OK(qsa_score(s->context, s->cache, layer, &set, a->index_q, a->scores, a->score_stride, workspace, bytes));
    fx_workspace_free(workspace);
    FX_OK(qsa_topk(s->context, g, s->options.rule, a->count, a->cells, a->scores, a->score_stride, &a->selection));
    workspace = fx_workspace(s, QSA_STAGE_ATTEND, a->count, &bytes);
    FX_OK(qsa_attend(s->context, s->cache, layer, &set, a->q, &a->selection, a->records, a->record_stride, a->chunks,
                     workspace, bytes));
    fx_workspace_free(workspace);
}

static void run_merge(fx_session *s, int32_t layer, stage_arrays *a, fx_results *r) {
    const qsa_geometry *g = &s->world->geometry;
    const int32_t world_layer = s->options.first_layer + layer;
    fx_rows out = fx_rows_make(a->count, g->heads, g->head_dim, s->options.out_type, s->options.layout);
    fx_rows gates = fx_rows_make(a->count, g->heads, g->head_dim, s->options.raw_type, s->options.layout);
    fx_rows_fill(&gates, s->world->values[world_layer][FX_GATE], a->tokens);
    a->lse = fx_alloc((size_t)a->count * (size_t)g->heads * 4);
    const qsa_rows_out to = fx_rows_out(&out);
    const qsa_rows gate = fx_rows_in(&gates);
    FX_OK(host_merge(s->context, g, a->count, a->records, a->record_stride, a->chunks, s->options.gate ? &gate : NULL,
                     &to, a->lse));
    unsigned char *scrap = fx_alloc((size_t)g->heads * (size_t)g->head_dim * 4);
    for (int32_t i = 0; i < a->count; i++)
        fx_rows_take(&out, i, r ? fx_at(r, world_layer, FX_OUT, a->tokens[i]) : scrap);
    free(scrap);
    free(gates.memory);
    fx_rows_check_and_free(&out);
}

static void collect(const fx_session *s, int32_t layer, const fx_batch *b, const stage_arrays *a, fx_results *r) {
    const int32_t l = s->options.first_layer + layer;
    for (int32_t i = 0; i < b->rows; i++) {
        const size_t at = (size_t)i;
        memcpy(fx_at(r, l, FX_PREP_Q, b->tokens[i]), (char *)a->prep.q + at * r->row[FX_PREP_Q], r->row[FX_PREP_Q]);
        memcpy(fx_at(r, l, FX_PREP_INDEX_Q, b->tokens[i]), (char *)a->prep.index_q + at * r->row[FX_PREP_INDEX_Q],
               r->row[FX_PREP_INDEX_Q]);
        memcpy(fx_at(r, l, FX_PREP_K, b->tokens[i]), (char *)a->prep.k + at * r->row[FX_PREP_K], r->row[FX_PREP_K]);
        memcpy(fx_at(r, l, FX_PREP_V, b->tokens[i]), (char *)a->prep.v + at * r->row[FX_PREP_V], r->row[FX_PREP_V]);
        memcpy(fx_at(r, l, FX_PREP_CELLS, b->tokens[i]), a->prep.cells + i, 4);
    }
    for (int32_t i = 0; i < a->count; i++) {
        const size_t at = (size_t)i;
        memcpy(fx_at(r, l, FX_SCORES, a->tokens[i]), a->scores + i * a->score_stride,
               (size_t)(a->cells[i] / s->world->geometry.ratio) * 4);
        memcpy(fx_at(r, l, FX_LSE, a->tokens[i]), (char *)a->lse + at * r->row[FX_LSE], r->row[FX_LSE]);
        selection_copy(&a->selection, i, r, l, a->tokens[i], 0);
    }
}

void fx_compute_stages(fx_session *s, int32_t layer, const fx_batch *b, fx_results *r) {
    stage_arrays a = {0};
    run_prep(s, layer, b, &a);
    run_score_to_attend(s, layer, &a);
    run_merge(s, layer, &a, r);
    if (r)
        collect(s, layer, b, &a, r);
    void *const arrays[] = {a.rows,    a.tokens, a.sequences, a.cells,        a.chunks, a.q,      a.index_q,   a.scores,
                            a.records, a.lse,    a.prep.q,    a.prep.index_q, a.prep.k, a.prep.v, a.prep.cells};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    selection_free(&a.selection);
}
