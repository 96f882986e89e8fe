// SPDX-License-Identifier: Apache-2.0
//
// The oracle against one golden file. Two passes over the rows: the near verdict needs the score
// error of the whole file first.
#include "golden_measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// One row of the file: where it is, and scratch for it.
typedef struct {
    const golden *g;
    golden_figures *f;
    oracle_sequence sequence;
    oracle_row row;
    double *want; // any official row, widened
    float *raw_q, *raw_index;
    uint8_t *by_cell;
    int32_t *ids, *cells;
    int b;
    int32_t r, n; // stored row; cells of it, 0 when masked
    bool final;   // second pass: selection and attention
} pass;

static void *scratch(size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    if (!p) {
        abort();
    }
    return p;
}

static void raise_to(double *worst, double x) {
    *worst = isnan(x) ? INFINITY : x > *worst ? x : *worst;
}

static size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

// Row `r` (or token) of an official array of `size` floats per row, `rows` rows per sequence.
static const double *official(pass *p, const float *array, int32_t rows, int32_t r, size_t size) {
    oracle_widen(size, array + ((size_t)p->b * (size_t)rows + (size_t)r) * size, p->want);
    return p->want;
}

static void measure_table(pass *p, const int32_t positions[3]) {
    const golden *g = p->g;
    int half = g->geometry.rotary_dim / 2;
    int32_t r = g->table_rows == g->rows ? p->r : g->row[p->r];
    size_t base = ((size_t)p->b * (size_t)g->table_rows + (size_t)r) * 2 * (size_t)half;
    float tables[2][1024];
    const float *wants[2] = {g->cos_table + base, g->sin_table + base};
    oracle_rope_table(&g->geometry, positions, tables[0], tables[1]);
    for (int i = 0; i < 4 * half; i++) { // cos and sin, both their halves
        double d = fabs((double)tables[i / (2 * half)][i % half] - wants[i / (2 * half)][i % (2 * half)]);
        p->f->tables += d != 0;
        raise_to(&p->f->table, d);
    }
}

static void measure_scores(pass *p) {
    const float *want = p->g->scores + ((size_t)p->b * (size_t)p->g->rows + (size_t)p->r) * (size_t)p->g->blocks;
    int32_t complete = p->n / p->g->geometry.ratio;
    for (int32_t b = 0; b < p->g->blocks; b++) {
        if (b >= complete) {
            p->f->causal += want[b] != -INFINITY;
        } else {
            p->f->causal += !isfinite(want[b]);
            raise_to(&p->f->scores, fabs(p->row.stored[b] - (double)want[b]));
        }
    }
}

static void measure_selection(pass *p) {
    const oracle_geometry *o = &p->g->geometry;
    const float *scores = p->g->scores + ((size_t)p->b * (size_t)p->g->rows + (size_t)p->r) * (size_t)p->g->blocks;
    int32_t n = golden_selected_cells(p->g, p->b, p->r, p->by_cell), count = 0;
    for (int32_t c = 0; c < n; c++) {
        if (p->by_cell[c]) {
            p->cells[count++] = c;
        }
    }
    p->f->widths += count != oracle_width(o, ORACLE_OFFICIAL, p->n);
    int32_t blocks = n == p->n ? oracle_blocks_of(o, n, p->by_cell, p->ids) : -1;
    oracle_kind kind = blocks < 0 ? ORACLE_WRONG
                                  : oracle_classify(scores, p->n / o->ratio, p->ids, blocks, p->row.ids,
                                                    p->row.selection.blocks, p->f->scores);
    p->f->kinds[kind]++;
    if (kind == ORACLE_TIE || kind == ORACLE_NEAR) {
        oracle_row_attend(&p->row, &p->sequence, p->cells, count);
    }
}

static void measure_attention(pass *p) {
    const golden *g = p->g;
    const oracle_geometry *o = &g->geometry;
    size_t size = (size_t)o->heads * (size_t)o->head_dim, hidden = (size_t)g->hidden_size;
    const double *want = official(p, g->attn, g->rows, p->r, size);
    raise_to(&p->f->attn, oracle_rel_l2(size, p->row.o, want));
    raise_to(&p->f->head, oracle_worst_head(o->heads, o->head_dim, p->row.o, want, NULL));
    double *out = scratch(hidden, sizeof *out);
    golden_apply_f64(g, GOLDEN_O, p->row.gated, out);
    raise_to(&p->f->out, oracle_rel_l2(hidden, out, official(p, g->out, g->rows, p->r, hidden)));
    free(out);
}

