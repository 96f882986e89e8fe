// SPDX-License-Identifier: Apache-2.0
//
// The reference kernels against statements that share no code with them: the float64 oracle within the bounds of the
// specification (q, keys 4e-6, scores 8e-6 absolute; attention over the stored rows 2e-6 relative l2), the oracle's codecs
// and a full sort exactly. Everything else is compared with the reference (test_kernels.c).
// LABELS: small cross
// RUNNER: plain
#include "kernels/kernels.h"
#include "num/load.h"
#include "support/kernel_values.h"
#include "support/oracle.h"
#include "support/plain_runner.h"
#include "support/rng.h"

#include <stdlib.h>

enum { DIM = QSA_MAX_HEAD_DIM, HEADS = 8, CELLS = 200 };

static size_t numbers(int rows, int dim) {
    return (size_t)rows * (size_t)dim;
}

static oracle_geometry draw_geometry(rng *r) {
    static const double thetas[] = {1e4, 5e5, 1e6, 1e7};
    oracle_geometry g = {.kv_heads = 1, .eps = (double)1e-6f};
    g.heads = rng_range(r, 1, HEADS);
    g.head_dim = rng_range(r, 2, 256);
    g.index_heads = rng_range(r, 1, HEADS);
    g.index_dim = rng_range(r, 2, 256);
    g.ratio = rng_range(r, 1, 8);
    g.budget = 8 * g.ratio;
    g.theta = thetas[rng_below(r, 4)];
    const int least = g.head_dim < g.index_dim ? g.head_dim : g.index_dim, half = rng_range(r, 1, least / 2);
    g.rotary_dim = 2 * half;
    g.sections[1] = rng_range(r, 0, half / 3);
    g.sections[2] = rng_range(r, 0, half / 3);
    g.sections[0] = half - g.sections[1] - g.sections[2];
    return g;
}

static void draw_positions(rng *r, int32_t positions[3]) {
    for (int i = 0; i < 3; i++)
        positions[i] = values_draw_position(r, 27);
}

static void fill_factor(rng *r, int n, float *factor) {
    rng_fill_uniform(r, (size_t)n, 0.5, 1.5, factor);
}

// cos and sin by the kernel, from the oracle's frequencies.
static void angles_of(const oracle_geometry *g, const int32_t positions[3], float *cosine, float *sine) {
    float inv_freq[DIM / 2];
    uint8_t axis[DIM / 2];
    for (int i = 0; i < g->rotary_dim / 2; i++) {
        inv_freq[i] = oracle_inv_freq(g, i);
        axis[i] = (uint8_t)(i % 3 == 1 && i < 3 * g->sections[1] ? 1 : i % 3 == 2 && i < 3 * g->sections[2] ? 2 : 0);
    }
    const qsa_angles_args args = {inv_freq, axis, positions, g->rotary_dim / 2, cosine, sine};
    qsa_angles_ref(&args);
}

static void angles(void) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        rng r = rng_make(seed);
        const oracle_geometry g = draw_geometry(&r);
        int32_t positions[3];
        float cosine[DIM / 2], sine[DIM / 2], want_cosine[DIM / 2], want_sine[DIM / 2];
        draw_positions(&r, positions);
        angles_of(&g, positions, cosine, sine);
        oracle_rope_table(&g, positions, want_cosine, want_sine);
        PLAIN_CHECK_BYTES(cosine, want_cosine, (size_t)g.rotary_dim / 2 * sizeof(float));
        PLAIN_CHECK_BYTES(sine, want_sine, (size_t)g.rotary_dim / 2 * sizeof(float));
    }
}

