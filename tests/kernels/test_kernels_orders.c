// SPDX-License-Identifier: Apache-2.0
//
// The orders of docs/numerics.md written out once more, one operation a line, and compared with the reference by memcmp:
// the norm's sums, a block key's mean, scores, the records of every chunk of 64 cells, the merge. An order that differs
// in one addition gives other bits (the control at the end).
// LABELS: small cross
// RUNNER: plain
#include "kernels/kernels.h"
#include "num/num.h"
#include "support/plain_runner.h"
#include "support/rng.h"

enum { MOST = 300, HEADS = 3 };

// The lane sum's tree, from its leaves: lane j holds the elements j, j + 16, ...
static float lanes_folded(const float lane[16]) {
    float eight[8], four[4], two[2];
    for (int j = 0; j < 8; j++)
        eight[j] = lane[j] + lane[j + 8];
    for (int j = 0; j < 4; j++)
        four[j] = eight[j] + eight[j + 4];
    for (int j = 0; j < 2; j++)
        two[j] = four[j] + four[j + 2];
    return two[0] + two[1];
}

static float dot(const float *a, const float *b, int n) {
    float lane[16];
    for (int j = 0; j < 16; j++) {
        lane[j] = 0;
        for (int i = j; i < n; i += 16)
            lane[j] = fmaf(a[i], b[i], lane[j]);
    }
    return lanes_folded(lane);
}

static float sum(const float *a, int n) {
    float lane[16] = {0};
    for (int i = 0; i < n; i++)
        lane[i % 16] = lane[i % 16] + a[i];
    return lanes_folded(lane);
}

static void norm(void) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        rng r = rng_make(seed);
        const int dim = rng_range(&r, 1, MOST), half = rng_range(&r, 0, dim / 2);
        float x[MOST], factor[MOST], cosine[MOST], sine[MOST], out[MOST], want[MOST] = {0}, y[MOST] = {0};
        rng_fill_normal(&r, MOST, 1, x);
        rng_fill_normal(&r, MOST, 1, factor);
        rng_fill_normal(&r, MOST, 1, cosine);
        rng_fill_normal(&r, MOST, 1, sine);
        const qsa_norm_rope_args args = {.x = x,
                                         .type = QSA_F32,
                                         .vectors = 1,
                                         .dim = dim,
                                         .half = half,
                                         .factor = factor,
                                         .cosine = cosine,
                                         .sine = sine,
                                         .eps = 1e-6f,
                                         .out = out};
        qsa_norm_rope_ref(&args);
        const float mean = dot(x, x, dim) / (float)dim;
        const float root = sqrtf(mean + 1e-6f);
        const float inverse = 1.0f / root;
        for (int d = 0; d < dim; d++) {
            const float scaled = x[d] * inverse;
            want[d] = y[d] = scaled * factor[d];
        }
        for (int d = 0; d < half; d++) {
            const float first = y[half + d] * sine[d], second = y[d] * sine[d];
            want[d] = fmaf(y[d], cosine[d], -first);
            want[half + d] = fmaf(y[half + d], cosine[d], second);
        }
        PLAIN_CHECK_BYTES(out, want, (size_t)dim * sizeof(float));
    }
}

static void block_key(void) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        rng r = rng_make(seed);
        const int dim = rng_range(&r, 1, MOST), ratio = rng_range(&r, 1, 8);
        float raw[8][MOST] = {{0}}, factor[MOST], out[MOST], want[MOST] = {0}, mean[MOST] = {0};
        qsa_raw_key keys[8];
        uint64_t events[3] = {0};
        rng_fill_normal(&r, MOST, 1, factor);
        for (int c = 0; c < ratio; c++) {
            rng_fill_normal(&r, MOST, 1, raw[c]);
            keys[c] = (qsa_raw_key){raw[c], QSA_F32};
        }
        const qsa_pool_args args = {
            keys, ratio, dim, 0, factor, NULL, NULL, 1e-6f, QSA_F32, out, events,
        };
        qsa_pool_ref(&args);
        for (int d = 0; d < dim; d++) {
            float total = raw[0][d];
            for (int c = 1; c < ratio; c++)
                total = total + raw[c][d];
            mean[d] = total / (float)ratio;
        }
        const float inverse = 1.0f / sqrtf(dot(mean, mean, dim) / (float)dim + 1e-6f);
        for (int d = 0; d < dim; d++)
            want[d] = (mean[d] * inverse) * factor[d];
        PLAIN_CHECK_BYTES(out, want, (size_t)dim * sizeof(float));
    }
}

