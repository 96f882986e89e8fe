// SPDX-License-Identifier: Apache-2.0
//
// A golden file through the library. Weights go in as the checkpoint has them (bf16, zero-centred),
// masked tokens are left out. Each chunk runs twice, without and with the gate, and a third and fourth
// time on the official selection where a row differs from it.
#include "golden_library.h"

#include "support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const golden *g;
    const golden_library_options *options;
    golden_library_figures *f;
    rig rig;
    rig_rows rows;           // of one chunk
    rig_result plain, gated; // of one chunk
    float *k, *v, *index;    // raw, of all cells of the sequence
    double *want;            // any official row, widened
    uint8_t *by_cell;
    int32_t *ids, *cells;
    int b;
    // Rows whose attention over the stored cache is still to be compared: kept until the end.
    struct kept {
        float *q, *attn;
        int32_t *cells, count;
    } * kept;
    int kept_count;
} pass;

static void raise_to(double *worst, double x) {
    *worst = isnan(x) ? INFINITY : x > *worst ? x : *worst;
}

static size_t q_size(const golden *g) {
    return (size_t)g->geometry.heads * (size_t)g->geometry.head_dim;
}

static const double *official(pass *p, const float *array, int32_t rows, int32_t r, size_t size) {
    oracle_widen(size, array + ((size_t)p->b * (size_t)rows + (size_t)r) * size, p->want);
    return p->want;
}

static void open_rig(pass *p) {
    const golden *g = p->g;
    const char *const names[4] = {"self_attn.q_norm.weight", "self_attn.k_norm.weight",
                                  "self_attn.indexer.q_layernorm.weight", "self_attn.indexer.k_layernorm.weight"};
    rig_config c = rig_defaults(&g->geometry, g->tokens);
    c.norm_type = QSA_BF16;
    for (int i = 0; i < 4; i++) {
        const st_tensor *tensor = st_find(g->file, names[i]);
        c.weight[i] = tensor->data;
    }
    c.kv_type = p->options->kv_type;
    c.block_key_type = p->options->block_key_type;
    c.threads = p->options->threads;
    c.page_cells = 16 * g->geometry.ratio;
    c.max_sequences = g->batch;
    rig_open(&p->rig, &c);
}

static bool wanted(const pass *p, int32_t r) {
    const int32_t first = p->options->first_row, count = p->options->row_count;
    return count == 0 || (r >= first && r < first + count);
}

// Stored row of the token that is cell c, or -1.
static int32_t stored_row(const pass *p, int32_t c) {
    const golden *g = p->g;
    const int32_t token = g->token_of_cell[p->b * g->tokens + c];
    for (int32_t r = 0; r < g->rows; r++)
        if (g->row[r] == token)
            return wanted(p, r) ? r : -1;
    return -1;
}

// Cells first .. first+count-1 into the chunk's rows; queries only of those that attend.
static void fill_chunk(pass *p, int32_t first, int32_t count) {
    const golden *g = p->g;
    const oracle_geometry *o = &g->geometry;
    const size_t kv = g->linear[GOLDEN_K].outputs, dim = (size_t)o->index_dim;
    for (int32_t i = 0; i < count; i++) {
        const size_t c = (size_t)first + (size_t)i;
        const int32_t token = g->token_of_cell[(size_t)p->b * (size_t)g->tokens + c];
        p->rows.sequences[i] = p->b;
        p->rows.attend[i] = stored_row(p, (int32_t)c) >= 0;
        memcpy(p->rows.positions + 3 * i, g->positions + ((size_t)p->b * (size_t)g->tokens + (size_t)token) * 3,
               3 * sizeof(int32_t));
        memcpy(rig_k(&p->rows, o, i), p->k + c * kv, kv * sizeof(float));
        memcpy(rig_v(&p->rows, o, i), p->v + c * kv, kv * sizeof(float));
        memcpy(rig_index(&p->rows, o, i) + o->index_heads * o->index_dim, p->index + c * dim, dim * sizeof(float));
        if (!p->rows.attend[i])
            continue;
        golden_project(g, GOLDEN_Q, p->b, token, rig_q(&p->rows, o, i));
        golden_project(g, GOLDEN_INDEX, p->b, token, rig_index(&p->rows, o, i));
    }
}

