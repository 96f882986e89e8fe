// SPDX-License-Identifier: Apache-2.0
//
// Attention of class fast over an i8 cache does what docs/numerics.md says, to the bit: every row of the idea equals a plain
// statement of its quantization steps in int64 and float32, and the strict kernel where it leaves the work to that one. So the
// rows agree with each other too, on every machine. Codes are any bytes, -128 among them; scales may be 0 or subnormal.
// LABELS: small cross
// RUNNER: plain
#include "dispatch/table.h"
#include "emulated/emulated.h"
#include "num/load.h"
#include "support/kernel_values.h"
#include "support/plain_runner.h"
#include "support/rng.h"

#include <stdlib.h>

enum { CELLS = 200, MOST = 200, NUMBERS = 1 << 19, GROUPS = QSA_MAX_HEAD_DIM / QSA_GROUP };

typedef struct {
    int8_t *k, *v; // [2 CELLS][dim]
    uint16_t *k_scales, *v_scales;
    float *q, *records, *want;
    int32_t cells[2 * CELLS];
    qsa_attend_args args;
} call;

static call *call_new(void) {
    call *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->k = malloc((size_t)2 * CELLS * QSA_MAX_HEAD_DIM);
    c->v = malloc((size_t)2 * CELLS * QSA_MAX_HEAD_DIM);
    c->k_scales = malloc((size_t)2 * CELLS * GROUPS * 2);
    c->v_scales = malloc((size_t)2 * CELLS * GROUPS * 2);
    c->q = malloc((size_t)QSA_MAX_HEADS_PER_KV * QSA_MAX_HEAD_DIM * sizeof(float));
    c->records = malloc((size_t)NUMBERS * sizeof(float));
    c->want = malloc((size_t)NUMBERS * sizeof(float));
    if (!c->k || !c->v || !c->k_scales || !c->v_scales || !c->q || !c->records || !c->want)
        abort();
    return c;
}

static void call_free(call *c) {
    free(c->k);
    free(c->v);
    free(c->k_scales);
    free(c->v_scales);
    free(c->q);
    free(c->records);
    free(c->want);
    free(c);
}

static void draw_scales(rng *r, size_t n, uint16_t *scales) {
    static const uint16_t edges[] = {0x0000, 0x8000, 0x0001, 0x000d, 0x03ff, 0x0400, 0x7bff};
    for (size_t i = 0; i < n; i++) {
        const uint16_t normal = (uint16_t)rng_range(r, 0x1800, 0x2c00);
        scales[i] = rng_below(r, 16) ? normal : edges[rng_below(r, 7)];
    }
}

static int32_t draw_dim(rng *r) {
    static const int32_t dims[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 96, 127, 128, 192, 256, 320, 1024};
    return rng_below(r, 2) ? dims[rng_below(r, sizeof dims / sizeof dims[0])] : rng_range(r, 1, 300);
}

static void draw(call *c, uint64_t seed) {
    rng r = rng_make(seed);
    static const int32_t counts[] = {1, 2, 3, 4, 5, 63, 64, 65, 128, 200};
    const int32_t heads = seed < 64 ? (int32_t)seed + 1 : rng_range(&r, 1, 24), dim = draw_dim(&r);
    const size_t groups = ((size_t)dim + QSA_GROUP - 1) / QSA_GROUP;
    int32_t count = rng_below(&r, 2) ? counts[rng_below(&r, 10)] : rng_range(&r, 1, MOST);
    const int32_t most = NUMBERS / 8 / (heads * (2 + dim)) * QSA_CHUNK;
    count = count < most || most == 0 ? count : most;
    count = most == 0 && count > QSA_CHUNK ? QSA_CHUNK : count;
    rng_fill_bytes(&r, (size_t)2 * CELLS * (size_t)dim, c->k);
    rng_fill_bytes(&r, (size_t)2 * CELLS * (size_t)dim, c->v);
    draw_scales(&r, 2 * CELLS * groups, c->k_scales);
    draw_scales(&r, 2 * CELLS * groups, c->v_scales);
    rng_fill_normal(&r, (size_t)heads * (size_t)dim, seed % 3 ? 0.05 : 2, c->q);
    if (seed % 5 == 0) // a head of zeros, one of -0, one tiny and one huge, both still ordinary
        for (int32_t h = 0; h < heads && h < 4; h++)
            for (int32_t d = 0; d < dim; d++) {
                static const float factor[] = {0.0f, -0.0f, 0x1p-40f, 0x1p12f};
                c->q[h * dim + d] = h < 2 ? factor[h] : c->q[h * dim + d] * factor[h];
            }
    rng_shuffle(&r, 2 * CELLS, c->cells);
    c->args = (qsa_attend_args){.q = c->q,
                                .heads = heads,
                                .dim = dim,
                                .scale = 1 / sqrtf((float)dim),
                                .format = QSA_I8,
                                .k = c->k,
                                .v = c->v,
                                .k_scales = c->k_scales,
                                .v_scales = c->v_scales,
                                .cells = c->cells,
                                .count = count,
                                .records = c->records,
                                .chunk_stride = heads * (2 + dim)};
}