static void norm_rope(void) {
    double worst = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        rng r = rng_make(seed);
        const oracle_geometry g = draw_geometry(&r);
        const qsa_type type = values_draw_type(&r);
        float raw[HEADS * 256], factor[256], cosine[DIM / 2], sine[DIM / 2], out[HEADS * 256];
        int32_t positions[3];
        draw_positions(&r, positions);
        angles_of(&g, positions, cosine, sine);
        fill_factor(&r, g.head_dim, factor);
        values_fill(&r, VALUES_NORMAL, type, numbers(g.heads, g.head_dim), raw);
        const qsa_norm_rope_args args = {.x = raw,
                                         .type = type,
                                         .x_stride = g.head_dim * (int64_t)qsa_type_size(type),
                                         .vectors = g.heads,
                                         .dim = g.head_dim,
                                         .half = g.rotary_dim / 2,
                                         .factor = factor,
                                         .cosine = cosine,
                                         .sine = sine,
                                         .eps = (float)g.eps,
                                         .out = out,
                                         .out_stride = g.head_dim};
        qsa_norm_rope_ref(&args);
        for (int h = 0; h < g.heads; h++) {
            double want[256];
            for (int d = 0; d < g.head_dim; d++)
                want[d] = (double)qsa_load(raw, type, h * g.head_dim + d);
            oracle_rms_norm(g.head_dim, want, factor, g.eps, want);
            oracle_rotate(&g, positions, want);
            const double error = oracle_max_abs_f32((size_t)g.head_dim, out + h * g.head_dim, want);
            PLAIN_CHECK(error <= 4e-6);
            worst = fmax(worst, error);
        }
    }
    printf("  norm_rope: off by %.2e at most\n", worst);
}

static void pool(void) {
    double worst = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        rng r = rng_make(seed);
        const oracle_geometry g = draw_geometry(&r);
        float raw[8 * 256], factor[256], cosine[DIM / 2], sine[DIM / 2], out[256];
        double want[256];
        int32_t positions[3];
        uint64_t events[3] = {0};
        qsa_raw_key keys[8];
        draw_positions(&r, positions);
        angles_of(&g, positions, cosine, sine);
        fill_factor(&r, g.index_dim, factor);
        rng_fill_normal(&r, numbers(g.ratio, g.index_dim), 1, raw);
        for (int c = 0; c < g.ratio; c++)
            keys[c] = (qsa_raw_key){raw + c * g.index_dim, QSA_F32};
        const qsa_pool_args args = {keys,    g.ratio, g.index_dim, g.rotary_dim / 2, factor, cosine, sine, (float)g.eps,
                                    QSA_F32, out,     events};
        qsa_pool_ref(&args);
        const oracle_norms norms = {factor, factor, factor, factor};
        oracle_block_key(&g, &norms, raw, (size_t)g.index_dim, positions, want);
        const double error = oracle_max_abs_f32((size_t)g.index_dim, out, want);
        PLAIN_CHECK(error <= 4e-6 && !events[0] && !events[1] && !events[2]);
        worst = fmax(worst, error);
    }
    printf("  pool: off by %.2e at most\n", worst);
}

// Codes, scales and events of every format, edge values among them: exactly the oracle's.
static void store(void) {
    for (uint64_t seed = 0; seed < 600; seed++) {
        rng r = rng_make(seed);
        const qsa_type format = (qsa_type)rng_range(&r, QSA_F16, QSA_I8);
        const int dim = rng_range(&r, 1, 256);
        const double sizes[] = {1, 1, 1e-5, 1e-6, 4e-7, 3e6, 1e7, 3e4};
        float x[256];
        double wide[256];
        uint16_t codes[256] = {0}, want[256] = {0}, scales[4] = {0}, want_scales[4] = {0};
        uint64_t events[3] = {5, 6, 7};
        oracle_events want_events = {0};
        values_fill(&r, (values_kind)(seed % VALUES_KINDS), QSA_F32, (size_t)dim, x);
        const float size = (float)sizes[rng_below(&r, 8)];
        for (int d = 0; d < dim; d++) {
            x[d] *= size;
            wide[d] = (double)x[d];
        }
        const qsa_store_args args = {.x = x,
                                     .type = QSA_F32,
                                     .vectors = 1,
                                     .dim = dim,
                                     .format = format,
                                     .codes = codes,
                                     .scales = scales,
                                     .events = events};
        qsa_store_ref(&args);
        if (format == QSA_I8)
            oracle_i8_encode(dim, wide, (int8_t *)want, want_scales, &want_events);
        else
            for (int d = 0; d < dim; d++)
                want[d] = oracle_cache_encode(format == QSA_F16 ? ORACLE_F16 : ORACLE_BF16, wide[d], &want_events);
        PLAIN_CHECK_BYTES(codes, want, sizeof codes);
        PLAIN_CHECK_BYTES(scales, want_scales, sizeof scales);
        PLAIN_CHECK_INT(events[0], 5 + want_events.nans);
        PLAIN_CHECK_INT(events[1], 6 + want_events.infinities);
        PLAIN_CHECK_INT(events[2], 7 + want_events.saturated);
    }
}