// The official selection of stored row r with n cells into p->ids; -1 if it is none.
static int32_t official_ids(pass *p, int32_t r, int32_t n) {
    if (golden_selected_cells(p->g, p->b, r, p->by_cell) != n)
        return -1;
    return oracle_blocks_of(&p->g->geometry, n, p->by_cell, p->ids);
}

// The verdict on row i of the chunk; puts the official ids in the place of the library's if they differ.
static oracle_kind judge(pass *p, int32_t i, int32_t r, int32_t n, double error) {
    const oracle_geometry *o = &p->g->geometry;
    const float *scores = p->g->scores + ((size_t)p->b * (size_t)p->g->rows + (size_t)r) * (size_t)p->g->blocks;
    qsa_selection *s = &p->plain.selection;
    const int32_t count = official_ids(p, r, n);
    p->f->widths += count * o->ratio + n % o->ratio != qsa_selected_cells(&p->rig.geometry, QSA_RULE_OFFICIAL, n);
    const oracle_kind kind =
        count < 0 ? ORACLE_WRONG
                  : oracle_classify(scores, n / o->ratio, p->ids, count, s->ids + i * s->stride, s->count[i], error);
    if (kind == ORACLE_TIE || kind == ORACLE_NEAR)
        memcpy(s->ids + i * s->stride, p->ids, (size_t)count * sizeof *p->ids);
    p->f->kinds[kind]++;
    return kind;
}

static void measure_cells(pass *p, int32_t first, int32_t count) {
    const golden *g = p->g;
    const size_t row = g->linear[GOLDEN_K].outputs;
    for (int32_t i = 0; g->k && g->v && i < count; i++) {
        const int32_t t = g->token_of_cell[p->b * g->tokens + first + i];
        raise_to(&p->f->k, oracle_max_abs_f32(row, p->plain.k + (size_t)i * row, official(p, g->k, g->tokens, t, row)));
        raise_to(&p->f->v, oracle_max_abs_f32(row, p->plain.v + (size_t)i * row, official(p, g->v, g->tokens, t, row)));
    }
}

// Stage outputs and the verdict. True if the row is to attend the official selection.
static bool measure_stages(pass *p, int32_t i, int32_t r, int32_t n) {
    const golden *g = p->g;
    const oracle_geometry *o = &g->geometry;
    const size_t size = q_size(g), index = (size_t)o->index_heads * (size_t)o->index_dim, blocks = (size_t)g->blocks;
    const size_t complete = (size_t)(n / o->ratio);
    raise_to(&p->f->q, oracle_max_abs_f32(size, p->plain.q + (size_t)i * size, official(p, g->q, g->rows, r, size)));
    raise_to(&p->f->index_q, oracle_max_abs_f32(index, p->plain.index_q + (size_t)i * index,
                                                official(p, g->index_q, g->rows, r, index)));
    oracle_widen(complete, g->scores + ((size_t)p->b * (size_t)g->rows + (size_t)r) * blocks, p->want);
    const double error = oracle_max_abs_f32(complete, p->plain.scores + i * p->plain.score_stride, p->want);
    raise_to(&p->f->scores, error);
    const oracle_kind kind = judge(p, i, r, n, error);
    return kind == ORACLE_TIE || kind == ORACLE_NEAR;
}

// What the comparison over the stored cache needs of row i, before its selection is replaced.
static void keep(pass *p, int32_t i, int32_t n) {
    const size_t size = q_size(p->g);
    struct kept *k = &p->kept[p->kept_count++];
    k->q = rig_new(size, sizeof(float));
    k->attn = rig_new(size, sizeof(float));
    k->cells = rig_new((size_t)oracle_max_cells(&p->g->geometry), sizeof(int32_t));
    memcpy(k->q, p->plain.q + (size_t)i * size, size * sizeof(float));
    memcpy(k->attn, p->plain.out + (size_t)i * size, size * sizeof(float));
    k->count = rig_selection(&p->rig, &p->plain, i, n, k->cells).cells;
}

