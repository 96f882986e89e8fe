// SPDX-License-Identifier: Apache-2.0
//
// A random case: geometry, formats, several sequences with lengths at the boundaries, and their rows
// interleaved and cut into batches. Everything follows from one seed.
#ifndef QSA_TESTS_RANDOM_CASE_H
#define QSA_TESTS_RANDOM_CASE_H

#include "support/rig.h"
#include "support/rng.h"

#include <stdio.h>

enum { CASE_SEQUENCES = 4 };

typedef struct {
    uint64_t seed;
    rig_config config;
    qsa_rule rule;
    qsa_type row_type;
    bool gate, stages, image;
    int32_t lengths[CASE_SEQUENCES];
    int32_t rows; // of all sequences
} random_case;

static int pick(rng *r, int count, const int *list) {
    return list[rng_below(r, (uint32_t)count)];
}
#define PICK(r, ...) pick((r), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__})

static void random_rope(rng *r, oracle_geometry *g) {
    const int most = g->head_dim < g->index_dim ? g->head_dim : g->index_dim;
    g->rotary_dim = 2 * rng_range(r, 1, most / 2);
    const int half = g->rotary_dim / 2;
    if (rng_below(r, 2)) { // as in models: near thirds
        g->sections[1] = g->sections[2] = half / 3;
    } else {
        g->sections[1] = rng_range(r, 0, half);
        g->sections[2] = rng_range(r, 0, half - g->sections[1]);
    }
    g->sections[0] = half - g->sections[1] - g->sections[2];
    g->theta = PICK(r, 1, 10000, 500000, 10000000);
}

// Cases with many dims get short sequences, so that all take about the same time.
static bool large(const oracle_geometry *g) {
    return g->heads * g->head_dim > 3000;
}

// Wide cases have the model's budget and few dims.
static oracle_geometry random_geometry(rng *r, bool wide) {
    oracle_geometry g = {.eps = 1e-6, .kv_heads = wide ? 1 : PICK(r, 1, 1, 1, 2, 2, 3, 4, 5, 8)};
    g.heads = g.kv_heads * (wide ? 2 : PICK(r, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16));
    g.head_dim = wide ? 16 : 16 + rng_range(r, 0, 240);
    if (rng_below(r, 4) == 0)
        g.head_dim = PICK(r, 16, 32, 64, 128, 256);
    if (wide)
        g.head_dim = PICK(r, 16, 24);
    g.index_heads = wide ? 1 : PICK(r, 1, 2, 3, 4, 4);
    g.index_dim = wide ? 16 : PICK(r, 2, 8, 15, 16, 30, 64, 100, 128, 131);
    g.ratio = wide ? PICK(r, 2, 3, 4, 8) : rng_range(r, 1, 8);
    g.budget = g.ratio * rng_range(r, 1, PICK(r, 2, 8, (large(&g) ? 40 : 130) / g.ratio));
    if (wide)
        g.budget = 2048 / g.ratio * g.ratio;
    random_rope(r, &g);
    return g;
}

// At and beside a block, a page, a chunk, the budget, and the first row that selects.
static int32_t random_length(rng *r, const rig_config *c, bool wide) {
    const oracle_geometry *g = &c->geometry;
    const int edge = PICK(r, 1, g->ratio, c->page_cells, 2 * c->page_cells, QSA_CHUNK, g->budget,
                          g->budget + g->ratio - 1, g->budget + g->ratio, g->budget + 3 * g->ratio);
    int32_t length = rng_below(r, 3) ? edge + rng_range(r, -1, 1) : rng_range(r, 1, 2 * g->budget + 20);
    if (wide)
        length = g->budget + rng_range(r, -2, 3 * g->ratio);
    const int most = large(g) ? 90 : 300;
    return length < 1 ? 1 : length > most && !wide ? most : length;
}

