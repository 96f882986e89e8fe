// SPDX-License-Identifier: Apache-2.0
//
// The oracle's other parts against values known without it: RoPE, norm, block keys by rank,
// attention, error measures, sequences, and the random numbers of the tests.
// LABELS: small cross
// RUNNER: plain
#include "support/oracle_sequence.h"
#include "support/plain_runner.h"
#include "support/rng.h"

enum { H = 4, G = 2, D = 16, IH = 2, ID = 8, CELLS = 300 };

static const oracle_geometry small = {H, G, D, 8, IH, ID, 4, 16, {2, 1, 1}, 1e7, 1e-6};
static float ones[256], raw_q[H * 2 * D], raw_k[CELLS][G * D], raw_v[CELLS][G * D], raw_index[(IH + 1) * ID];
static float raw_index_k[CELLS][ID];
static const oracle_norms plain_norms = {ones, ones, ones, ones};

static void fill(uint64_t seed) {
    rng r = rng_make(seed);
    for (int i = 0; i < 256; i++) {
        ones[i] = 1;
    }
    rng_fill_normal(&r, sizeof raw_q / sizeof(float), 1, raw_q);
    rng_fill_normal(&r, sizeof raw_k / sizeof(float), 1, raw_k[0]);
    rng_fill_normal(&r, sizeof raw_v / sizeof(float), 1, raw_v[0]);
    rng_fill_normal(&r, sizeof raw_index / sizeof(float), 1, raw_index);
    rng_fill_normal(&r, sizeof raw_index_k / sizeof(float), 1, raw_index_k[0]);
}

static void append(oracle_sequence *s, int cell) {
    const int32_t positions[3] = {cell, cell, cell};
    oracle_sequence_append(s, raw_k[cell], raw_v[cell], raw_index_k[cell], positions);
}

static void rope(void) {
    const oracle_geometry g = oracle_geometry_flash_next();
    const int32_t origin[3] = {0, 0, 0}, axes[3] = {1, 1000, 1000000};
    float c[32], s[32], one_c[32], one_s[32];
    double x[64], y[64];
    int count[3] = {0};
    PLAIN_CHECK(oracle_inv_freq(&g, 0) == 1.0f);
    PLAIN_CHECK_NEAR(oracle_inv_freq(&g, 16), 1 / sqrt(1e7), 1e-10);
    // Which axis a frequency takes: 11 temporal, 11 height, 10 width.
    oracle_rope_table(&g, axes, c, s);
    for (int axis = 0; axis < 3; axis++) {
        const int32_t same[3] = {axes[axis], axes[axis], axes[axis]};
        oracle_rope_table(&g, same, one_c, one_s);
        for (int i = 0; i < 32; i++) {
            bool want = axis == (i % 3 == 2 && i < 30 ? 2 : i % 3 == 1 ? 1 : 0);
            count[axis] += want;
            PLAIN_CHECK((c[i] == one_c[i] && s[i] == one_s[i]) == want);
        }
    }
    PLAIN_CHECK(count[0] == 11 && count[1] == 11 && count[2] == 10);
    for (int i = 0; i < 64; i++) {
        x[i] = y[i] = i + 1;
    }
    oracle_rotate(&g, origin, y);
    PLAIN_CHECK_BYTES(y, x, sizeof x);
    const int32_t at_1[3] = {1, 1, 1};
    oracle_rotate(&g, at_1, y); // pair 0 turns by 1 radian: (1, 33)
    PLAIN_CHECK_NEAR(y[0], cos(1) - 33 * sin(1), 1e-5);
    PLAIN_CHECK_NEAR(y[32], 33 * cos(1) + sin(1), 1e-5);
}

// Both roundings of the inverse frequencies, bit by bit: 1 / f32(power) in float32. Rounding the
// quotient only gives other bits for some of them.
static void two_roundings(void) {
    const oracle_geometry g = oracle_geometry_flash_next();
    int other = 0;
    for (int i = 0; i < 32; i++) {
        long double power = powl(1e7L, (float)i / 32.0f);
        PLAIN_CHECK(oracle_inv_freq(&g, i) == 1.0f / (float)power);
        other += oracle_inv_freq(&g, i) != (float)(1 / power);
    }
    PLAIN_CHECK(other > 0);
}

static void norm(void) {
    const double x[2] = {3, 4};
    const float factor[2] = {1, 2};
    double y[2];
    oracle_rms_norm(2, x, factor, 0, y);
    PLAIN_CHECK_NEAR(y[0], 3 / sqrt(12.5), 1e-15);
    PLAIN_CHECK_NEAR(y[1], 8 / sqrt(12.5), 1e-15);
    oracle_rms_norm(2, x, factor, 12.5, y);
    PLAIN_CHECK_NEAR(y[0], 0.6, 1e-15);
}