static void run(pass *p, const qsa_batch *batch, const qsa_selection *use, rig_result *result) {
    const size_t row = q_size(p->g) * sizeof(float);
    size_t bytes;
    void *workspace = rig_workspace(&p->rig, QSA_STAGE_FORWARD, batch->rows, &bytes);
    const qsa_forward_options options = {
        .size = sizeof options, .use = use, .give = use ? NULL : &result->selection, .lse = result->lse};
    const qsa_rows_out out = {.data = result->out,
                              .type = QSA_F32,
                              .row_stride = (int64_t)row,
                              .head_stride = (int64_t)p->g->geometry.head_dim * 4};
    RIG_OK(qsa_forward(p->rig.context, p->rig.layer, p->rig.cache, 0, batch, &options, &out, workspace, bytes));
}

static void measure_outputs(pass *p, int32_t i, int32_t r) {
    const golden *g = p->g;
    const size_t size = q_size(g), hidden = (size_t)g->hidden_size;
    double *gated = rig_new(size, sizeof *gated), *out = rig_new(hidden, sizeof *out);
    raise_to(&p->f->attn,
             oracle_rel_l2_f32(size, p->plain.out + (size_t)i * size, official(p, g->attn, g->rows, r, size)));
    oracle_widen(size, p->gated.out + (size_t)i * size, gated);
    golden_apply_f64(g, GOLDEN_O, gated, out);
    raise_to(&p->f->out, oracle_rel_l2(hidden, out, official(p, g->out, g->rows, r, hidden)));
    free(gated);
    free(out);
}

static void run_chunk(pass *p, int32_t first, int32_t count) {
    const oracle_geometry *o = &p->g->geometry;
    fill_chunk(p, first, count);
    const qsa_batch plain = rig_batch(&p->rows, o, 0, count, false);
    const qsa_batch gated = rig_batch(&p->rows, o, 0, count, true);
    bool differs = false;
    rig_observe(&p->rig, 0, &plain, &p->plain);
    run(p, &plain, NULL, &p->plain);
    run(p, &gated, NULL, &p->gated);
    measure_cells(p, first, count);
    for (int32_t i = 0; i < count; i++) {
        if (!p->rows.attend[i])
            continue;
        keep(p, i, first + i + 1);
        differs = measure_stages(p, i, stored_row(p, first + i), first + i + 1) || differs;
    }
    if (differs) {
        run(p, &plain, &p->plain.selection, &p->plain);
        run(p, &gated, &p->plain.selection, &p->gated);
    }
    for (int32_t i = 0; i < count; i++) {
        if (!p->rows.attend[i])
            continue;
        p->f->rows++;
        measure_outputs(p, i, stored_row(p, first + i));
    }
    RIG_OK(qsa_cache_commit(p->rig.cache));
}

static void measure_stored(pass *p) {
    const size_t size = q_size(p->g);
    double *q = rig_new(size, sizeof *q), *o = rig_new(size, sizeof *o);
    rig_stored stored;
    rig_read(&p->rig, 0, p->b, &stored);
    for (int i = 0; i < p->kept_count; i++) {
        struct kept *k = &p->kept[i];
        oracle_widen(size, k->q, q);
        oracle_attend(&p->g->geometry, q, (oracle_rows){.f64 = stored.k}, (oracle_rows){.f64 = stored.v}, k->cells,
                      k->count, o, NULL);
        raise_to(&p->f->stored, oracle_rel_l2_f32(size, k->attn, o));
        free(k->q);
        free(k->attn);
        free(k->cells);
    }
    p->kept_count = 0;
    rig_stored_free(&stored);
    free(q);
    free(o);
}

