// SPDX-License-Identifier: Apache-2.0
//
// Width of the selection (2051 taken for a constant): how many cells a row attends and which, with keys
// of 0 (all logits equal), scores that rise with the block and V[cell] = cell, so that the output is the
// mean of the cells taken. All sums are integers below 2^24: the means are exact to the last bit.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

// Mean of the cells that a row with n cells takes when later blocks score higher.
static float expected_mean(const oracle_geometry *g, oracle_rule rule, int32_t n) {
    const int32_t width = oracle_width(g, rule, n), tail = n % g->ratio, blocks = n / g->ratio;
    double sum = 0;
    int32_t taken = 0;
    for (int32_t c = n - tail; c < n; c++, taken++)
        sum += c;
    for (int32_t b = blocks - 1; b >= 0; b--)
        for (int32_t c = 0; c < g->ratio && taken < width; c++, taken++)
            sum += b * g->ratio + c;
    return (float)(sum / width);
}

static void fill(rig_rows *rows, const oracle_geometry *g, int32_t count) {
    rig_rows_init(rows, g, count, 3);
    memset(rows->k, 0, (size_t)count * (size_t)g->kv_heads * (size_t)g->head_dim * sizeof(float));
    for (int32_t i = 0; i < count; i++) {
        const int32_t block = i / g->ratio, blocks = count / g->ratio;
        steer(rows, g, i, (block + 1.0) / (blocks + 2.0));
        for (int d = 0; d < g->kv_heads * g->head_dim; d++)
            rig_v(rows, g, i)[d] = (float)i;
    }
}

// Every attending row of `rows` run in chunks: width and mean.
static void check_rows(const oracle_geometry *g, rig_rows *rows, qsa_rule rule, int32_t chunk) {
    rig r;
    rig_result result;
    rig_config config = rig_defaults(g, rows->rows);
    config.seed = 0;
    rig_open(&r, &config);
    rig_result_init(&result, &r, rows->rows);
    rig_run(&r, rows, chunk, rule, false, &result);
    const oracle_rule same = rule == QSA_RULE_CUT ? ORACLE_CUT : ORACLE_OFFICIAL;
    for (int32_t i = 0; i < rows->rows; i++) {
        if (!rows->attend[i])
            continue;
        const float mean = expected_mean(g, same, i + 1);
        const int32_t width = oracle_width(g, same, i + 1);
        PLAIN_CHECK_INT(rig_selection(&r, &result, i, i + 1, NULL).cells, width);
        PLAIN_CHECK_INT(qsa_selected_cells(&r.geometry, rule, i + 1), width);
        for (int d = 0; d < g->heads * g->head_dim; d++)
            PLAIN_CHECK(result.out[i * g->heads * g->head_dim + d] == mean);
        for (int h = 0; h < g->heads; h++)
            PLAIN_CHECK_NEAR(result.lse[i * g->heads + h], log(width), 1e-6);
    }
    rig_result_free(&result);
    rig_close(&r);
}

static void the_numbers(void) {
    const qsa_geometry g = rig_geometry(&(oracle_geometry){.heads = 24,
                                                           .kv_heads = 2,
                                                           .head_dim = 256,
                                                           .rotary_dim = 64,
                                                           .index_heads = 4,
                                                           .index_dim = 128,
                                                           .ratio = 4,
                                                           .budget = 2048,
                                                           .sections = {11, 11, 10},
                                                           .theta = 1e7,
                                                           .eps = 1e-6});
    const int32_t n[] = {2048, 2051, 2052, 2053, 2054, 2055, 2056}, want[] = {2048, 2051, 2048, 2049, 2050, 2051, 2048};
    for (int i = 0; i < COUNT(n); i++) {
        PLAIN_CHECK_INT(qsa_selected_cells(&g, QSA_RULE_OFFICIAL, n[i]), want[i]);
        PLAIN_CHECK_INT(qsa_selected_cells(&g, QSA_RULE_CUT, n[i]), n[i] < 2051 ? n[i] : 2051);
    }
    PLAIN_CHECK(expected_mean(&(oracle_geometry){.ratio = 4, .budget = 2048}, ORACLE_OFFICIAL, 2052) == 1027.5f);
    PLAIN_CHECK(expected_mean(&(oracle_geometry){.ratio = 4, .budget = 2048}, ORACLE_CUT, 2052) == 1025.99854f);
}

static void model_width(void) {
    const oracle_geometry g = narrow_geometry();
    rig_rows rows;
    fill(&rows, &g, 2110);
    for (int32_t i = 0; i < rows.rows; i++)
        rows.attend[i] = i < 2 || (i >= 2046 && i < 2070) || i >= 2108;
    for (int rule = 0; rule < 2; rule++)
        for (int32_t chunk = 2110; chunk > 20; chunk /= 6)
            check_rows(&g, &rows, rules[rule], chunk);
    rig_rows_free(&rows);
}

static void other_widths(void) {
    const int ratios[] = {1, 2, 3, 4, 5, 8};
    for (int i = 0; i < COUNT(ratios); i++) {
        for (int blocks = 1; blocks <= 9; blocks += 4) {
            oracle_geometry g = narrow_geometry();
            rig_rows rows;
            g.ratio = ratios[i];
            g.budget = blocks * g.ratio;
            fill(&rows, &g, 2 * g.budget + 3 * g.ratio);
            for (int rule = 0; rule < 2; rule++)
                check_rows(&g, &rows, rules[rule], 5);
            rig_rows_free(&rows);
        }
    }
}

int main(void) {
    PLAIN_RUN(the_numbers);
    PLAIN_RUN(model_width);
    PLAIN_RUN(other_widths);
    return plain_finish();
}
