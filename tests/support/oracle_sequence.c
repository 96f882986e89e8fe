// SPDX-License-Identifier: Apache-2.0
//
// A sequence of the oracle: grows by doubling, keeps everything.
#include "oracle_sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *resized(void *old, size_t count, size_t size) {
    void *p = realloc(old, (count + 1) * size);
    if (!p) {
        abort();
    }
    return p;
}

static size_t kv_size(const oracle_geometry *g) {
    return (size_t)g->kv_heads * (size_t)g->head_dim;
}

static size_t q_size(const oracle_geometry *g) {
    return (size_t)g->heads * (size_t)g->head_dim;
}

void oracle_sequence_init(oracle_sequence *s, const oracle_geometry *g, const oracle_norms *norms,
                          oracle_format kv_format, oracle_format key_format) {
    *s = (oracle_sequence){.geometry = *g, .norms = *norms, .kv_format = kv_format, .key_format = key_format};
}

void oracle_sequence_free(oracle_sequence *s) {
    free(s->k);
    free(s->v);
    free(s->raw_index_k);
    free(s->positions);
    free(s->block_keys);
    memset(s, 0, sizeof *s);
}

static void grow(oracle_sequence *s) {
    size_t n = s->capacity ? 2 * (size_t)s->capacity : 64, dim = (size_t)s->geometry.index_dim;
    s->k = resized(s->k, n * kv_size(&s->geometry), sizeof *s->k);
    s->v = resized(s->v, n * kv_size(&s->geometry), sizeof *s->v);
    s->raw_index_k = resized(s->raw_index_k, n * dim, sizeof *s->raw_index_k);
    s->positions = resized(s->positions, n * 3, sizeof *s->positions);
    s->block_keys = resized(s->block_keys, n / (size_t)s->geometry.ratio * dim, sizeof *s->block_keys);
    s->capacity = (int32_t)n;
}

void oracle_sequence_append(oracle_sequence *s, const float *raw_k, const float *raw_v, const float *raw_index_k,
                            const int32_t positions[3]) {
    const oracle_geometry *g = &s->geometry;
    size_t row = kv_size(g), dim = (size_t)g->index_dim, cell = (size_t)s->cells;
    if (s->cells == s->capacity) {
        grow(s);
    }
    double *k = s->k + cell * row, *v = s->v + cell * row;
    oracle_key(g, &s->norms, raw_k, positions, k);
    oracle_widen(row, raw_v, v);
    for (int h = 0; h < g->kv_heads; h++) {
        double *k_head = k + h * g->head_dim, *v_head = v + h * g->head_dim;
        oracle_round_trip(s->kv_format, g->head_dim, k_head, k_head);
        oracle_round_trip(s->kv_format, g->head_dim, v_head, v_head);
    }
    memcpy(s->raw_index_k + cell * dim, raw_index_k, dim * sizeof *raw_index_k);
    memcpy(s->positions + cell * 3, positions, 3 * sizeof *positions);
    s->cells++;
    if (s->cells % g->ratio == 0) {
        size_t first = cell + 1 - (size_t)g->ratio;
        double *key = s->block_keys + first / (size_t)g->ratio * dim;
        oracle_block_key(g, &s->norms, s->raw_index_k + first * dim, dim, s->positions + first * 3, key);
        oracle_round_trip(s->key_format, g->index_dim, key, key);
    }
}

void oracle_sequence_truncate(oracle_sequence *s, int32_t cells) {
    assert(cells >= 0 && cells <= s->cells);
    s->cells = cells;
}

void oracle_row_init(oracle_row *row, const oracle_geometry *g, int32_t max_cells) {
    size_t blocks = (size_t)(max_cells / g->ratio);
    *row = (oracle_row){0};
    row->q = resized(NULL, q_size(g), sizeof *row->q);
    row->gate = resized(NULL, q_size(g), sizeof *row->gate);
    row->index_q = resized(NULL, (size_t)g->index_heads * (size_t)g->index_dim, sizeof *row->index_q);
    row->score = resized(NULL, blocks, sizeof *row->score);
    row->stored = resized(NULL, blocks, sizeof *row->stored);
    row->ids = resized(NULL, (size_t)oracle_max_ids(g, ORACLE_CUT), sizeof *row->ids);
    row->cells = resized(NULL, (size_t)oracle_max_cells(g), sizeof *row->cells);
    row->o = resized(NULL, q_size(g), sizeof *row->o);
    row->gated = resized(NULL, q_size(g), sizeof *row->gated);
    row->lse = resized(NULL, (size_t)g->heads, sizeof *row->lse);
}

void oracle_row_free(oracle_row *row) {
    free(row->q);
    free(row->gate);
    free(row->index_q);
    free(row->score);
    free(row->stored);
    free(row->ids);
    free(row->cells);
    free(row->o);
    free(row->gated);
    free(row->lse);
    memset(row, 0, sizeof *row);
}

void oracle_row_compute(oracle_row *row, const oracle_sequence *s, oracle_rule rule, int32_t n, const float *raw_q,
                        const float *raw_index, const int32_t positions[3]) {
    const oracle_geometry *g = &s->geometry;
    assert(n >= 0 && n <= s->cells);
    oracle_query(g, &s->norms, raw_q, positions, row->q, row->gate);
    oracle_index_query(g, &s->norms, raw_index, positions, row->index_q);
    oracle_scores(g, row->index_q, s->block_keys, n / g->ratio, row->score, row->stored);
    row->selection = oracle_select(g, rule, n, row->stored, row->ids);
    int32_t count = oracle_cells(g, &row->selection, row->ids, row->cells);
    oracle_row_attend(row, s, row->cells, count);
}

void oracle_row_attend(oracle_row *row, const oracle_sequence *s, const int32_t *cells, int32_t count) {
    oracle_rows k = {.f64 = s->k}, v = {.f64 = s->v};
    oracle_attend(&s->geometry, row->q, k, v, cells, count, row->o, row->lse);
    oracle_gate(q_size(&s->geometry), row->o, row->gate, row->gated);
}
