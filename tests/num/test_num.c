// SPDX-License-Identifier: Apache-2.0
//
// src/num/num.h against statements of its own kind: exp within 1 ulp over [-80, 0], its cut and NaN; sigmoid; half and bf16
// conversion against the oracle's (values, not bits); the lane sum against its tree written out.
// LABELS: small cross
// RUNNER: plain
#include "num/load.h"
#include "support/oracle.h"
#include "support/plain_runner.h"
#include "support/rng.h"

#include <float.h>
#include <stdlib.h>

// Distance in units of the last place of the true value's float.
static double ulps(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    const double unit = ldexp(1, (exponent < -125 ? -125 : exponent) - FLT_MANT_DIG);
    return fabs((double)got - want) / unit;
}

// Every STRIDE-th float of [-80, 0], both ends included. A prime stride meets every pattern of low bits; a stride given as
// argument (1: all 1.1 thousand million) takes its place.
static uint32_t stride = 257;

static void exp_accuracy(void) {
    const uint32_t zero = 0x80000000u, cut = 0xc2a00000u; // -0 and -80
    double worst = 0;
    float where = 0;
    long wrong = 0;
    for (uint64_t u = zero; u <= (uint64_t)cut + stride - 1; u += stride) {
        const float x = qsa_f32_of_bits((uint32_t)(u > cut ? cut : u)), got = qsa_exp(x);
        const double error = ulps(got, exp((double)x));
        wrong += !(error <= 1) || !(got >= FLT_MIN && got <= 1);
        if (error > worst) {
            worst = error;
            where = x;
        }
    }
    printf("  exp: %.4f ulp at most, at %a, stride %u\n", worst, (double)where, stride);
    PLAIN_CHECK_INT(wrong, 0);
    PLAIN_CHECK(worst > 0.5); // it was measured, not compared with itself
}

static bool is_bits(float x, uint32_t bits) {
    return qsa_bits_of_f32(x) == bits;
}

static void exp_edges(void) {
    PLAIN_CHECK(is_bits(qsa_exp(0.0f), 0x3f800000) && is_bits(qsa_exp(-0.0f), 0x3f800000));
    PLAIN_CHECK(qsa_exp(-80.0f) > 1.8e-35f && qsa_exp(-80.0f) < 1.81e-35f);
    PLAIN_CHECK(is_bits(qsa_exp(nextafterf(-80, -81)), 0) && is_bits(qsa_exp(-FLT_MAX), 0));
    PLAIN_CHECK(is_bits(qsa_exp(-qsa_infinity()), 0));
    for (uint32_t u = 0xc2a00001u; u <= 0xff800000u - 104729; u += 104729)
        PLAIN_CHECK(is_bits(qsa_exp(qsa_f32_of_bits(u)), 0));
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff};
    for (int i = 0; i < 6; i++) {
        PLAIN_CHECK(is_bits(qsa_exp(qsa_f32_of_bits(nans[i])), QSA_NAN_BITS));
        PLAIN_CHECK(is_bits(qsa_sigmoid(qsa_f32_of_bits(nans[i])), QSA_NAN_BITS));
        PLAIN_CHECK(is_bits(qsa_canonical(qsa_f32_of_bits(nans[i])), QSA_NAN_BITS));
        PLAIN_CHECK(is_bits(qsa_relu(qsa_f32_of_bits(nans[i])), QSA_NAN_BITS));
    }
    PLAIN_CHECK(is_bits(qsa_relu(-0.0f), 0) && is_bits(qsa_relu(-1), 0) && qsa_relu(FLT_TRUE_MIN) == FLT_TRUE_MIN);
}

// exp within 1 ulp, an addition and a division of half an ulp each. For g < 0 the quotient carries them all: 2 ulp, and one
// more where quotient and dividend lie in different binades.
static void sigmoid(void) {
    double worst = 0;
    for (uint64_t u = 0; u <= 0x42a00000u; u += 1013)
        for (int sign = 0; sign < 2; sign++) {
            const float g = qsa_f32_of_bits((uint32_t)u | (uint32_t)sign << 31);
            const double want = sign ? exp((double)g) / (1 + exp((double)g)) : 1 / (1 + exp(-(double)g));
            const double error = ulps(qsa_sigmoid(g), want);
            worst = fmax(worst, error);
        }
    printf("  sigmoid: %.4f ulp at most\n", worst);
    PLAIN_CHECK(worst <= 3 && worst > 0.5);
    PLAIN_CHECK(is_bits(qsa_sigmoid(0.0f), 0x3f000000) && is_bits(qsa_sigmoid(-0.0f), 0x3f000000));
    PLAIN_CHECK(is_bits(qsa_sigmoid(qsa_infinity()), 0x3f800000) && is_bits(qsa_sigmoid(-qsa_infinity()), 0));
    PLAIN_CHECK(is_bits(qsa_sigmoid(FLT_MAX), 0x3f800000) && is_bits(qsa_sigmoid(-FLT_MAX), 0));
    PLAIN_CHECK(is_bits(qsa_sigmoid(81), 0x3f800000) && is_bits(qsa_sigmoid(-81), 0));
}

// ---- Halves -------------------------------------------------------------------------------------

typedef struct {
    float (*decode)(uint16_t);
    uint16_t (*encode)(float);
    double (*oracle_decode)(uint16_t);
    uint16_t (*oracle_encode)(double);
    uint16_t infinity, nan;
} half_format;

static const half_format formats[] = {
    {qsa_f32_of_f16, qsa_f16_of_f32, oracle_f16_decode, oracle_f16_encode, 0x7c00, 0x7e00},
    {qsa_f32_of_bf16, qsa_bf16_of_f32, oracle_bf16_decode, oracle_bf16_encode, 0x7f80, 0x7fc0},
};