static void scores(void) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        rng r = rng_make(seed);
        const int dim = rng_range(&r, 1, MOST);
        float q[HEADS * MOST], key[MOST], out = 0, want = 0;
        const int32_t page = 0;
        rng_fill_normal(&r, HEADS * MOST, 1, q);
        rng_fill_normal(&r, MOST, 1, key);
        const float root = sqrtf((float)dim);
        const qsa_score_args args = {.index_q = q,
                                     .heads = HEADS,
                                     .dim = dim,
                                     .divisor = root,
                                     .block_keys = key,
                                     .format = QSA_F32,
                                     .page_table = &page,
                                     .page_blocks = 1,
                                     .first = 0,
                                     .end = 1,
                                     .scores = &out};
        qsa_score_ref(&args);
        for (int h = 0; h < HEADS; h++) {
            const float d = dot(q + h * dim, key, dim);
            want = want + (d > 0 ? d : 0);
        }
        want = want / root;
        PLAIN_CHECK_BYTES(&out, &want, sizeof out);
    }
}

// One record of one head over the listed cells.
static void record_of(const qsa_attend_args *args, int h, const int32_t *cells, int count, float *record) {
    const float *k = args->k, *v = args->v;
    float s[QSA_CHUNK], p[QSA_CHUNK];
    record[0] = -INFINITY;
    for (int c = 0; c < count; c++) {
        const float d = dot(args->q + h * args->dim, k + cells[c] * args->dim, args->dim);
        s[c] = d * args->scale;
        record[0] = s[c] > record[0] ? s[c] : record[0];
    }
    for (int c = 0; c < count; c++)
        p[c] = qsa_exp(s[c] - record[0]);
    record[1] = sum(p, count);
    for (int d = 0; d < args->dim; d++) {
        record[2 + d] = 0;
        for (int c = 0; c < count; c++)
            record[2 + d] = fmaf(p[c], v[cells[c] * args->dim + d], record[2 + d]);
    }
}

typedef struct {
    float q[HEADS * MOST], k[200 * MOST], v[200 * MOST], records[4 * HEADS * (2 + MOST)];
    int32_t cells[200];
    qsa_attend_args args;
    int chunks;
} attention;

static void draw_attention(attention *a, uint64_t seed) {
    static const int counts[] = {1, 63, 64, 65, 127, 128, 129, 192};
    rng r = rng_make(seed);
    const int dim = rng_range(&r, 1, 80), count = seed % 2 ? counts[seed / 2 % 8] : rng_range(&r, 1, 200);
    rng_fill_normal(&r, HEADS * (size_t)dim, 2, a->q);
    rng_fill_normal(&r, 200 * (size_t)dim, 1, a->k);
    rng_fill_normal(&r, 200 * (size_t)dim, 1, a->v);
    rng_shuffle(&r, 200, a->cells);
    a->chunks = (count + 63) / 64;
    a->args = (qsa_attend_args){.q = a->q,
                                .heads = HEADS,
                                .dim = dim,
                                .scale = 1 / sqrtf((float)dim),
                                .format = QSA_F32,
                                .k = a->k,
                                .v = a->v,
                                .cells = a->cells,
                                .count = count,
                                .records = a->records,
                                .chunk_stride = HEADS * (2 + dim)};
    qsa_attend_ref(&a->args);
}

