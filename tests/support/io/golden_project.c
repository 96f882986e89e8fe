// SPDX-License-Identifier: Apache-2.0
//
// Projections of the official vectors' hidden states, in double with one rounding at the end, and
// what is made of them: sequences of the oracle, selections by cell.
#include "golden.h"

#include <stdlib.h>

void golden_apply_f64(const golden *g, golden_projection p, const double *x, double *out) {
    const golden_linear *linear = &g->linear[p];
    for (size_t o = 0; o < linear->outputs; o++) {
        const float *weight = linear->weight + o * linear->inputs;
        double sum = 0;
        for (size_t i = 0; i < linear->inputs; i++) {
            sum += x[i] * weight[i];
        }
        out[o] = linear->bias ? sum + linear->bias[o] : sum;
    }
}

// Outputs first .. first+count-1.
static void apply(const golden_linear *linear, const float *x, size_t first, size_t count, float *out) {
    for (size_t o = 0; o < count; o++) {
        const float *weight = linear->weight + (first + o) * linear->inputs;
        double sum = 0;
        for (size_t i = 0; i < linear->inputs; i++) {
            sum += (double)x[i] * weight[i];
        }
        out[o] = (float)(linear->bias ? sum + linear->bias[first + o] : sum);
    }
}

static const float *hidden_of(const golden *g, int b, int32_t t) {
    return g->hidden + ((size_t)b * (size_t)g->tokens + (size_t)t) * (size_t)g->hidden_size;
}

void golden_apply(const golden *g, golden_projection p, const float *x, float *out) {
    apply(&g->linear[p], x, 0, g->linear[p].outputs, out);
}

void golden_project(const golden *g, golden_projection p, int b, int32_t t, float *out) {
    golden_apply(g, p, hidden_of(g, b, t), out);
}

float *golden_project_cells(const golden *g, golden_projection p, int b, size_t first, size_t count) {
    const int32_t *tokens = g->token_of_cell + (size_t)b * (size_t)g->tokens;
    float *out = malloc(((size_t)g->cells[b] * count + 1) * sizeof *out);
    if (!out) {
        abort();
    }
    for (int32_t c = 0; c < g->cells[b]; c++) {
        apply(&g->linear[p], hidden_of(g, b, tokens[c]), first, count, out + (size_t)c * count);
    }
    return out;
}

void golden_sequence(const golden *g, int b, oracle_format kv_format, oracle_format key_format, oracle_sequence *s) {
    size_t row = g->linear[GOLDEN_K].outputs, dim = (size_t)g->geometry.index_dim;
    float *k = golden_project_cells(g, GOLDEN_K, b, 0, row);
    float *v = golden_project_cells(g, GOLDEN_V, b, 0, row);
    float *index = golden_project_cells(g, GOLDEN_INDEX, b, (size_t)g->geometry.index_heads * dim, dim);
    oracle_sequence_init(s, &g->geometry, &g->norms, kv_format, key_format);
    for (int32_t c = 0; c < g->cells[b]; c++) {
        size_t token =
            (size_t)b * (size_t)g->tokens + (size_t)g->token_of_cell[(size_t)b * (size_t)g->tokens + (size_t)c];
        oracle_sequence_append(s, k + (size_t)c * row, v + (size_t)c * row, index + (size_t)c * dim,
                               g->positions + token * 3);
    }
    free(k);
    free(v);
    free(index);
}

int32_t golden_selected_cells(const golden *g, int b, int32_t r, uint8_t *by_cell) {
    size_t base = (size_t)b * (size_t)g->tokens;
    const uint8_t *selected = g->selected + ((size_t)b * (size_t)g->rows + (size_t)r) * (size_t)g->tokens;
    const int32_t *cell = g->cell_of_token + base;
    if (cell[g->row[r]] < 0) {
        return 0;
    }
    for (int32_t t = 0; t < g->tokens; t++) {
        if (t <= g->row[r] && cell[t] >= 0) {
            by_cell[cell[t]] = selected[t];
        } else if (selected[t]) {
            return -1;
        }
    }
    return cell[g->row[r]] + 1;
}