// A token's rows: the gate is the second half of a head, the raw index key is not a query.
static void rows(void) {
    const int32_t origin[3] = {0, 0, 0};
    double q[H * D], gate[H * D], want[D], index_q[IH * ID];
    fill(1);
    oracle_query(&small, &plain_norms, raw_q, origin, q, gate);
    oracle_index_query(&small, &plain_norms, raw_index, origin, index_q);
    for (int h = 0; h < H; h++) {
        oracle_widen(D, raw_q + h * 2 * D, want);
        oracle_rms_norm(D, want, ones, 1e-6, want);
        PLAIN_CHECK_NEAR(oracle_rel_l2(D, q + h * D, want), 0, 1e-15);
        oracle_widen(D, raw_q + h * 2 * D + D, want);
        PLAIN_CHECK_NEAR(oracle_rel_l2(D, gate + h * D, want), 0, 0);
    }
    oracle_widen(ID, raw_index + ID, want);
    oracle_rms_norm(ID, want, ones, 1e-6, want);
    PLAIN_CHECK_NEAR(oracle_rel_l2(ID, index_q + ID, want), 0, 1e-15);
}

// Blocks by rank: 300 cells of one position make 75 blocks, each rotated at its first cell's.
static void blocks(void) {
    oracle_sequence s;
    const int32_t image[3] = {5, 0, 0};
    fill(2);
    oracle_sequence_init(&s, &small, &plain_norms, ORACLE_F64, ORACLE_F64);
    for (int cell = 0; cell < CELLS; cell++) {
        oracle_sequence_append(&s, raw_k[cell], raw_v[cell], raw_index_k[cell], image);
    }
    PLAIN_CHECK_INT(s.cells / small.ratio, 75);
    for (int b = 0; b < 75; b++) {
        double key[ID];
        for (int i = 0; i < ID; i++) {
            key[i] = ((double)raw_index_k[4 * b][i] + raw_index_k[4 * b + 1][i] + raw_index_k[4 * b + 2][i] +
                      raw_index_k[4 * b + 3][i]) /
                     4;
        }
        oracle_rms_norm(ID, key, ones, 1e-6, key);
        oracle_rotate(&small, image, key);
        PLAIN_CHECK_NEAR(oracle_rel_l2(ID, s.block_keys + b * ID, key), 0, 1e-15);
    }
    oracle_sequence_free(&s);
}

static void attention(void) {
    double q[H * D] = {0}, o[H * D], lse[H];
    int32_t cells[3] = {7, 9, 250};
    fill(3);
    oracle_rows k = {.f32 = raw_k[0]}, v = {.f32 = raw_v[0]};
    oracle_attend(&small, q, k, v, cells, 0, o, lse);
    PLAIN_CHECK(o[0] == 0 && o[H * D - 1] == 0 && lse[0] == -INFINITY && lse[H - 1] == -INFINITY);
    oracle_attend(&small, q, k, v, cells, 1, o, NULL);
    for (int h = 0; h < H; h++) { // head h reads KV head h / 2
        PLAIN_CHECK(o[h * D + 3] == raw_v[7][h / 2 * D + 3]);
    }
    oracle_attend(&small, q, k, v, cells, 3, o, lse);
    PLAIN_CHECK_NEAR(o[5], ((double)raw_v[7][5] + raw_v[9][5] + raw_v[250][5]) / 3, 1e-15);
    PLAIN_CHECK_NEAR(lse[1], log(3), 1e-15);
    // A logit 1000 above the others takes everything, and its log-sum-exp is itself.
    q[0] = 4000 / (double)raw_k[9][0];
    static float only[CELLS][G * D];
    only[9][0] = raw_k[9][0];
    oracle_attend(&small, q, (oracle_rows){.f32 = only[0]}, v, cells, 3, o, lse);
    PLAIN_CHECK_NEAR(lse[0], 1000, 1e-9);
    PLAIN_CHECK_NEAR(o[5], raw_v[9][5], 1e-15);
    double gate[2] = {0, 800}, x[2] = {3, 5};
    oracle_gate(2, x, gate, x);
    PLAIN_CHECK(x[0] == 1.5 && x[1] == 5);
}