static void round_trips(void) {
    for (int f = 0; f < 2; f++)
        for (uint32_t h = 0; h <= 0xffff; h++) {
            const half_format *format = &formats[f];
            const float x = format->decode((uint16_t)h);
            if ((h & 0x7fffu) > format->infinity) {
                PLAIN_CHECK(is_bits(x, QSA_NAN_BITS) && format->encode(x) == format->nan);
                continue;
            }
            PLAIN_CHECK((double)x == format->oracle_decode((uint16_t)h) && !signbit(x) == !(h >> 15));
            PLAIN_CHECK(format->encode(x) == h);
        }
}

// Every midpoint of two halves and its two neighbours, floats spread over all bits, random ones.
static void rounding(void) {
    for (int f = 0; f < 2; f++) {
        const half_format *format = &formats[f];
        for (uint32_t h = 0; h < format->infinity; h++) {
            const double low = format->oracle_decode((uint16_t)h);
            const double high = h + 1u == format->infinity ? 2 * low - format->oracle_decode((uint16_t)(h - 1))
                                                           : format->oracle_decode((uint16_t)(h + 1));
            const float middle = (float)((low + high) / 2), below = nextafterf(middle, 0);
            const float above = nextafterf(middle, qsa_infinity());
            const uint16_t even = (uint16_t)(h + h % 2), sign = 0x8000;
            PLAIN_CHECK(format->encode(middle) == even && format->encode(-middle) == (even | sign));
            PLAIN_CHECK(format->encode(below) == h && format->encode(-below) == (h | sign));
            PLAIN_CHECK(format->encode(above) == h + 1 && format->encode(-above) == ((h + 1) | sign));
        }
        long wrong = 0;
        for (uint64_t u = 0; u <= UINT32_MAX; u += 4093) {
            const float x = qsa_f32_of_bits((uint32_t)u);
            wrong += format->encode(x) != (x == x ? format->oracle_encode((double)x) : format->nan);
        }
        PLAIN_CHECK_INT(wrong, 0);
        PLAIN_CHECK(format->encode(FLT_MAX) == format->infinity && format->encode(FLT_TRUE_MIN) == 0);
        PLAIN_CHECK(format->encode(qsa_f32_of_bits(0x7f800001)) == format->nan);
        PLAIN_CHECK(format->encode(qsa_f32_of_bits(0xffffffff)) == format->nan);
    }
}

// ---- Lane sums ----------------------------------------------------------------------------------

// Node j of the tree whose leaves are the 16 lanes: with w nodes in its row it is the sum of nodes j and j + w of the row
// of 2w.
static float node(const float *a, const float *b, int n, int j, int w) {
    if (w < QSA_LANES)
        return node(a, b, n, j, 2 * w) + node(a, b, n, j + w, 2 * w);
    float chain = 0;
    for (int i = j; i < n; i += QSA_LANES)
        chain = fmaf(a[i], b[i], chain);
    return chain;
}

static void dots(void) {
    int other = 0;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int n = 0; n <= 300; n += seed < 2 ? 1 : 7) {
            rng r = rng_make(seed * 1000 + (uint64_t)n);
            float a[300], b[300], serial = 0;
            rng_fill_normal(&r, 300, 1, a);
            rng_fill_normal(&r, 300, 1, b);
            const float got = qsa_dot(a, b, n), want = node(a, b, n, 0, 1);
            PLAIN_CHECK_BYTES(&got, &want, sizeof got);
            for (int i = 0; i < n; i++)
                serial = fmaf(a[i], b[i], serial);
            other += serial != want;
        }
    PLAIN_CHECK(other > 500); // another order is another sum
}

static void elements(void) {
    unsigned char bytes[4 * 5 + 3];
    const float x[5] = {1.5f, -2, 65504, 0x1p-24f, -0.0f};
    for (qsa_type type = QSA_F32; type <= QSA_BF16; type++)
        for (size_t shift = 0; shift < 4; shift++) {
            float row[5];
            for (int i = 0; i < 5; i++)
                qsa_put(bytes + shift, type, i, x[i]);
            qsa_load_row(row, bytes + shift, type, 5);
            for (int i = 0; i < 5; i++) {
                const float one = qsa_load(bytes + shift, type, i);
                PLAIN_CHECK_BYTES(&one, &row[i], sizeof one);
                PLAIN_CHECK(type == QSA_BF16 ? row[i] == (float)oracle_bf16_decode(oracle_bf16_encode((double)x[i]))
                                             : row[i] == x[i]);
                PLAIN_CHECK(!signbit(row[i]) == !signbit(x[i]));
            }
        }
    uint16_t half;
    qsa_put(&half, QSA_F16, 0, 70000); // an output is IEEE, only the cache clamps
    PLAIN_CHECK_INT(half, 0x7c00);
    float nan;
    qsa_put(&nan, QSA_F32, 0, qsa_f32_of_bits(0xffffffff));
    PLAIN_CHECK(is_bits(nan, QSA_NAN_BITS));
}

int main(int argc, char **argv) {
    if (argc > 1)
        stride = (uint32_t)strtoul(argv[1], NULL, 10);
    PLAIN_RUN(exp_accuracy);
    PLAIN_RUN(exp_edges);
    PLAIN_RUN(sigmoid);
    PLAIN_RUN(round_trips);
    PLAIN_RUN(rounding);
    PLAIN_RUN(dots);
    PLAIN_RUN(elements);
    return plain_finish();
}
