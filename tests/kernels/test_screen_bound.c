// SPDX-License-Identifier: Apache-2.0
//
// The bounds of screened scoring: the sum that the plain score divides, and the exact one in double, lie between lower and
// upper for every key, ordinary or chosen against the bound. Keys that reach it show that it is as tight as it claims to be,
// and that a residual that is a tenth too small would be noticed.
// LABELS: small cross
// RUNNER: plain
#include "kernels/kernels.h"
#include "num/load.h"
#include "support/kernel_values.h"
#include "support/plain_runner.h"

#include <stdlib.h>

enum { BLOCKS = 48, HEADS = 16, DIM = QSA_MAX_HEAD_DIM };
#if defined(QSA_SANITIZED) || !defined(__x86_64__)
enum { SEEDS = 500 };
#else
enum { SEEDS = 1500 };
#endif

// A row's queries against BLOCKS keys, in order in one page.
typedef struct screened {
    int32_t heads, dim;
    qsa_type format;
    float q[HEADS * DIM];
    unsigned char keys[BLOCKS * DIM * 4];
    int8_t codes[BLOCKS * DIM];
    float scales[BLOCKS], residuals[BLOCKS];
    int16_t q_codes[HEADS * DIM];
    float q_scales[HEADS], bound[3];
    int32_t usable;
    float lower[BLOCKS], upper[BLOCKS], sums[BLOCKS];
} screened;

static screened the; // large

static unsigned char *key_at(int32_t b) {
    return the.keys + (size_t)b * (size_t)the.dim * qsa_type_size(the.format);
}

static void encode(void) {
    const int32_t stride = qsa_screen_stride(the.dim);
    for (int32_t b = 0; b < BLOCKS; b++) {
        const qsa_screen_key_args key = {key_at(b),      the.format,       the.dim, the.codes + b * stride,
                                         &the.scales[b], &the.residuals[b]};
        qsa_screen_key_ref(&key);
    }
    const qsa_screen_query_args query = {the.q, the.heads, the.dim, the.q_codes, the.q_scales, the.bound, &the.usable};
    qsa_screen_query_ref(&query);
}

// Bounds by the reference, and the plain sums: a divisor of 1 changes nothing.
static void bound_all(void) {
    const int32_t page = 0;
    const qsa_screen_args screen = {.codes = the.q_codes,
                                    .scales = the.q_scales,
                                    .bound = the.bound,
                                    .heads = qsa_screen_heads(the.heads),
                                    .stride = qsa_screen_stride(the.dim),
                                    .keys = the.codes,
                                    .key_scales = the.scales,
                                    .residuals = the.residuals,
                                    .page_table = &page,
                                    .page_blocks = BLOCKS,
                                    .end = BLOCKS,
                                    .lower = the.lower,
                                    .upper = the.upper};
    qsa_screen_ref(&screen);
    const qsa_score_args score = {the.q, the.heads, the.dim, 1,      the.keys, the.format,
                                  &page, BLOCKS,    0,       BLOCKS, the.sums, NULL};
    qsa_score_ref(&score);
}

static double exact_sum(int32_t b) {
    double sum = 0;
    for (int32_t h = 0; h < the.heads; h++) {
        double dot = 0;
        for (int32_t d = 0; d < the.dim; d++)
            dot += (double)the.q[h * the.dim + d] * (double)qsa_load(key_at(b), the.format, d);
        sum += dot > 0 ? dot : 0;
    }
    return sum;
}

static bool finite_key(int32_t b) {
    float key[DIM];
    qsa_load_row(key, key_at(b), the.format, the.dim);
    return qsa_screen_largest(key, the.dim) <= QSA_SCREEN_MOST;
}

// Blocks whose sum is outside its bounds; *share: the largest part of a bound that an error takes.
static int outside(double *share) {
    int count = 0;
    for (int32_t b = 0; b < BLOCKS; b++) {
        const double low = (double)the.lower[b], high = (double)the.upper[b], sum = (double)the.sums[b];
        const double exact = finite_key(b) ? exact_sum(b) : 0, about = (low + high) / 2, half = (high - low) / 2;
        if (!finite_key(b)) {
            count += !(low == -INFINITY && high == INFINITY);
            continue;
        }
        count += !(low <= sum && sum <= high && low <= exact && exact <= high);
        *share = fmax(*share, fabs(sum - about) / half);
    }
    return count;
}

static void random_inputs(void) {
    int used = 0, unusable = 0;
    double share = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        rng r = rng_make(seed);
        static const float factors[] = {1, 1, 1e-12f, 1e-16f, 1e-30f, 1e-42f, 1e12f, 1e14f};
        the.heads = rng_range(&r, 1, HEADS);
        the.dim = seed % 10 ? rng_range(&r, 1, 200) : values_draw_dim(&r);
        the.format = values_draw_type(&r);
        const size_t values = (size_t)the.heads * (size_t)the.dim;
        values_fill(&r, (values_kind)(seed % VALUES_KINDS), QSA_F32, values, the.q);
        values_fill(&r, (values_kind)(seed / VALUES_KINDS % VALUES_KINDS), the.format, (size_t)BLOCKS * (size_t)the.dim,
                    the.keys);
        const float q_factor = factors[rng_below(&r, 8)], key_factor = factors[rng_below(&r, 8)];
        for (size_t i = 0; i < values; i++)
            the.q[i] *= q_factor;
        for (int32_t i = 0; i < BLOCKS * the.dim && the.format == QSA_F32; i++)
            qsa_put(the.keys, QSA_F32, i, qsa_load(the.keys, QSA_F32, i) * key_factor);
        encode();
        PLAIN_CHECK_INT(the.usable, qsa_screen_largest(the.q, (int32_t)values) <= QSA_SCREEN_MOST);
        if (!the.usable) {
            unusable++;
            continue;
        }
        used++;
        bound_all();
        PLAIN_CHECK_INT(outside(&share), 0);
    }
    PLAIN_CHECK(used > SEEDS * 2 / 5 && unusable > SEEDS / 15);
    PLAIN_CHECK(share <= 1);
    printf("  %d rows bounded, %d not usable; the error takes up to %.3f of the bound\n", used, unusable, share);
}