static random_case random_case_make(uint64_t seed, bool wide) {
    rng r = rng_make(seed);
    random_case c = {.seed = seed};
    const oracle_geometry g = random_geometry(&r, wide);
    c.config = rig_defaults(&g, 1);
    c.config.kv_type = (qsa_type)PICK(&r, QSA_F32, QSA_F16, QSA_BF16, QSA_I8);
    c.config.block_key_type = (qsa_type)PICK(&r, QSA_F32, QSA_F32, QSA_F16, QSA_BF16);
    c.config.norm_form = rng_below(&r, 2) ? QSA_NORM_FACTOR : QSA_NORM_ZERO_CENTRED;
    c.config.norm_type = (qsa_type)PICK(&r, QSA_F32, QSA_F16, QSA_BF16);
    c.config.page_cells = g.ratio * PICK(&r, 1, 2, 4, 16, 64);
    c.config.threads = PICK(&r, 1, 1, 2, 3);
    c.config.rollback = PICK(&r, QSA_ROLLBACK_ALL, 0, 3, 64);
    c.config.max_sequences = wide ? 1 : rng_range(&r, 1, CASE_SEQUENCES);
    c.config.seed = rng_u64(&r) | 1;
    const char *wheres[16];
    const uint32_t kernels = rng_below(&r, 1 + (uint32_t)rig_wheres(wheres));
    c.config.where = kernels ? wheres[kernels - 1] : NULL;
    c.rule = rng_below(&r, 2) ? QSA_RULE_CUT : QSA_RULE_OFFICIAL;
    c.row_type = (qsa_type)PICK(&r, QSA_F32, QSA_F32, QSA_F16, QSA_BF16);
    c.gate = rng_below(&r, 2);
    c.stages = rng_below(&r, 3) == 0;
    c.image = rng_below(&r, 2);
    for (int s = 0; s < c.config.max_sequences; s++) {
        c.lengths[s] = random_length(&r, &c.config, wide);
        c.rows += c.lengths[s];
        if (c.lengths[s] > c.config.max_cells)
            c.config.max_cells = c.lengths[s];
    }
    return c;
}

static void random_case_print(const random_case *c) {
    const rig_config *f = &c->config;
    const oracle_geometry *g = &f->geometry;
    printf(
        "case of seed 0x%016llx: heads %d/%d x %d, indexer %d x %d, rotary %d (%d %d %d), theta %g, ratio %d, "
        "budget %d, rule %d, kv %d, block keys %d, norms form %d type %d, rows type %d, page %d, threads %d, rollback "
        "%d, gate %d, stages %d, kernels %s, lengths %d %d %d %d\n",
        (unsigned long long)c->seed, g->heads, g->kv_heads, g->head_dim, g->index_heads, g->index_dim, g->rotary_dim,
        g->sections[0], g->sections[1], g->sections[2], g->theta, g->ratio, g->budget, (int)c->rule, (int)f->kv_type,
        (int)f->block_key_type, (int)f->norm_form, (int)f->norm_type, (int)c->row_type, f->page_cells, f->threads,
        f->rollback, c->gate, c->stages, f->where ? f->where : "best", c->lengths[0], c->lengths[1], c->lengths[2],
        c->lengths[3]);
}

// The sequences' rows in random turns, with text or image positions; rows at the boundaries and one in
// `spare` of the others attend.
static void random_case_rows(const random_case *c, rig_rows *rows) {
    const oracle_geometry *g = &c->config.geometry;
    rng r = rng_make(c->seed ^ 0x7265776f72u);
    int32_t done[CASE_SEQUENCES] = {0}, start[CASE_SEQUENCES] = {0};
    rig_rows_init(rows, g, c->rows, c->seed + 1);
    for (int s = 0; s < CASE_SEQUENCES; s++)
        start[s] = PICK(&r, 0, 0, 5, 6000, 262100, 1048000);
    const uint32_t spare = 1 + (uint32_t)c->rows / 20;
    for (int32_t i = 0; i < c->rows; i++) {
        int32_t s;
        do
            s = rng_range(&r, 0, c->config.max_sequences - 1);
        while (done[s] == c->lengths[s]);
        const int32_t cell = done[s]++, n = cell + 1, over = n - (g->budget + g->ratio - 1);
        rows->sequences[i] = s;
        rows->attend[i] = n == 1 || n == c->lengths[s] || over == 0 || over == 1 || rng_below(&r, spare) == 0;
        for (int axis = 0; axis < 3; axis++) // an image: rows of 5 patches, all at one temporal position
            rows->positions[3 * i + axis] = start[s] + (!c->image   ? cell
                                                        : axis == 0 ? cell / 20
                                                        : axis == 1 ? cell / 20 + cell % 20 / 5
                                                                    : cell / 20 + cell % 5);
    }
    if (c->row_type != QSA_F32)
        rig_rows_pack(rows, g, c->row_type);
}

#endif
