// SPDX-License-Identifier: Apache-2.0
//
// Each row selects for itself and sees nothing later: verification rows equal serial steps bit for bit
// (also in a chunk that straddles 2051 and 2052), and a token that changes never changes an earlier row.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

enum { FIRST = 2046 };

// T verification rows = T serial steps, for every way of cutting the rows into calls.
static void verification(void) {
    const oracle_geometry g = narrow_geometry();
    const int32_t chunks[] = {1, 7, 2051, 2062};
    rig_rows rows;
    rig_rows_init(&rows, &g, 2062, 11);
    for (int32_t i = 0; i < rows.rows; i++)
        rows.attend[i] = i >= FIRST;
    for (int t = 0; t < COUNT(kv_types); t++) {
        rig r[COUNT(chunks)];
        rig_result result[COUNT(chunks)];
        for (int c = 0; c < COUNT(chunks); c++) {
            rig_config config = rig_defaults(&g, rows.rows);
            config.kv_type = kv_types[t];
            config.block_key_type = key_types[t % 3];
            config.threads = 1 + c % 2;
            rig_open(&r[c], &config);
            rig_result_init(&result[c], &r[c], rows.rows);
            rig_run(&r[c], &rows, chunks[c], rules[t % 2], true, &result[c]);
            PLAIN_CHECK(same_rows(&r[0], &result[0], FIRST, &result[c], FIRST, rows.rows - FIRST));
        }
        for (int32_t i = FIRST; i < rows.rows; i++)
            PLAIN_CHECK_INT(rig_selection(&r[0], &result[0], i, i + 1, NULL).cells,
                            oracle_width(&g, t % 2 ? ORACLE_CUT : ORACLE_OFFICIAL, i + 1));
        // The rows do select differently: a chunk that shared one selection would be seen.
        PLAIN_CHECK(memcmp(result[0].selection.ids + 2058 * result[0].selection.stride,
                           result[0].selection.ids + 2059 * result[0].selection.stride, 512 * sizeof(int32_t)) != 0);
        for (int c = 0; c < COUNT(chunks); c++) {
            rig_result_free(&result[c]);
            rig_close(&r[c]);
        }
    }
    rig_rows_free(&rows);
}

enum { ROWS = 60 };

// Tokens after `last` become others (odd rounds: NaN).
static void change_after(rig_rows *rows, const oracle_geometry *g, int32_t last, int round) {
    rig_rows other;
    rig_rows_init(&other, g, ROWS, 100 + (uint64_t)round);
    for (int32_t i = last + 1; i < ROWS; i++) {
        for (int d = 0; d < g->kv_heads * g->head_dim; d++) {
            rig_k(rows, g, i)[d] = round % 2 ? NAN : rig_k(&other, g, i)[d];
            rig_v(rows, g, i)[d] = round % 2 ? NAN : rig_v(&other, g, i)[d];
        }
        for (int d = 0; d < 2 * g->heads * g->head_dim; d++)
            rig_q(rows, g, i)[d] = round % 2 ? NAN : rig_q(&other, g, i)[d];
        for (int d = 0; d < (g->index_heads + 1) * g->index_dim; d++)
            rig_index(rows, g, i)[d] = round % 2 ? NAN : rig_index(&other, g, i)[d];
        rows->positions[3 * i] += round;
    }
    rig_rows_free(&other);
}

// All rows in one batch, where the later tokens are already in the cache when a row attends.
static void causality(void) {
    const oracle_geometry g = small_geometry();
    for (int t = 0; t < COUNT(kv_types); t++) {
        rig_config config = rig_defaults(&g, ROWS);
        config.kv_type = kv_types[t];
        config.threads = 1 + t % 2;
        rig base;
        rig_rows rows;
        rig_result want;
        rig_open(&base, &config);
        rig_rows_init(&rows, &g, ROWS, 21);
        rig_result_init(&want, &base, ROWS);
        rig_run(&base, &rows, ROWS, rules[t % 2], true, &want);
        for (int32_t last = 0; last < ROWS - 1; last += last % 4 == 0 ? 3 : 1) {
            rig r;
            rig_result got;
            rig_rows changed;
            rig_rows_init(&changed, &g, ROWS, 21);
            change_after(&changed, &g, last, last);
            rig_open(&r, &config);
            rig_result_init(&got, &r, ROWS);
            rig_run(&r, &changed, ROWS, rules[t % 2], true, &got);
            PLAIN_CHECK(same_rows(&base, &want, 0, &got, 0, last + 1));
            PLAIN_CHECK(!same_rows(&base, &want, last + 1, &got, last + 1, 1)); // and the change is one
            rig_result_free(&got);
            rig_rows_free(&changed);
            rig_close(&r);
        }
        rig_result_free(&want);
        rig_rows_free(&rows);
        rig_close(&base);
    }
}

int main(void) {
    PLAIN_RUN(verification);
    PLAIN_RUN(causality);
    return plain_finish();
}
