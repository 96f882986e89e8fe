// SPDX-License-Identifier: Apache-2.0
//
// The oracle's selection: widths, both rules, ties, NaN, and the verdicts on selections that differ.
// Expected values are worked out by hand or by counting, never by the sort under test.
// LABELS: small cross
// RUNNER: plain
#include "support/oracle.h"
#include "support/plain_runner.h"
#include "support/rng.h"

#include <stdlib.h>

enum { MAX_N = 4096, MAX_BLOCKS = MAX_N / 4 };

static float scores[MAX_BLOCKS];
static int32_t ids[MAX_BLOCKS], cells[MAX_N];

static void widths(void) {
    const oracle_geometry g = oracle_geometry_flash_next();
    const struct {
        int32_t n, official, cut;
    } cases[] = {{0, 0, 0},          {1, 1, 1},          {3, 3, 3},          {2047, 2047, 2047},
                 {2048, 2048, 2048}, {2051, 2051, 2051}, {2052, 2048, 2051}, {2053, 2049, 2051},
                 {2054, 2050, 2051}, {2055, 2051, 2051}, {2056, 2048, 2051}, {4096, 2048, 2051}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int rule = ORACLE_OFFICIAL; rule <= ORACLE_CUT; rule++) {
            int32_t want = rule == ORACLE_CUT ? cases[i].cut : cases[i].official, n = cases[i].n;
            oracle_selection s = oracle_select(&g, (oracle_rule)rule, n, scores, ids);
            PLAIN_CHECK_INT(oracle_width(&g, (oracle_rule)rule, n), want);
            PLAIN_CHECK_INT(s.cells, want);
            PLAIN_CHECK_INT(oracle_cells(&g, &s, ids, cells), want);
            PLAIN_CHECK(s.blocks <= oracle_max_ids(&g, (oracle_rule)rule) && want <= oracle_max_cells(&g));
            for (int32_t c = 0; c < want; c++) {
                PLAIN_CHECK(cells[c] >= 0 && cells[c] < n && (c == 0 || cells[c] > cells[c - 1]));
            }
        }
    }
}

// Keys 0, scores rising with the block, V[cell] = cell: the mean of the cells taken.
static void means(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.heads = 2;
    g.kv_heads = 1;
    g.head_dim = 1;
    static double zero[MAX_N], v[MAX_N];
    double q[2] = {1, -1}, o[2], lse[2];
    for (int i = 0; i < MAX_N; i++) {
        v[i] = i;
        scores[i / 4] = (float)(i / 4); // NOLINT(bugprone-integer-division)
    }
    const struct {
        oracle_rule rule;
        int32_t n, cut_index, cut_cells;
        double mean, bound;
    } cases[] = {{ORACLE_OFFICIAL, 2052, -1, 0, 1027.5, 1e-9},
                 {ORACLE_CUT, 2052, 0, 3, 2104323.0 / 2051, 1e-9},
                 {ORACLE_CUT, 2052, 0, 3, 1025.99854, 5e-6},
                 {ORACLE_OFFICIAL, 2051, -1, 0, 1025, 1e-9},
                 {ORACLE_CUT, 2051, -1, 0, 1025, 1e-9},
                 // 2053: tail 2052, blocks 1..512, and of block 0 cells 0 and 1 in cut mode
                 {ORACLE_OFFICIAL, 2053, -1, 0, (1027.5 * 2048 + 2052) / 2049, 1e-9},
                 {ORACLE_CUT, 2053, 0, 2, (1027.5 * 2048 + 2052 + 0 + 1) / 2051, 1e-9},
                 {ORACLE_CUT, 2055, -1, 0, (1027.5 * 2048 + 2052 + 2053 + 2054) / 2051, 1e-9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        oracle_selection s = oracle_select(&g, cases[i].rule, cases[i].n, scores, ids);
        int32_t count = oracle_cells(&g, &s, ids, cells);
        oracle_attend(&g, q, (oracle_rows){.f64 = zero}, (oracle_rows){.f64 = v}, cells, count, o, lse);
        PLAIN_CHECK_INT(s.cut_index, cases[i].cut_index);
        PLAIN_CHECK_INT(s.cut_cells, cases[i].cut_cells);
        PLAIN_CHECK_NEAR(o[0], cases[i].mean, cases[i].bound);
        PLAIN_CHECK_NEAR(o[1], cases[i].mean, cases[i].bound);
        PLAIN_CHECK_NEAR(lse[0], log(count), 1e-9);
    }
}

static void ties(void) {
    const oracle_geometry g = oracle_geometry_flash_next();
    const float values[] = {0.0f, -0.0f, 1.0f, INFINITY, -INFINITY, NAN};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (int b = 0; b < MAX_BLOCKS; b++) {
            scores[b] = v == 1 && b % 2 ? 0.0f : values[v]; // the second: -0 and +0 in turns
        }
        oracle_selection s = oracle_select(&g, ORACLE_OFFICIAL, MAX_N, scores, ids);
        PLAIN_CHECK_INT(s.blocks, 512);
        for (int32_t i = 0; i < 512; i++) {
            PLAIN_CHECK_INT(ids[i], i);
        }
    }
}

