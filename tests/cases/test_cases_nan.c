// SPDX-License-Identifier: Apache-2.0
//
// NaN and infinities where a model should have none: they rank last, stay with the token that has them,
// are stored in one form, and are counted.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

enum { ROWS = 60, BAD = 9, BAD_BLOCK = 2 };

// Blocks score by their number, the block of the bad token lowest of all: no row above the budget but
// those close behind it selects it.
static void fill(rig_rows *rows, const oracle_geometry *g) {
    rig_rows_init(rows, g, ROWS, 8);
    for (int32_t i = 0; i < ROWS; i++) {
        const int32_t block = i / g->ratio;
        steer(rows, g, i, block == BAD_BLOCK ? 1e-3 : (block + 1) / 20.0);
    }
}

static void run(const oracle_geometry *g, const rig_rows *rows, qsa_type kv, qsa_type keys, rig *r, rig_result *s) {
    rig_config config = rig_defaults(g, ROWS);
    config.seed = 0;
    config.kv_type = kv;
    config.block_key_type = keys;
    rig_open(r, &config);
    rig_result_init(s, r, ROWS);
    rig_run(r, rows, 7, QSA_RULE_OFFICIAL, true, s);
}

static qsa_cache_events events_of(const rig *r) {
    qsa_cache_events events = {.size = sizeof events};
    RIG_OK(qsa_cache_get_events(r->cache, &events));
    return events;
}

// A NaN raw index key makes its block's key and score NaN, canonical, and the block last.
static void index_key(void) {
    const oracle_geometry g = small_geometry();
    const uint32_t canonical[] = {0x7fc00000, 0x7e00, 0x7fc0};
    rig_rows good, bad;
    fill(&good, &g);
    fill(&bad, &g);
    rig_index(&bad, &g, BAD)[g.index_heads * g.index_dim + 3] = -NAN;
    for (int t = 0; t < COUNT(key_types); t++) {
        rig a, b;
        rig_result x, y;
        rig_stored stored;
        run(&g, &good, QSA_I8, key_types[t], &a, &x);
        run(&g, &bad, QSA_I8, key_types[t], &b, &y);
        const int32_t first = g.budget + g.ratio; // rows from here on need not take every block
        PLAIN_CHECK(same_rows(&a, &x, 0, &y, 0, ROWS));
        for (int32_t i = first; i < ROWS; i++)
            for (int32_t k = 0; k < y.selection.count[i]; k++)
                PLAIN_CHECK(y.selection.ids[i * y.selection.stride + k] != BAD_BLOCK);
        rig_read(&b, 0, 0, &stored);
        for (int32_t d = 0; d < ROWS / g.ratio * g.index_dim; d++) {
            uint32_t bits = 0;
            const size_t size = rig_element(key_types[t]);
            memcpy(&bits, (unsigned char *)stored.key_bits + (size_t)d * size, size);
            PLAIN_CHECK((bits == canonical[t]) == (d / g.index_dim == BAD_BLOCK));
        }
        PLAIN_CHECK_INT(events_of(&a).nan, 0);
        PLAIN_CHECK_INT(events_of(&b).nan, g.index_dim);
        const qsa_row_set rows = {
            .size = sizeof rows, .rows = 1, .sequences = (int32_t[]){0}, .cells = (int32_t[]){ROWS}};
        float index_q[64], scores[ROWS];
        uint32_t bits;
        size_t bytes;
        for (int d = 0; d < 64; d++)
            index_q[d] = 1;
        void *workspace = rig_workspace(&b, QSA_STAGE_SCORE, 1, &bytes);
        RIG_OK(qsa_score(b.context, b.cache, 0, &rows, index_q, scores, ROWS, workspace, bytes));
        memcpy(&bits, &scores[BAD_BLOCK], sizeof bits);
        PLAIN_CHECK_INT(bits, 0x7fc00000);
        PLAIN_CHECK(all_finite(scores, BAD_BLOCK) && all_finite(scores + BAD_BLOCK + 1, ROWS / 4 - BAD_BLOCK - 1));
        rig_stored_free(&stored);
        rig_result_free(&x);
        rig_result_free(&y);
        rig_close(&a);
        rig_close(&b);
    }
    rig_rows_free(&good);
    rig_rows_free(&bad);
}

// A NaN index query: all scores of that row NaN, so the lowest blocks; no other row changes.
static void index_query(void) {
    const oracle_geometry g = small_geometry();
    rig_rows good, bad;
    rig a, b;
    rig_result x, y;
    fill(&good, &g);
    fill(&bad, &g);
    rig_index(&bad, &g, 40)[0] = NAN;
    run(&g, &good, QSA_F32, QSA_F32, &a, &x);
    run(&g, &bad, QSA_F32, QSA_F32, &b, &y);
    PLAIN_CHECK(same_rows(&a, &x, 0, &y, 0, 40));
    PLAIN_CHECK(same_rows(&a, &x, 41, &y, 41, ROWS - 41));
    for (int32_t k = 0; k < g.budget / g.ratio; k++)
        PLAIN_CHECK_INT(y.selection.ids[40 * y.selection.stride + k], k);
    PLAIN_CHECK(all_finite(y.out, (size_t)ROWS * (size_t)g.heads * (size_t)g.head_dim));
    rig_result_free(&x);
    rig_result_free(&y);
    rig_close(&a);
    rig_close(&b);
    rig_rows_free(&good);
    rig_rows_free(&bad);
}

// A bad value in the key or value of a token whose block is not selected changes no later row. In i8 the
// rows that do attend it stay finite too.
static void key_and_value(void) {
    const oracle_geometry g = small_geometry();
    const float values[] = {NAN, INFINITY, -INFINITY};
    rig_rows good, bad;
    fill(&good, &g);
    for (int t = 0; t < COUNT(kv_types); t++) {
        for (int v = 0; v < COUNT(values); v++) {
            rig a, b;
            rig_result x, y;
            fill(&bad, &g);
            rig_v(&bad, &g, BAD)[70] = values[v];
            rig_k(&bad, &g, BAD)[5] = values[v];
            run(&g, &good, kv_types[t], QSA_F32, &a, &x);
            run(&g, &bad, kv_types[t], QSA_F32, &b, &y);
            const int32_t first = g.budget + g.ratio - 1; // n = budget + r is the first row that selects
            PLAIN_CHECK(same_rows(&a, &x, 0, &y, 0, BAD));
            PLAIN_CHECK(same_rows(&a, &x, first, &y, first, ROWS - first));
            PLAIN_CHECK(all_finite(y.out, (size_t)ROWS * (size_t)g.heads * (size_t)g.head_dim) ==
                        (kv_types[t] == QSA_I8));
            // The key's head is NaN as a whole (its norm is): head_dim of them; an infinity gives one NaN
            // (inf / inf) and zeros.
            const qsa_cache_events events = events_of(&b);
            PLAIN_CHECK_INT(events.infinite, v == 0 ? 0 : 1);
            PLAIN_CHECK(v == 0 ? events.nan == (uint64_t)g.head_dim + 1 : events.nan >= 1);
            PLAIN_CHECK_INT(events.saturated, 0);
            rig_result_free(&x);
            rig_result_free(&y);
            rig_close(&a);
            rig_close(&b);
            rig_rows_free(&bad);
        }
    }
    rig_rows_free(&good);
}

int main(void) {
    PLAIN_RUN(index_key);
    PLAIN_RUN(index_query);
    PLAIN_RUN(key_and_value);
    return plain_finish();
}