// Truncate and append equals a fresh run; a row neither knows later cells nor reads unselected ones.
static void sequences(void) {
    const int32_t position[3] = {60, 60, 60};
    fill(4);
    for (int format = ORACLE_F64; format <= ORACLE_I8; format++) {
        oracle_sequence fresh, s;
        oracle_row want, got;
        oracle_sequence_init(&fresh, &small, &plain_norms, (oracle_format)format, ORACLE_F16);
        oracle_sequence_init(&s, &small, &plain_norms, (oracle_format)format, ORACLE_F16);
        oracle_row_init(&want, &small, CELLS);
        oracle_row_init(&got, &small, CELLS);
        for (int cell = 0; cell <= 60; cell++) {
            append(&fresh, cell);
        }
        for (int cell = 0; cell < 58; cell++) {
            append(&s, cell);
            for (int draft = 200; draft < 200 + cell % 9; draft++) {
                append(&s, draft);
            }
            oracle_sequence_truncate(&s, cell + 1);
        }
        for (int cell = 58; cell < 80; cell++) {
            append(&s, cell);
        }
        oracle_row_compute(&want, &fresh, ORACLE_OFFICIAL, 61, raw_q, raw_index, position);
        PLAIN_CHECK_INT(want.selection.cells, 17);
        for (int32_t c = 0, next = 0; c < s.cells; c++) { // poison all that is not selected
            bool selected = next < want.selection.cells && want.cells[next] == c;
            next += selected;
            for (int i = 0; !selected && i < G * D; i++) {
                s.k[c * G * D + i] = s.v[c * G * D + i] = NAN;
            }
        }
        oracle_row_compute(&got, &s, ORACLE_OFFICIAL, 61, raw_q, raw_index, position);
        PLAIN_CHECK_BYTES(got.ids, want.ids, sizeof *got.ids * 4);
        PLAIN_CHECK_BYTES(got.stored, want.stored, sizeof *got.stored * 15);
        PLAIN_CHECK_BYTES(got.o, want.o, sizeof *got.o * H * D);
        PLAIN_CHECK_BYTES(got.gated, want.gated, sizeof *got.gated * H * D);
        PLAIN_CHECK_BYTES(got.lse, want.lse, sizeof *got.lse * H);
        PLAIN_CHECK(isfinite(got.o[0]));
        oracle_row_free(&want);
        oracle_row_free(&got);
        oracle_sequence_free(&fresh);
        oracle_sequence_free(&s);
    }
}

static void errors(void) {
    const double want[4] = {3, 4, 0, 0}, off[4] = {3, 4, 0, 0.5}, bad[4] = {3, 4, 0, NAN}, zero[4] = {0};
    const float near[4] = {3, 4, 0.25f, 0};
    int head = -1;
    PLAIN_CHECK_NEAR(oracle_rel_l2(4, off, want), 0.1, 1e-15);
    PLAIN_CHECK_NEAR(oracle_rel_l2_f32(4, near, want), 0.05, 1e-15);
    PLAIN_CHECK(oracle_rel_l2(4, bad, want) == INFINITY && oracle_rel_l2(4, want, bad) == INFINITY);
    PLAIN_CHECK(oracle_rel_l2(4, zero, zero) == 0 && oracle_rel_l2(4, off, zero) == INFINITY);
    PLAIN_CHECK_NEAR(oracle_max_abs(4, off, want), 0.5, 0);
    PLAIN_CHECK_NEAR(oracle_max_abs_f32(4, near, want), 0.25, 0);
    PLAIN_CHECK(oracle_max_abs(4, bad, want) == INFINITY && oracle_max_abs_f32(4, near, bad) == INFINITY);
    PLAIN_CHECK(oracle_worst_head(2, 2, off, want, &head) == INFINITY && head == 1);
    PLAIN_CHECK_NEAR(oracle_worst_head_f32(1, 4, near, want, &head), 0.05, 1e-15);
    PLAIN_CHECK_INT(head, 0);
}

static void random_numbers(void) {
    rng r = rng_make(0);
    PLAIN_CHECK(rng_u64(&r) == UINT64_C(0xe220a8397b1dcdaf)); // the published first values of seed 0
    PLAIN_CHECK(rng_u64(&r) == UINT64_C(0x6e789e6aa1b965f4));
    double sum = 0, squares = 0;
    int hits[7] = {0};
    int32_t shuffled[100], seen[100] = {0};
    for (int i = 0; i < 100000; i++) {
        double x = rng_normal(&r);
        sum += x;
        squares += x * x;
        hits[rng_range(&r, -3, 3) + 3]++;
        PLAIN_CHECK(rng_below(&r, 5) < 5);
        double u = rng_uniform(&r);
        PLAIN_CHECK(u >= 0 && u < 1);
    }
    PLAIN_CHECK_NEAR(sum / 100000, 0, 0.02);
    PLAIN_CHECK_NEAR(squares / 100000, 1, 0.02);
    for (int i = 0; i < 7; i++) {
        PLAIN_CHECK_NEAR(hits[i], 100000.0 / 7, 600);
    }
    rng_shuffle(&r, 100, shuffled);
    for (int i = 0; i < 100; i++) {
        seen[shuffled[i]]++;
    }
    for (int i = 0; i < 100; i++) {
        PLAIN_CHECK_INT(seen[i], 1);
    }
}

int main(void) {
    PLAIN_RUN(rope);
    PLAIN_RUN(two_roundings);
    PLAIN_RUN(norm);
    PLAIN_RUN(rows);
    PLAIN_RUN(blocks);
    PLAIN_RUN(attention);
    PLAIN_RUN(sequences);
    PLAIN_RUN(errors);
    PLAIN_RUN(random_numbers);
    return plain_finish();
}