static void order(void) {
    PLAIN_CHECK(oracle_before(2, 9, 1, 0) && !oracle_before(1, 0, 2, 9));
    PLAIN_CHECK(oracle_before(-0.0f, 0, 0.0f, 1) && oracle_before(0.0f, 0, -0.0f, 1));
    PLAIN_CHECK(oracle_before(-INFINITY, 9, NAN, 0) && !oracle_before(NAN, 0, -INFINITY, 9));
    PLAIN_CHECK(oracle_before(NAN, 0, NAN, 1) && !oracle_before(NAN, 1, NAN, 0));
    PLAIN_CHECK(oracle_before(INFINITY, 5, 3e38f, 0));
}

// A block is taken exactly if fewer than K blocks come before it: counted, block by block.
static void by_counting(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    rng r = rng_make(4);
    for (int round = 0; round < 400; round++) {
        g.ratio = rng_range(&r, 1, 5);
        g.budget = g.ratio * rng_range(&r, 1, 20);
        int32_t n = rng_range(&r, 0, 300), all = n / g.ratio, taken = 0;
        int spread = rng_range(&r, 1, 40);
        for (int32_t b = 0; b < all; b++) {
            uint32_t pick = rng_below(&r, (uint32_t)spread);
            scores[b] = pick == 7 ? NAN : pick == 8 ? -0.0f : (float)pick - 3;
        }
        oracle_selection s = oracle_select(&g, ORACLE_OFFICIAL, n, scores, ids);
        for (int32_t b = 0; b < all; b++) {
            int before = 0;
            for (int32_t other = 0; other < all; other++) {
                before += other != b && oracle_before(scores[other], other, scores[b], b);
            }
            bool want = before < g.budget / g.ratio, got = taken < s.blocks && ids[taken] == b;
            taken += got;
            PLAIN_CHECK(got == want);
        }
        PLAIN_CHECK_INT(taken, s.blocks);
        // The cut rule takes all of these and one block more, of which it keeps the lowest cells.
        static int32_t cut_ids[MAX_BLOCKS];
        oracle_selection cut = oracle_select(&g, ORACLE_CUT, n, scores, cut_ids);
        PLAIN_CHECK_INT(cut.cells - s.cells, n <= oracle_max_cells(&g) ? 0 : g.ratio - 1 - n % g.ratio);
        PLAIN_CHECK_INT(cut.blocks - s.blocks, cut.cut_cells > 0);
        for (int32_t i = 0, j = 0; i < cut.blocks; i++) {
            bool extra = i == cut.cut_index;
            PLAIN_CHECK(extra || cut_ids[i] == ids[j]);
            j += !extra;
        }
    }
}