static void run_sequence(pass *p) {
    const golden *g = p->g;
    const size_t row = g->linear[GOLDEN_K].outputs, dim = (size_t)g->geometry.index_dim;
    p->k = golden_project_cells(g, GOLDEN_K, p->b, 0, row);
    p->v = golden_project_cells(g, GOLDEN_V, p->b, 0, row);
    p->index = golden_project_cells(g, GOLDEN_INDEX, p->b, (size_t)g->geometry.index_heads * dim, dim);
    for (int32_t first = 0; first < g->cells[p->b]; first += p->options->chunk) {
        const int32_t rest = g->cells[p->b] - first;
        run_chunk(p, first, rest < p->options->chunk ? rest : p->options->chunk);
    }
    measure_stored(p);
    for (int32_t r = 0; r < g->rows; r++)
        p->f->skipped += wanted(p, r) && g->cell_of_token[p->b * g->tokens + g->row[r]] < 0;
    free(p->k);
    free(p->v);
    free(p->index);
}

void golden_library_measure(const golden *g, const golden_library_options *options, golden_library_figures *f) {
    const size_t tokens = (size_t)g->tokens;
    pass p = {.g = g, .options = options, .f = f};
    *f = (golden_library_figures){0};
    open_rig(&p);
    rig_rows_init(&p.rows, &g->geometry, options->chunk, 1);
    rig_result_init(&p.plain, &p.rig, options->chunk);
    rig_result_init(&p.gated, &p.rig, options->chunk);
    p.want = rig_new(q_size(g) + g->linear[GOLDEN_INDEX].outputs + (size_t)g->hidden_size + (size_t)g->blocks,
                     sizeof *p.want);
    p.by_cell = rig_new(tokens, 1);
    p.ids = rig_new(tokens, sizeof *p.ids);
    p.cells = rig_new(tokens, sizeof *p.cells);
    p.kept = rig_new((size_t)g->rows, sizeof *p.kept);
    for (p.b = 0; p.b < g->batch; p.b++)
        run_sequence(&p);
    rig_result_free(&p.plain);
    rig_result_free(&p.gated);
    rig_rows_free(&p.rows);
    rig_close(&p.rig);
    free(p.want);
    free(p.by_cell);
    free(p.ids);
    free(p.cells);
    free(p.kept);
}

static const char *type_name(qsa_type type) {
    return type == QSA_F32 ? "f32" : type == QSA_F16 ? "f16" : type == QSA_BF16 ? "bf16" : "i8";
}

void golden_library_print(const char *name, const golden_library_options *options, const golden_library_figures *f) {
    printf("%s, cache %s, block keys %s: %d rows (%d masked); equal %d, tie %d, near %d, wrong %d\n", name,
           type_name(options->kv_type), type_name(options->block_key_type), f->rows, f->skipped, f->kinds[ORACLE_EQUAL],
           f->kinds[ORACLE_TIE], f->kinds[ORACLE_NEAR], f->kinds[ORACLE_WRONG]);
    printf("  max abs: q %.2e, k %.2e, v %.2e, index_q %.2e, scores %.2e; relative l2: attn %.2e, out %.2e, over the "
           "stored cache %.2e\n",
           f->q, f->k, f->v, f->index_q, f->scores, f->attn, f->out, f->stored);
}

const char *golden_library_objection(const golden_library_options *options, const golden_library_figures *f) {
    const qsa_type kv = options->kv_type;
    const double format = kv == QSA_F32 ? 5e-6 : kv == QSA_F16 ? 1e-3 : kv == QSA_BF16 ? 5e-3 : 1.2e-2;
    const struct {
        const char *name;
        double value, bound;
    } bounds[] = {{"wrong selections", f->kinds[ORACLE_WRONG], 0},
                  {"widths", f->widths, 0},
                  {"q", f->q, 4e-6},
                  {"k", f->k, 4e-6},
                  {"v", f->v, 4e-6},
                  {"index_q", f->index_q, 4e-6},
                  {"scores", options->block_key_type == QSA_F32 ? f->scores : 0, 8e-6},
                  {"attn", f->attn, format},
                  {"out", kv == QSA_F32 ? f->out : 0, 5e-6},
                  {"attn over the stored cache", f->stored, 2e-6}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (!(bounds[i].value <= bounds[i].bound))
            return bounds[i].name;
    return f->rows == 0 || f->kinds[ORACLE_EQUAL] == 0 ? "nothing compared" : NULL;
}
