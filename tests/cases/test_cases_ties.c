// SPDX-License-Identifier: Apache-2.0
//
// Ties, -0 and NaN in scores: the order is total, so the best blocks are the same whatever the threads,
// the chunks and the run. The official top-k and several engines break ties as they happen to.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

#include <float.h>

enum { BLOCKS = 1024, ROUNDS = 500 };

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// All equal at n = 4096: blocks 0..511, always.
static void all_equal(void) {
    const oracle_geometry g = narrow_geometry();
    const float values[] = {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, from_bits(0x7fc00000), from_bits(1)};
    static float scores[COUNT(values) * BLOCKS];
    int32_t cells[COUNT(values)];
    for (int32_t threads = 1; threads <= 3; threads++) {
        rig r;
        rig_result result;
        rig_config config = rig_defaults(&g, 4096);
        config.threads = threads;
        rig_open(&r, &config);
        rig_result_init(&result, &r, COUNT(values));
        for (int i = 0; i < COUNT(values) * BLOCKS; i++)
            scores[i] = i / BLOCKS == 1 && i % 2 ? 0.0f : values[i / BLOCKS]; // row 1: -0 and +0 in turns
        for (int i = 0; i < COUNT(values); i++)
            cells[i] = 4096;
        RIG_OK(qsa_topk(r.context, &r.geometry, QSA_RULE_OFFICIAL, COUNT(values), cells, scores, BLOCKS,
                        &result.selection));
        for (int i = 0; i < COUNT(values); i++) {
            PLAIN_CHECK_INT(result.selection.count[i], 512);
            for (int32_t b = 0; b < 512; b++)
                PLAIN_CHECK_INT(result.selection.ids[i * result.selection.stride + b], b);
        }
        rig_result_free(&result);
        rig_close(&r);
    }
}

// The same through forward: equal index keys, rows up to n = 4096 in chunks of any size.
static void all_equal_in_forward(void) {
    const oracle_geometry g = narrow_geometry();
    rig_rows rows;
    rig_rows_init(&rows, &g, 4096, 5);
    for (int32_t i = 0; i < rows.rows; i++) {
        steer(&rows, &g, i, 0.5);
        rows.attend[i] = i % 4 == 3 ? i >= 4080 : i >= 2048 && i % 512 < 3;
    }
    for (int32_t threads = 1; threads <= 2; threads++) {
        rig r;
        rig_result result;
        rig_config config = rig_defaults(&g, 4096);
        config.seed = 0;
        config.threads = threads;
        rig_open(&r, &config);
        rig_result_init(&result, &r, rows.rows);
        rig_run(&r, &rows, threads == 1 ? 300 : 4096, QSA_RULE_OFFICIAL, false, &result);
        for (int32_t i = 2051; i < rows.rows; i++) {
            if (!rows.attend[i])
                continue;
            PLAIN_CHECK_INT(result.selection.count[i], 512);
            for (int32_t b = 0; b < 512; b++)
                PLAIN_CHECK_INT(result.selection.ids[i * result.selection.stride + b], b);
        }
        rig_result_free(&result);
        rig_close(&r);
    }
    rig_rows_free(&rows);
}

// Few distinct scores, zeros of both signs, infinities, NaN of both signs, subnormals.
static void few_values_by(const char *where) {
    const float odd[] = {0.0f,    -0.0f,    INFINITY,   -INFINITY, from_bits(0x7fc00000), from_bits(0xffc00000),
                         FLT_MIN, -FLT_MIN, 3.4028e38f, -3.4e38f,  from_bits(0x7f800001), from_bits(0x80000001)};
    static float scores[BLOCKS];
    static int32_t ids[BLOCKS], want[BLOCKS];
    oracle_geometry g = narrow_geometry();
    rng random = rng_make(6);
    qsa_context *context;
    RIG_OK(qsa_context_create(NULL, &context));
    rig_force(context, where);
    for (int round = 0; round < ROUNDS; round++) {
        g.ratio = rng_range(&random, 1, 6);
        g.budget = g.ratio * rng_range(&random, 1, 40);
        const int32_t n = rng_range(&random, 0, 600), spread = rng_range(&random, 1, 40);
        for (int32_t b = 0; b < n / g.ratio; b++) {
            const int32_t kind = rng_range(&random, 0, spread);
            scores[b] = kind < COUNT(odd) ? odd[kind] : (float)(kind - 20) / 3;
        }
        for (int rule = 0; rule < 2; rule++) {
            int32_t count = -7, cut_index = -7, cut_cells = -7;
            qsa_selection selection = {.size = sizeof selection,
                                       .ids = ids,
                                       .stride = BLOCKS,
                                       .count = &count,
                                       .cut_index = &cut_index,
                                       .cut_cells = &cut_cells};
            const qsa_geometry geometry = rig_geometry(&g);
            RIG_OK(qsa_topk(context, &geometry, rules[rule], 1, &n, scores, BLOCKS, &selection));
            const oracle_selection s = oracle_select(&g, rule ? ORACLE_CUT : ORACLE_OFFICIAL, n, scores, want);
            PLAIN_CHECK_INT(count, s.blocks);
            PLAIN_CHECK_INT(cut_index, s.cut_index);
            PLAIN_CHECK(cut_index < 0 || cut_cells == s.cut_cells);
            PLAIN_CHECK_BYTES(ids, want, (size_t)s.blocks * sizeof *ids);
        }
    }
    qsa_context_destroy(context);
}

static void few_values(void) {
    const char *wheres[16];
    for (int i = 0, count = rig_wheres(wheres); i < count; i++)
        few_values_by(wheres[i]);
}

int main(void) {
    PLAIN_RUN(all_equal);
    PLAIN_RUN(all_equal_in_forward);
    PLAIN_RUN(few_values);
    return plain_finish();
}