static void relu(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.index_heads = 2;
    g.index_dim = 4;
    double q[8] = {1, 0, 0, 0, 0, 1, 0, 0}, score[4];
    const double keys[16] = {3, 5, 0, 0, -3, 5, 0, 0, -3, -5, 0, 0, NAN, 0, 0, 0};
    float stored[4];
    uint32_t bits[4];
    oracle_scores(&g, q, keys, 4, score, stored);
    memcpy(bits, stored, sizeof bits);
    PLAIN_CHECK_NEAR(score[0], 4, 0); // (3 + 5) / sqrt(4)
    PLAIN_CHECK_NEAR(score[1], 2.5, 0);
    PLAIN_CHECK_NEAR(stored[0], 4, 0);
    PLAIN_CHECK_INT(bits[2], 0);
    PLAIN_CHECK_INT(bits[3], 0x7fc00000);
}

// Division by sqrt(128) makes some neighbours equal, so the order is that of the quotients.
static void quotients(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.index_heads = 1;
    static double q[128];
    static double keys[2 * 128];
    float stored[2], x = 1.5f; // above sqrt(2): the quotients lie 0.71 units of theirs apart
    int equal = 0;
    q[0] = 1;
    for (int i = 0; i < 100; i++, x = nextafterf(x, 2)) { // NOLINT(cert-flp30-c): i counts
        keys[0] = x;
        keys[128] = nextafterf(x, 2);
        oracle_scores(&g, q, keys, 2, NULL, stored);
        equal += stored[0] == stored[1];
        PLAIN_CHECK(stored[0] == x / sqrtf(128) && stored[0] <= stored[1]);
    }
    PLAIN_CHECK(equal > 10 && equal < 90);
}

static void verdicts(void) {
    const float s[8] = {5, 4, 3, 3, 3, 2.999f, NAN, NAN};
    const int32_t want[3] = {0, 1, 2};
    const struct {
        int32_t got[4], count;
        double error;
        oracle_kind kind;
    } cases[] = {
        {{0, 1, 2}, 3, 0, ORACLE_EQUAL},      {{0, 1, 4}, 3, 0, ORACLE_TIE},        {{0, 1, 5}, 3, 0.0006, ORACLE_NEAR},
        {{0, 1, 5}, 3, 0.0004, ORACLE_WRONG}, {{0, 3, 4}, 3, 0.0001, ORACLE_WRONG}, // 4 lost for a 3
        {{0, 1, 6}, 3, 0.1, ORACLE_WRONG},    {{0, 1}, 2, 1, ORACLE_WRONG},         {{0, 1, 2, 3}, 4, 1, ORACLE_WRONG},
        {{1, 0, 2}, 3, 9, ORACLE_WRONG},      {{0, 1, 1}, 3, 9, ORACLE_WRONG},      {{0, 1, 8}, 3, 9, ORACLE_WRONG},
        {{-1, 0, 1}, 3, 9, ORACLE_WRONG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PLAIN_CHECK_INT(oracle_classify(s, 8, want, 3, cases[i].got, cases[i].count, cases[i].error), cases[i].kind);
    }
    const int32_t a[1] = {6}, b[1] = {7};
    PLAIN_CHECK_INT(oracle_classify(s, 8, a, 1, b, 1, 0), ORACLE_TIE);
    PLAIN_CHECK_INT(oracle_classify(s, 8, a, 0, b, 0, 0), ORACLE_EQUAL);
    PLAIN_CHECK_INT(strcmp(oracle_kind_name(ORACLE_NEAR), "near"), 0);
}

static void blocks_of(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    uint8_t selected[11] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1};
    PLAIN_CHECK_INT(oracle_blocks_of(&g, 11, selected, ids), 1);
    PLAIN_CHECK_INT(ids[0], 0);
    selected[5] = 1;
    PLAIN_CHECK_INT(oracle_blocks_of(&g, 11, selected, ids), -1);
    selected[5] = 0;
    selected[10] = 0;
    PLAIN_CHECK_INT(oracle_blocks_of(&g, 11, selected, ids), -1);
}

int main(void) {
    PLAIN_RUN(widths);
    PLAIN_RUN(means);
    PLAIN_RUN(ties);
    PLAIN_RUN(order);
    PLAIN_RUN(by_counting);
    PLAIN_RUN(relu);
    PLAIN_RUN(quotients);
    PLAIN_RUN(verdicts);
    PLAIN_RUN(blocks_of);
    return plain_finish();
}