static void score(void) {
    double worst = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        rng r = rng_make(seed);
        oracle_geometry g = draw_geometry(&r);
        g.index_dim = 16 * rng_range(&r, 1, 16) - (int)(seed % 3);
        enum { BLOCKS = 40 };
        static float keys[BLOCKS * 256], q[HEADS * 256];
        static double wide_keys[BLOCKS * 256], wide_q[HEADS * 256];
        float scores[BLOCKS];
        double want[BLOCKS];
        int32_t table[BLOCKS];
        const size_t key_count = numbers(BLOCKS, g.index_dim), q_count = numbers(g.index_heads, g.index_dim);
        rng_fill_normal(&r, key_count, 1, keys);
        rng_fill_normal(&r, q_count, 1 / sqrt(g.index_heads), q);
        oracle_widen(q_count, q, wide_q);
        rng_shuffle(&r, BLOCKS / 4, table);
        for (int b = 0; b < BLOCKS; b++)
            oracle_widen((size_t)g.index_dim, keys + (table[b / 4] * 4 + b % 4) * g.index_dim,
                         wide_keys + b * g.index_dim);
        const qsa_score_args args = {.index_q = q,
                                     .heads = g.index_heads,
                                     .dim = g.index_dim,
                                     .divisor = sqrtf((float)g.index_dim),
                                     .block_keys = keys,
                                     .format = QSA_F32,
                                     .page_table = table,
                                     .page_blocks = 4,
                                     .first = 0,
                                     .end = BLOCKS,
                                     .scores = scores};
        qsa_score_ref(&args);
        oracle_scores(&g, wide_q, wide_keys, BLOCKS, want, NULL);
        const double error = oracle_max_abs_f32(BLOCKS, scores, want);
        PLAIN_CHECK(error <= 8e-6);
        worst = fmax(worst, error);
    }
    printf("  score: off by %.2e at most\n", worst);
}

static const float *sort_scores;

static int by_rank(const void *x, const void *y) {
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return a == b ? 0 : oracle_before(sort_scores[a], a, sort_scores[b], b) ? -1 : 1;
}

