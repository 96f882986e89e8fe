// SPDX-License-Identifier: Apache-2.0
//
// What the case tests share: small geometries, rows whose block scores are known beforehand, and the
// byte-wise comparison of two runs.
#ifndef QSA_TESTS_CASES_H
#define QSA_TESTS_CASES_H

#include "support/plain_runner.h"
#include "support/rig.h"
#include "support/rng.h"

#include <math.h>
#include <stdlib.h>

static const qsa_type kv_types[] = {QSA_F32, QSA_F16, QSA_BF16, QSA_I8};
static const qsa_type key_types[] = {QSA_F32, QSA_F16, QSA_BF16};
static const qsa_rule rules[] = {QSA_RULE_OFFICIAL, QSA_RULE_CUT};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

// The model's ratio and budget with few dims: 2051 is the widest selection.
static inline oracle_geometry narrow_geometry(void) {
    return (oracle_geometry){.heads = 2,
                             .kv_heads = 1,
                             .head_dim = 16,
                             .rotary_dim = 4,
                             .index_heads = 1,
                             .index_dim = 8,
                             .ratio = 4,
                             .budget = 2048,
                             .sections = {2, 0, 0},
                             .theta = 1e7,
                             .eps = 1e-6};
}

// Few cells and several heads; 100 dims are no multiple of 64.
static inline oracle_geometry small_geometry(void) {
    return (oracle_geometry){.heads = 6,
                             .kv_heads = 2,
                             .head_dim = 100,
                             .rotary_dim = 12,
                             .index_heads = 2,
                             .index_dim = 24,
                             .ratio = 4,
                             .budget = 16,
                             .sections = {2, 2, 2},
                             .theta = 1e7,
                             .eps = 1e-6};
}

// Row i asks for, and as a cell offers, the score s * sqrt(ID) per index head, 0 <= s <= 1, wherever it
// stands: the two last dims are not rotated. With norm factors of 1 (seed 0).
static inline void steer(rig_rows *rows, const oracle_geometry *g, int32_t i, double s) {
    float *index = rig_index(rows, g, i);
    memset(index, 0, ((size_t)g->index_heads + 1) * (size_t)g->index_dim * sizeof *index);
    for (int h = 0; h < g->index_heads; h++)
        index[(h + 1) * g->index_dim - 1] = 1;
    float *key = index + g->index_heads * g->index_dim;
    key[g->index_dim - 1] = (float)s;
    key[g->index_dim - 2] = (float)sqrt(1 - s * s);
}

// Rows at .. at+count-1 of two results are the same, byte for byte: selection, out, lse.
static inline bool same_rows(const rig *r, const rig_result *a, int32_t a_at, const rig_result *b, int32_t b_at,
                             int32_t count) {
    const oracle_geometry *g = &r->config.geometry;
    const size_t q = (size_t)g->heads * (size_t)g->head_dim;
    bool same = true;
    for (int32_t i = 0; i < count; i++) {
        const size_t x = (size_t)a_at + (size_t)i, y = (size_t)b_at + (size_t)i;
        const int32_t *a_ids = a->selection.ids + (int64_t)x * a->selection.stride;
        const int32_t *b_ids = b->selection.ids + (int64_t)y * b->selection.stride;
        same =
            same && a->selection.count[x] == b->selection.count[y] && a->selection.count[x] >= 0 &&
            memcmp(a_ids, b_ids, (size_t)a->selection.count[x] * sizeof *a_ids) == 0 &&
            a->selection.cut_index[x] == b->selection.cut_index[y] &&
            a->selection.cut_cells[x] == b->selection.cut_cells[y] &&
            memcmp(a->out + x * q, b->out + y * q, q * sizeof(float)) == 0 &&
            memcmp(a->lse + x * (size_t)g->heads, b->lse + y * (size_t)g->heads, (size_t)g->heads * sizeof(float)) == 0;
    }
    return same;
}

static inline bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

#endif