static size_t numbers(const call *c) {
    return (size_t)((c->args.count + QSA_CHUNK - 1) / QSA_CHUNK) * (size_t)c->args.chunk_stride;
}

// ---- The statement -------------------------------------------------------------------------------

// Integers nearest to x / (largest / 32767), and that step.
static float quantize(const float *x, int n, float largest, int64_t *out) {
    const float inverse = largest != 0.0f ? 32767.0f / largest : 0.0f;
    for (int i = 0; i < n; i++) { // what is not finite makes its head NaN whatever stands here
        const float rounded = rintf(x[i] * inverse);
        out[i] = fabsf(rounded) <= 32768.0f ? (int64_t)rounded : 0;
    }
    return largest / 32767.0f;
}

static void model_logits(const qsa_attend_args *a, const float *q, const int32_t *cells, int count, float *s) {
    const int groups = (a->dim + QSA_GROUP - 1) / QSA_GROUP;
    memset(s, 0, (size_t)count * sizeof *s);
    for (int g = 0; g < groups; g++) {
        const int first = g * QSA_GROUP, n = a->dim - first < QSA_GROUP ? a->dim - first : QSA_GROUP;
        int64_t x[QSA_GROUP];
        float largest = 0;
        for (int d = 0; d < n; d++)
            largest = fmaxf(largest, fabsf(q[first + d]));
        const float step = quantize(q + first, n, largest, x) * a->scale;
        for (int c = 0; c < count; c++) {
            int64_t sum = 0;
            for (int d = 0; d < n; d++)
                sum += x[d] * ((const int8_t *)a->k)[(size_t)cells[c] * (size_t)a->dim + (size_t)(first + d)];
            const float scale = qsa_f32_of_f16(a->k_scales[cells[c] * groups + g]);
            s[c] = fmaf((float)sum, step * scale, s[c]);
        }
    }
}

// Heavy cells, if there are at most four, get the strict class's logit.
static void model_refine(const qsa_attend_args *a, const float *q, const int32_t *cells, int count, float *s) {
    const int groups = (a->dim + QSA_GROUP - 1) / QSA_GROUP;
    float highest = s[0], row[QSA_MAX_HEAD_DIM];
    int heavy = 0;
    for (int c = 1; c < count; c++)
        highest = fmaxf(highest, s[c]);
    for (int c = 0; c < count; c++)
        heavy += s[c] >= highest - 1.3862944f;
    for (int c = 0; c < count && heavy <= 4; c++)
        if (s[c] >= highest - 1.3862944f) {
            qsa_decode_row(row, (const int8_t *)a->k + (size_t)cells[c] * (size_t)a->dim,
                           a->k_scales + cells[c] * groups, QSA_I8, a->dim);
            s[c] = qsa_dot(q, row, a->dim) * a->scale + 0.0f;
        }
}