// Chunks of 64 of the list, whatever the cells are: each record is that of its own cells alone.
static void records(void) {
    static attention a;
    for (uint64_t seed = 0; seed < 120; seed++) {
        draw_attention(&a, seed);
        const int dim = a.args.dim, stride = 2 + dim;
        for (int c = 0; c < a.chunks; c++) {
            const int left = a.args.count - 64 * c, count = left < 64 ? left : 64;
            float want[2 + MOST], alone[HEADS * (2 + MOST)];
            for (int h = 0; h < HEADS; h++) {
                record_of(&a.args, h, a.cells + 64 * c, count, want);
                PLAIN_CHECK_BYTES(a.records + (c * HEADS + h) * stride, want, (size_t)stride * sizeof(float));
            }
            qsa_attend_args one = a.args;
            one.cells += 64 * c;
            one.count = count;
            one.records = alone;
            qsa_attend_ref(&one);
            PLAIN_CHECK_BYTES(a.records + c * HEADS * stride, alone, HEADS * (size_t)stride * sizeof(float));
        }
    }
}

static void merged(void) {
    static attention a;
    for (uint64_t seed = 0; seed < 120; seed++) {
        draw_attention(&a, seed);
        const int dim = a.args.dim, stride = 2 + dim;
        float out[HEADS * MOST], want[MOST] = {0};
        const qsa_merge_args args = {.records = a.records,
                                     .chunk_stride = HEADS * stride,
                                     .chunks = a.chunks,
                                     .heads = HEADS,
                                     .dim = dim,
                                     .out = out,
                                     .out_type = QSA_F32,
                                     .out_stride = dim * 4};
        qsa_merge_ref(&args);
        for (int h = 0; h < HEADS; h++) {
            float m = -INFINITY, l = 0, e[4];
            for (int c = 0; c < a.chunks; c++)
                m = fmaxf(m, a.records[(c * HEADS + h) * stride]);
            for (int c = 0; c < a.chunks; c++) {
                e[c] = qsa_exp(a.records[(c * HEADS + h) * stride] - m);
                l = fmaf(a.records[(c * HEADS + h) * stride + 1], e[c], l);
            }
            for (int d = 0; d < dim; d++) {
                float o = 0;
                for (int c = 0; c < a.chunks; c++)
                    o = fmaf(a.records[(c * HEADS + h) * stride + 2 + d], e[c], o);
                want[d] = o / l;
            }
            PLAIN_CHECK_BYTES(out + h * dim, want, (size_t)dim * sizeof(float));
        }
    }
}

// One plain chain instead of sixteen lanes, or two roundings instead of one: seen by the bits.
static void other_orders(void) {
    int chain = 0, rounded = 0, tree = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        rng r = rng_make(seed);
        float a[64], b[64], serial = 0, lane[16] = {0}, twice[16] = {0}, pairs[16];
        rng_fill_normal(&r, 64, 1, a);
        rng_fill_normal(&r, 64, 1, b);
        for (int i = 0; i < 64; i++) {
            serial = fmaf(a[i], b[i], serial);
            lane[i % 16] = fmaf(a[i], b[i], lane[i % 16]);
            twice[i % 16] = twice[i % 16] + a[i] * b[i];
        }
        memcpy(pairs, lane, sizeof pairs);
        for (int n = 8; n >= 1; n /= 2) // neighbours, the tree of a horizontal add
            for (int j = 0; j < n; j++)
                pairs[j] = pairs[2 * j] + pairs[2 * j + 1];
        const float want = qsa_dot(a, b, 64);
        PLAIN_CHECK(dot(a, b, 64) == want);
        chain += serial != want;
        rounded += lanes_folded(twice) != want;
        tree += pairs[0] != want;
    }
    PLAIN_CHECK(chain > 50 && rounded > 50 && tree > 30);
}

int main(void) {
    PLAIN_RUN(norm);
    PLAIN_RUN(block_key);
    PLAIN_RUN(scores);
    PLAIN_RUN(records);
    PLAIN_RUN(merged);
    PLAIN_RUN(other_orders);
    return plain_finish();
}