static int by_number(const void *x, const void *y) {
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static void topk(void) {
    enum { MOST = 3000 };
    static float scores[MOST];
    static int32_t order[MOST], ids[MOST];
    for (uint64_t seed = 0; seed < 300; seed++) {
        rng r = rng_make(seed);
        const int32_t blocks = rng_range(&r, 1, seed % 4 ? 200 : MOST), take = rng_range(&r, 1, blocks);
        values_fill(&r, (values_kind)(seed % VALUES_KINDS), QSA_F32, (size_t)blocks, scores);
        for (int32_t b = 0; b < blocks; b++)
            order[b] = b;
        sort_scores = scores;
        qsort(order, (size_t)blocks, sizeof order[0], by_rank);
        const int32_t lowest = order[take - 1];
        qsort(order, (size_t)take, sizeof order[0], by_number);
        int32_t last = -1;
        const qsa_topk_args args = {scores, blocks, take, ids, &last};
        qsa_topk_ref(&args);
        PLAIN_CHECK_BYTES(ids, order, (size_t)take * sizeof ids[0]);
        PLAIN_CHECK(last >= 0 && last < take && ids[last] == lowest);
    }
}

// Rows of one KV head in a format, and their exact values.
typedef struct {
    unsigned char codes[CELLS * 256 * 4];
    uint16_t scales[CELLS * 4];
    double value[CELLS * 256];
} stored_rows;

static void store_rows(rng *r, stored_rows *rows, qsa_type format, int32_t dim) {
    static float raw[CELLS * 256];
    uint64_t events[3] = {0};
    const int32_t groups = (dim + QSA_GROUP - 1) / QSA_GROUP;
    rng_fill_normal(r, (size_t)CELLS * (size_t)dim, 1, raw);
    const qsa_store_args args = {.x = raw,
                                 .type = QSA_F32,
                                 .x_stride = dim * 4,
                                 .vectors = CELLS,
                                 .dim = dim,
                                 .format = format,
                                 .codes = rows->codes,
                                 .code_stride = dim * (int64_t)qsa_type_size(format),
                                 .scales = rows->scales,
                                 .scale_stride = groups,
                                 .events = events};
    qsa_store_ref(&args);
    for (int32_t c = 0; c < CELLS; c++)
        for (int32_t d = 0; d < dim; d++) {
            const size_t i = numbers(c, dim) + (size_t)d;
            uint16_t half;
            memcpy(&half, rows->codes + 2 * i, sizeof half);
            if (format == QSA_I8)
                rows->value[i] = (int8_t)rows->codes[i] * oracle_f16_decode(rows->scales[c * groups + d / QSA_GROUP]);
            else
                rows->value[i] = format == QSA_F16    ? oracle_f16_decode(half)
                                 : format == QSA_BF16 ? oracle_bf16_decode(half)
                                                      : (double)raw[i];
        }
}

// attend and merge over the stored rows; every format, chunks of 64 and what is left.
static void attend_merge(void) {
    static stored_rows k, v;
    static float q[HEADS * 256], out[HEADS * 256], records[4 * HEADS * 258], lse[HEADS];
    static double wide_q[HEADS * 256], want[HEADS * 256], want_lse[HEADS];
    double worst = 0, worst_lse = 0;
    for (uint64_t seed = 0; seed < 160; seed++) {
        rng r = rng_make(seed);
        oracle_geometry g = draw_geometry(&r);
        const int32_t dim = g.head_dim, count = seed % 4 ? rng_range(&r, 1, CELLS) : 64 * rng_range(&r, 1, 3);
        const qsa_type format = (qsa_type)(QSA_F32 + seed % 4);
        const double spread = seed % 8 < 4 ? 1 : 3; // logits of deviation 1 or 3
        int32_t cells[CELLS];
        store_rows(&r, &k, format, dim);
        store_rows(&r, &v, format, dim);
        rng_shuffle(&r, CELLS, cells);
        rng_fill_normal(&r, numbers(g.heads, dim), spread, q);
        oracle_widen(numbers(g.heads, dim), q, wide_q);
        const int64_t stride = (int64_t)g.heads * (2 + dim);
        const qsa_attend_args attend = {
            q,     g.heads, dim,   1 / sqrtf((float)dim), format, k.codes, v.codes, k.scales, v.scales, cells,
            count, records, stride};
        qsa_attend_ref(&attend);
        const qsa_merge_args merge = {.records = records,
                                      .chunk_stride = stride,
                                      .chunks = (count + QSA_CHUNK - 1) / QSA_CHUNK,
                                      .heads = g.heads,
                                      .dim = dim,
                                      .out = out,
                                      .out_type = QSA_F32,
                                      .out_stride = dim * 4,
                                      .lse = lse};
        qsa_merge_ref(&merge);
        const oracle_rows keys = {.f64 = k.value}, values = {.f64 = v.value};
        oracle_attend(&g, wide_q, keys, values, cells, count, want, want_lse);
        const double error = oracle_worst_head_f32(g.heads, dim, out, want, NULL);
        const double lse_error = oracle_max_abs_f32((size_t)g.heads, lse, want_lse);
        PLAIN_CHECK(error <= 2e-6);
        PLAIN_CHECK(lse_error <= 1e-5); // of values up to some 15: a few ulp of the logits
        worst = fmax(worst, error);
        worst_lse = fmax(worst_lse, lse_error);
    }
    printf("  attend and merge: relative l2 %.2e at most, log-sum-exp off by %.2e\n", worst, worst_lse);
}

// o * sigmoid(g): exp within 1 ulp, then an addition, a division and a product of half an ulp each, 2.5 x 2^-23 in all.
static void gate(void) {
    double worst = 0;
    rng r = rng_make(1);
    for (int i = 0; i < 20000; i++) {
        const float x = (float)rng_normal(&r), g = (float)(rng_normal(&r) * 8);
        const double wide_x = (double)x, wide_g = (double)g;
        float out;
        double want;
        const qsa_gate_args args = {&x, QSA_F32, 0, &g, QSA_F32, 0, &out, QSA_F32, 0, 1, 1};
        qsa_gate_ref(&args);
        oracle_gate(1, &wide_x, &wide_g, &want);
        const double error = fabs((double)out - want) / fabs(want);
        PLAIN_CHECK(error <= 2.5 * 0x1p-23);
        worst = fmax(worst, error);
    }
    printf("  gate: relative error %.2e at most\n", worst);
}

int main(void) {
    PLAIN_RUN(angles);
    PLAIN_RUN(norm_rope);
    PLAIN_RUN(pool);
    PLAIN_RUN(store);
    PLAIN_RUN(score);
    PLAIN_RUN(topk);
    PLAIN_RUN(attend_merge);
    PLAIN_RUN(gate);
    return plain_finish();
}