static void model_record(const qsa_attend_args *a, const float *q, const int32_t *cells, int count, float *record) {
    const int groups = (a->dim + QSA_GROUP - 1) / QSA_GROUP;
    float s[QSA_CHUNK], lane[QSA_LANES] = {0};
    model_logits(a, q, cells, count, s);
    model_refine(a, q, cells, count, s);
    record[0] = s[0];
    for (int c = 1; c < count; c++)
        record[0] = fmaxf(record[0], s[c]);
    for (int c = 0; c < count; c++) {
        s[c] = qsa_exp(s[c] - record[0]);
        lane[c % QSA_LANES] += s[c];
    }
    record[1] = qsa_fold_lanes(lane);
    for (int d = 0; d < a->dim; d++) {
        const int g = d / QSA_GROUP;
        float p[QSA_CHUNK], largest = 0x1p-100f;
        int64_t x[QSA_CHUNK], sum = 0;
        for (int c = 0; c < count; c++) {
            p[c] = s[c] * qsa_f32_of_f16(a->v_scales[cells[c] * groups + g]);
            largest = fmaxf(largest, p[c]);
        }
        const float inverse = 65535.0f / largest;
        for (int c = 0; c < count; c++) { // what is not finite makes its head NaN whatever stands here
            const float rounded = rintf(fmaf(p[c], inverse, -32768.0f));
            x[c] = fabsf(rounded) <= 65536.0f ? (int64_t)rounded + 32768 : 0;
        }
        for (int c = 0; c < count; c++)
            sum += x[c] * ((const int8_t *)a->v)[(size_t)cells[c] * (size_t)a->dim + (size_t)d];
        record[2 + d] = (float)sum * (largest / 65535.0f);
    }
}

static void model(const qsa_attend_args *a, float *records) {
    for (int32_t first = 0; first < a->count; first += QSA_CHUNK, records += a->chunk_stride)
        for (int32_t h = 0; h < a->heads; h++)
            model_record(a, a->q + h * a->dim, a->cells + first,
                         a->count - first < QSA_CHUNK ? a->count - first : QSA_CHUNK, records + h * (2 + a->dim));
}

// ---- Rows ----------------------------------------------------------------------------------------

static const qsa_kernel_row *fast[16];
static int fast_rows, emulated_rows;

static void find_rows(void) {
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (row->number == QSA_K_attend && row->kernel_class == QSA_CLASS_FAST && fast_rows < 16) {
            const char *unusable = qsa_table_ready(row);
            printf("  %s: %s\n", row->name, *unusable ? unusable : "run");
            if (!*unusable)
                fast[fast_rows++] = row;
        }
    }
    for (const qsa_kernel_row *row; fast_rows < 16 && (row = emulated_row(emulated_rows)) != NULL; emulated_rows++) {
        printf("  %s: run\n", row->name);
        fast[fast_rows++] = row;
    }
}

static void run(const qsa_kernel_row *row, call *c) {
    memset(c->records, 0xff, numbers(c) * sizeof(float));
    ((qsa_attend_fn)row->function)(&c->args);
}

static void same(const call *c, const qsa_kernel_row *row, uint64_t seed) {
    char text[160];
    size_t i = 0;
    while (i < numbers(c) && qsa_bits_of_f32(c->records[i]) == qsa_bits_of_f32(c->want[i]))
        i++;
    snprintf(text, sizeof text, "%s, seed %d: heads %d, dim %d, cells %d: number %zu is %g, not %g", row->name,
             (int)seed, (int)c->args.heads, (int)c->args.dim, (int)c->args.count, i,
             i < numbers(c) ? (double)c->records[i] : 0, i < numbers(c) ? (double)c->want[i] : 0);
    plain_check(i == numbers(c), __FILE__, __LINE__, text);
}

static void as_stated(void) {
    call *c = call_new();
    for (uint64_t seed = 0; seed < 200; seed++) {
        draw(c, seed);
        model(&c->args, c->want);
        for (int i = 0; i < fast_rows; i++) {
            run(fast[i], c);
            same(c, fast[i], seed);
        }
    }
    call_free(c);
}

// What one int16 more or less would change is seen: the statement with one code changed is another.
static void control(void) {
    call *c = call_new();
    int seen = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(c, seed);
        run(fast[0], c);
        c->v[(size_t)c->cells[0] * (size_t)c->args.dim] ^= 1;
        c->k[(size_t)c->cells[0] * (size_t)c->args.dim] ^= 1;
        model(&c->args, c->want);
        seen += memcmp(c->records, c->want, numbers(c) * sizeof(float)) != 0;
    }
    PLAIN_CHECK(seen >= 15); // a head of zeros or a scale of 0 hides it
    call_free(c);
}

// ---- What is left to strict ----------------------------------------------------------------------

static void strictly(const qsa_attend_args *a, float *records) {
    qsa_attend_args strict = *a;
    strict.records = records;
    qsa_attend_ref(&strict);
}

