// SPDX-License-Identifier: Apache-2.0
//
// src/num/num64.h against libm in long double or double: log and exp within 1e-15, the inverse frequencies and the sines
// and cosines of every kind of angle rounded as the true value rounds.
// LABELS: small cross
// RUNNER: plain
#include "num/num64.h"
#include "support/plain_runner.h"
#include "support/rng.h"

static double relative(double got, long double want) {
    return want == 0 ? fabs(got) : (double)fabsl(((long double)got - want) / want);
}

static void log64(void) {
    rng r = rng_make(1);
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        // Any normal exponent; one in two near 1, where the result is small.
        const uint64_t exponent = (uint64_t)rng_range(&r, 1, 2046);
        double x = qsa_f64_of_bits(exponent << 52 | rng_u64(&r) >> 12);
        if (i % 2)
            x = 1 + ldexp(rng_uniform(&r) - 0.5, -(i % 41));
        worst = fmax(worst, relative(qsa_log64(x), logl((long double)x)));
    }
    printf("  log64: relative error %.2e at most\n", worst);
    PLAIN_CHECK(worst <= 1e-15 && worst > 1e-17);
    PLAIN_CHECK(qsa_log64(1) == 0);
    // What log-sum-exp feeds it: floats, subnormal ones too.
    for (int i = 0; i < 20000; i++) {
        const float x = qsa_f32_of_bits(1 + rng_below(&r, 0x7f7fffff));
        PLAIN_CHECK(relative(qsa_log64((double)x), logl((long double)x)) <= 1e-15);
    }
}

static void exp64(void) {
    rng r = rng_make(2);
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double y = (rng_uniform(&r) * 2 - 1) * (i % 2 ? 700 : 2);
        worst = fmax(worst, relative(qsa_exp64(y), expl((long double)y)));
    }
    printf("  exp64: relative error %.2e at most\n", worst);
    PLAIN_CHECK(worst <= 1e-15 && worst > 1e-17);
    PLAIN_CHECK(qsa_exp64(0) == 1);
}

// Two roundings, of the power and of the quotient; one rounding gives other frequencies.
static void inv_freq(void) {
    static const double thetas[] = {1, 100, 1e4, 5e5, 1e6, 1e7, 12345.678, 1e30};
    int one_rounding = 0;
    for (int t = 0; t < 8; t++)
        for (int32_t dim = 2; dim <= 1024; dim = dim < 64 ? dim + 2 : dim * 2)
            for (int32_t i = 0; i < dim / 2; i++) {
                const float exponent = (float)(2 * i) / (float)dim;
                const long double power = powl((long double)thetas[t], (long double)exponent);
                const float got = qsa_inv_freq(thetas[t], i, dim);
                PLAIN_CHECK(got == 1.0f / (float)power);
                one_rounding += got != (float)(1 / power);
            }
    PLAIN_CHECK(one_rounding > 100);
}

// The rounding of a double that is right within 2^-45 of itself.
static bool rounds(float got, double want) {
    const double slack = 0x1p-45;
    return got == (float)want || got == (float)(want * (1 - slack)) || got == (float)(want * (1 + slack));
}

static long other_rounding;

static void check_angle(float x) {
    float sine, cosine;
    qsa_sincos(x, &sine, &cosine);
    const double want_sine = sin((double)x), want_cosine = cos((double)x);
    other_rounding += sine != (float)want_sine || cosine != (float)want_cosine;
    if (!rounds(sine, want_sine) || !rounds(cosine, want_cosine)) {
        char text[200];
        snprintf(text, sizeof text, "x = %a: %a %a, not %a %a", (double)x, (double)sine, (double)cosine, want_sine,
                 want_cosine);
        plain_check(false, __FILE__, __LINE__, text);
    }
    PLAIN_CHECK(fabsf(sine) <= 1 && fabsf(cosine) <= 1);
}

// Angles of positions up to 2^31 - 1 by frequencies of the preset; all powers of two; neighbours of multiples of pi / 2.
static void sines_and_cosines(void) {
    rng r = rng_make(3);
    for (int i = 0; i < 300000; i++) {
        const int32_t position = (int32_t)(rng_u64(&r) >> (33 + i % 30));
        const float frequency = i % 4 ? qsa_inv_freq(1e7, rng_range(&r, 0, 31), 64) : 1.0f;
        check_angle(frequency * (float)position);
    }
    for (int i = 0; i < 20000; i++) {
        float x = (float)((double)rng_below(&r, 1u << rng_range(&r, 1, 30)) * 0x1.921fb54442d18p+0);
        for (int step = 0; step < 3 && x < 0x1p31f; step++) {
            check_angle(x);
            x = nextafterf(x, qsa_infinity());
        }
    }
    for (int e = -149; e <= 31; e++)
        check_angle(ldexpf(1, e));
    check_angle((float)INT32_MAX);
    float sine, cosine;
    qsa_sincos(0, &sine, &cosine);
    PLAIN_CHECK(sine == 0 && cosine == 1);
    printf("  sine and cosine: %ld angles rounded the other way\n", other_rounding);
    PLAIN_CHECK(other_rounding <= 2); // of 360,000; a double within 2^-50 does it once in some 10 million
}

// The control: an angle that is one float off is seen.
static void other_angle(void) {
    int seen = 0;
    for (int32_t position = 100000; position < 100100; position++) {
        float sine, cosine;
        qsa_sincos(nextafterf((float)position, 0), &sine, &cosine);
        seen += !rounds(sine, sin((double)position));
    }
    PLAIN_CHECK(seen == 100);
}

int main(void) {
    PLAIN_RUN(log64);
    PLAIN_RUN(exp64);
    PLAIN_RUN(inv_freq);
    PLAIN_RUN(sines_and_cosines);
    PLAIN_RUN(other_angle);
    return plain_finish();
}