static void measure_row(pass *p) {
    const golden *g = p->g;
    const oracle_geometry *o = &g->geometry;
    size_t size = (size_t)o->heads * (size_t)o->head_dim, index = (size_t)o->index_heads * (size_t)o->index_dim;
    int32_t token = g->row[p->r];
    size_t at = (size_t)p->b * (size_t)g->tokens + (size_t)token;
    const int32_t *positions = g->positions + at * 3;
    p->n = g->cell_of_token[at] + 1;
    if (p->n == 0) {
        p->f->skipped += p->final;
        return;
    }
    golden_project(g, GOLDEN_Q, p->b, token, p->raw_q);
    golden_project(g, GOLDEN_INDEX, p->b, token, p->raw_index);
    oracle_row_compute(&p->row, &p->sequence, ORACLE_OFFICIAL, p->n, p->raw_q, p->raw_index, positions);
    if (!p->final) {
        measure_scores(p);
        return;
    }
    p->f->rows++;
    measure_table(p, positions);
    raise_to(&p->f->q, oracle_max_abs(size, p->row.q, official(p, g->q, g->rows, p->r, size)));
    raise_to(&p->f->gate, oracle_rel_l2(size, p->row.gate, official(p, g->gate, g->rows, p->r, size)));
    raise_to(&p->f->index_q, oracle_max_abs(index, p->row.index_q, official(p, g->index_q, g->rows, p->r, index)));
    measure_selection(p);
    measure_attention(p);
}

// Keys, values and raw index keys of all cells, where the file has them.
static void measure_cells(pass *p) {
    const golden *g = p->g;
    const oracle_sequence *s = &p->sequence;
    size_t row = g->linear[GOLDEN_K].outputs, dim = (size_t)g->geometry.index_dim;
    for (int32_t c = 0; g->k && g->v && g->index_k_raw && c < g->cells[p->b]; c++) {
        int32_t t = g->token_of_cell[p->b * g->tokens + c];
        size_t cell = (size_t)c;
        raise_to(&p->f->k, oracle_max_abs(row, s->k + cell * row, official(p, g->k, g->tokens, t, row)));
        raise_to(&p->f->v, oracle_rel_l2(row, s->v + cell * row, official(p, g->v, g->tokens, t, row)));
        raise_to(&p->f->index_k_raw,
                 oracle_rel_l2_f32(dim, s->raw_index_k + cell * dim, official(p, g->index_k_raw, g->tokens, t, dim)));
    }
}

void golden_measure(const golden *g, golden_figures *f) {
    const oracle_geometry *o = &g->geometry;
    size_t tokens = (size_t)g->tokens, size = (size_t)o->heads * (size_t)o->head_dim;
    pass p = {.g = g, .f = f};
    *f = (golden_figures){0};
    p.want = scratch(max_size(size, max_size(g->linear[GOLDEN_INDEX].outputs, (size_t)g->hidden_size)), sizeof *p.want);
    p.raw_q = scratch(2 * size, sizeof *p.raw_q);
    p.raw_index = scratch(g->linear[GOLDEN_INDEX].outputs, sizeof *p.raw_index);
    p.by_cell = scratch(tokens, sizeof *p.by_cell);
    p.ids = scratch(tokens, sizeof *p.ids);
    p.cells = scratch(tokens, sizeof *p.cells);
    oracle_row_init(&p.row, o, g->tokens);
    for (int stage = 0; stage < 2; stage++) {
        p.final = stage == 1;
        for (p.b = 0; p.b < g->batch; p.b++) {
            golden_sequence(g, p.b, ORACLE_F64, ORACLE_F64, &p.sequence);
            measure_cells(&p);
            for (p.r = 0; p.r < g->rows; p.r++) {
                measure_row(&p);
            }
            oracle_sequence_free(&p.sequence);
        }
    }
    oracle_row_free(&p.row);
    free(p.want);
    free(p.raw_q);
    free(p.raw_index);
    free(p.by_cell);
    free(p.ids);
    free(p.cells);
}

void golden_print(const char *name, const golden_figures *f) {
    printf("%s: %d rows (%d masked); equal %d, tie %d, near %d, wrong %d; bad widths %d, bad causality %d\n", name,
           f->rows, f->skipped, f->kinds[ORACLE_EQUAL], f->kinds[ORACLE_TIE], f->kinds[ORACLE_NEAR],
           f->kinds[ORACLE_WRONG], f->widths, f->causal);
    printf("  max abs: q %.2e, k %.2e, index_q %.2e, scores %.2e\n", f->q, f->k, f->index_q, f->scores);
    printf("  cos and sin: %d values of other bits, by up to %.2e\n", f->tables, f->table);
    printf("  relative l2: gate %.2e, v %.2e, raw index key %.2e; attn %.2e (worst head %.2e), out %.2e\n", f->gate,
           f->v, f->index_k_raw, f->attn, f->head, f->out);
}

const char *golden_objection(const golden_figures *f) {
    const struct {
        const char *name;
        double value, bound;
    } bounds[] = {{"wrong selections", f->kinds[ORACLE_WRONG], 0},
                  {"widths", f->widths, 0},
                  {"causality", f->causal, 0},
                  {"cos and sin", f->table, 0x1p-24},
                  {"q", f->q, 1e-6},
                  {"k", f->k, 1e-6},
                  {"index_q", f->index_q, 1e-6},
                  {"scores", f->scores, 2e-6},
                  {"gate", f->gate, 1e-6},
                  {"v", f->v, 1e-6},
                  {"raw index keys", f->index_k_raw, 1e-6},
                  {"attn", f->attn, 5e-6},
                  {"attn of a head", f->head, 5e-6},
                  {"out", f->out, 5e-6}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        if (!(bounds[i].value <= bounds[i].bound)) {
            return bounds[i].name;
        }
    }
    return f->rows == 0 || f->kinds[ORACLE_EQUAL] == 0 ? "nothing compared" : NULL;
}