// Queries of one magnitude, and keys that miss their codes by 0.49 of a step in each dim, all in the queries' favour (odd
// blocks) or all against: there the error is ||q|| ||rest|| in every head.
static void make_tight(int32_t heads, int32_t dim) {
    the.heads = heads;
    the.dim = dim;
    the.format = QSA_F32;
    rng r = rng_make((uint64_t)dim);
    for (int32_t d = 0; d < dim; d++) {
        const float sign = rng_below(&r, 2) ? 1 : -1;
        for (int32_t h = 0; h < heads; h++)
            the.q[h * dim + d] = sign * 0.75f;
        for (int32_t b = 0; b < BLOCKS; b++) {
            const float code = d == 0 ? 127 : (float)rng_range(&r, 20, 100), miss = d == 0 ? 0 : b % 2 ? 0.49f : -0.49f;
            qsa_put(the.keys, QSA_F32, b * dim + d, sign * (code + miss) * 0x1p-7f);
        }
    }
    encode();
}

static void tight(void) {
    static const int32_t dims[] = {8, 31, 64, 128, 257, QSA_MAX_HEAD_DIM};
    for (int i = 0; i < 6; i++)
        for (int32_t heads = 1; heads <= 7; heads += 3) {
            double share = 0;
            make_tight(heads, dims[i]);
            PLAIN_CHECK(the.usable);
            bound_all();
            PLAIN_CHECK_INT(outside(&share), 0);
            PLAIN_CHECK(share > 0.9 && share <= 1);
            // Control: what a residual a tenth too small would do.
            for (int32_t b = 0; b < BLOCKS; b++)
                the.residuals[b] *= 0.9f;
            bound_all();
            PLAIN_CHECK(outside(&share) > BLOCKS / 2);
        }
}

// The parts that a residual does not cover: queries off their codes, and the rounding of float dots.
static void controls(void) {
    double share = 0;
    make_tight(4, 128);
    rng r = rng_make(1);
    for (int32_t i = 0; i < 4 * 128; i++)
        the.q[i] *= (float)(1 - 0.3 * rng_uniform(&r));
    for (int32_t b = 0; b < BLOCKS; b++) // keys that are their codes
        for (int32_t d = 0; d < 128; d++) {
            const float x = qsa_load(the.keys, QSA_F32, b * 128 + d) * 128;
            qsa_put(the.keys, QSA_F32, b * 128 + d, rintf(x) / 128);
        }
    encode();
    for (int32_t b = 0; b < BLOCKS; b++)
        PLAIN_CHECK(the.residuals[b] == 0);
    bound_all();
    PLAIN_CHECK_INT(outside(&share), 0);
    the.bound[1] *= 1e-3f;
    bound_all();
    PLAIN_CHECK(outside(&share) > 0);
}

// Codes are whole numbers of 7 bits, padding is 0, scales and residuals follow from the key; queries fit 32-bit dots.
static void codes(void) {
    for (uint64_t seed = 0; seed < SEEDS / 5; seed++) {
        rng r = rng_make(seed);
        the.heads = rng_range(&r, 1, HEADS);
        the.dim = values_draw_dim(&r);
        the.format = values_draw_type(&r);
        const int32_t stride = qsa_screen_stride(the.dim);
        rng_fill_normal(&r, (size_t)the.heads * (size_t)the.dim, 1, the.q);
        values_fill(&r, (values_kind)(seed % VALUES_KINDS), the.format, (size_t)BLOCKS * (size_t)the.dim, the.keys);
        memset(the.codes, 1, sizeof the.codes);
        encode();
        long wrong = 0;
        for (int32_t b = 0; b < BLOCKS; b++) {
            double squares = 0;
            for (int32_t d = 0; d < stride; d++) {
                const int code = the.codes[b * stride + d];
                wrong += code == -128 || (d >= the.dim && code);
                const double key = d < the.dim && finite_key(b) ? (double)qsa_load(key_at(b), the.format, d) : 0;
                const double rest = key - (double)the.scales[b] * code;
                squares += rest * rest;
            }
            const double residual = (double)the.residuals[b];
            wrong += finite_key(b) ? !(residual >= sqrt(squares) && residual <= sqrt(squares) * (1 + 1e-6) + 1e-44)
                                   : residual != INFINITY || the.scales[b] != 0;
        }
        for (int32_t h = 0; h < qsa_screen_heads(the.heads); h++) {
            int64_t sum = 0;
            for (int32_t d = 0; d < stride; d++) {
                sum += 127 * llabs((long long)the.q_codes[h * stride + d]);
                wrong += (h >= the.heads || d >= the.dim) && the.q_codes[h * stride + d];
            }
            wrong += sum > INT32_MAX || (h >= the.heads && the.q_scales[h] != 0);
        }
        PLAIN_CHECK_INT(wrong, 0);
    }
}

int main(void) {
    PLAIN_RUN(random_inputs);
    PLAIN_RUN(tight);
    PLAIN_RUN(controls);
    PLAIN_RUN(codes);
    return plain_finish();
}