// Other formats: the strict bits, whatever is in the rows.
static void other_formats(void) {
    call *c = call_new();
    for (uint64_t seed = 0; seed < 60; seed++) {
        draw(c, seed + 64);
        rng r = rng_make(seed);
        c->args.format = (qsa_type)(QSA_F32 + seed % 3);
        c->args.dim = c->args.dim < 256 ? c->args.dim : 256; // four bytes a number in the same memory
        c->args.chunk_stride = c->args.heads * (2 + c->args.dim);
        const size_t n = (size_t)2 * CELLS * (size_t)c->args.dim;
        values_fill(&r, seed % 2 ? VALUES_NORMAL : (values_kind)(seed % VALUES_KINDS), c->args.format, n, c->k);
        values_fill(&r, VALUES_NORMAL, c->args.format, n, c->v);
        strictly(&c->args, c->want);
        for (int i = 0; i < fast_rows; i++) {
            run(fast[i], c);
            same(c, fast[i], seed);
        }
    }
    call_free(c);
}

// A head with a NaN, an infinity or numbers far out is strict; the others are as stated, and so do not depend on it.
static void odd_heads(void) {
    const float odd[] = {qsa_nan(), qsa_infinity(), -qsa_infinity(), 0x1p80f, -3.4e38f, 0x1p-80f, 1e-44f};
    call *c = call_new();
    for (uint64_t seed = 0; seed < 70; seed++) {
        draw(c, seed);
        const int32_t dim = c->args.dim, stride = 2 + dim, h = (int32_t)seed % c->args.heads;
        if (seed % 7 >= 5)
            memset(c->q + h * dim, 0, (size_t)dim * sizeof(float)); // tiny beside nothing
        c->q[h * dim + (int32_t)seed % dim] = odd[seed % 7];
        model(&c->args, c->want);
        float *head = malloc(numbers(c) * sizeof(float));
        if (!head)
            abort();
        strictly(&c->args, head);
        for (int32_t k = 0; k * QSA_CHUNK < c->args.count; k++)
            memcpy(c->want + k * c->args.chunk_stride + h * stride, head + k * c->args.chunk_stride + h * stride,
                   (size_t)stride * sizeof(float));
        if (seed % 7 == 0)
            PLAIN_CHECK(qsa_bits_of_f32(c->want[h * stride]) == QSA_NAN_BITS);
        free(head);
        for (int i = 0; i < fast_rows; i++) {
            run(fast[i], c);
            same(c, fast[i], seed);
        }
    }
    call_free(c);
}

// Scales that no cache holds (qsa_cache_write refuses them): the chunk is strict, the others as stated.
static void odd_scales(void) {
    static const uint16_t odd[] = {0x7c00, 0x7e00, 0xfc00, 0xfe01, 0xa400, 0x8001};
    call *c = call_new();
    for (uint64_t seed = 0; seed < 72; seed++) {
        draw(c, seed);
        const int32_t groups = (c->args.dim + QSA_GROUP - 1) / QSA_GROUP, at = (int32_t)seed % c->args.count;
        uint16_t *scales = seed / 6 % 2 ? c->k_scales : c->v_scales;
        scales[c->cells[at] * groups + (int32_t)seed % groups] = odd[seed % 6];
        model(&c->args, c->want);
        float *all = malloc(numbers(c) * sizeof(float));
        if (!all)
            abort();
        strictly(&c->args, all);
        const int64_t chunk = at / QSA_CHUNK * c->args.chunk_stride;
        memcpy(c->want + chunk, all + chunk, (size_t)c->args.chunk_stride * sizeof(float));
        free(all);
        for (int i = 0; i < fast_rows; i++) {
            run(fast[i], c);
            same(c, fast[i], seed);
        }
    }
    call_free(c);
}

static void no_row(void) {
    plain_skip("test_fast_model", "no row of class fast runs here");
}

int main(void) {
    find_rows();
    if (fast_rows == 0) {
        PLAIN_RUN(no_row);
        return plain_finish();
    }
    PLAIN_RUN(as_stated);
    PLAIN_RUN(control);
    PLAIN_RUN(other_formats);
    PLAIN_RUN(odd_heads);
    PLAIN_RUN(odd_scales);
    return plain_finish();
}
