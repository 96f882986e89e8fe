// SPDX-License-Identifier: Apache-2.0
//
// The oracle's cache formats. The halves are checked by what rounding to nearest even means: every
// code, every midpoint between two neighbours, and both sides of it. The i8 edges are the written
// cases, with codes worked out by hand.
// LABELS: small cross
// RUNNER: plain
#include "support/oracle.h"
#include "support/plain_runner.h"
#include "support/rng.h"

#include <float.h>

static void halves(uint16_t (*encode)(double), double (*decode)(uint16_t), uint16_t infinity, uint16_t nan) {
    for (unsigned h = 0; h < infinity; h++) {
        double a = decode((uint16_t)h),
               b = h + 1u == infinity ? 2 * a - decode((uint16_t)(h - 1)) : decode((uint16_t)(h + 1));
        double mid = (a + b) / 2;
        unsigned even = h % 2 ? h + 1 : h;
        PLAIN_CHECK(encode(a) == h && a < b);
        PLAIN_CHECK(encode(mid) == even);
        PLAIN_CHECK(encode(nextafter(mid, 0)) == h);
        PLAIN_CHECK(encode(nextafter(mid, INFINITY)) == h + 1);
        PLAIN_CHECK(encode(-a) == (h | 0x8000) && encode(-mid) == (even | 0x8000));
        PLAIN_CHECK(decode((uint16_t)(h | 0x8000)) == -a && signbit(decode((uint16_t)(h | 0x8000))));
    }
    PLAIN_CHECK_INT(encode(INFINITY), infinity);
    PLAIN_CHECK_INT(encode(-INFINITY), infinity | 0x8000);
    PLAIN_CHECK_INT(encode(NAN), nan);
    PLAIN_CHECK_INT(encode(-(double)NAN), nan);
    PLAIN_CHECK(isinf(decode(infinity)) && isnan(decode(nan)) && isnan(decode((uint16_t)(infinity + 1))));
}

static void f16(void) {
    halves(oracle_f16_encode, oracle_f16_decode, 0x7c00, 0x7e00);
    PLAIN_CHECK_INT(oracle_f16_encode(1), 0x3c00);
    PLAIN_CHECK_INT(oracle_f16_encode(65504), 0x7bff);
    PLAIN_CHECK_INT(oracle_f16_encode(65520), 0x7c00);
    PLAIN_CHECK_INT(oracle_f16_encode(0x1p-14), 0x0400);
    PLAIN_CHECK_INT(oracle_f16_encode(0x1p-24), 0x0001);
    PLAIN_CHECK_INT(oracle_f16_encode(0x1p-25), 0x0000);
}

static void bf16(void) {
    halves(oracle_bf16_encode, oracle_bf16_decode, 0x7f80, 0x7fc0);
    PLAIN_CHECK_INT(oracle_bf16_encode(1), 0x3f80);
    // The upper half of a float is the same number.
    for (uint32_t h = 0; h < 0x7f80; h++) {
        uint32_t bits = h << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        PLAIN_CHECK(oracle_bf16_decode((uint16_t)h) == x);
    }
}

static void cache_halves(void) {
    oracle_events e = {0};
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, 1e5, &e), 0x7bff);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, -FLT_MAX, &e), 0xfbff);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_BF16, FLT_MAX, &e), 0x7f7f);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, 65504, &e), 0x7bff);
    // Rounding reaches the largest finite number by itself: nothing is saturated.
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, 65510, &e), 0x7bff);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, -nextafterf(65520, 0), &e), 0xfbff);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_BF16, 0x1.fefffep127, &e), 0x7f7f);
    // Halfway to the next one that does not exist: would be infinite.
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, 65520, &e), 0x7bff);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_BF16, -0x1.ffp127, &e), 0xff7f);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, INFINITY, &e), 0x7c00);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_BF16, -INFINITY, &e), 0xff80);
    PLAIN_CHECK_INT(oracle_cache_encode(ORACLE_F16, NAN, &e), 0x7e00);
    PLAIN_CHECK_INT(e.saturated, 5);
    PLAIN_CHECK_INT(e.infinities, 2);
    PLAIN_CHECK_INT(e.nans, 1);
}

// A group of 64 whose largest value is `amax`; the others are a thousandth of it, at most 1000.
static void i8_edge(double amax, unsigned scale, int code, int saturated) {
    double x[64];
    int8_t codes[64];
    uint16_t got;
    oracle_events e = {0};
    for (int i = 0; i < 64; i++) {
        x[i] = (float)fmin(amax / 1000, 1000);
    }
    x[13] = -(float)amax;
    oracle_i8_encode(64, x, codes, &got, &e);
    PLAIN_CHECK_INT(got, scale);
    PLAIN_CHECK_INT(codes[13], -code);
    PLAIN_CHECK_INT(codes[12], 0);
    PLAIN_CHECK_INT(e.saturated, saturated);
    PLAIN_CHECK_INT(e.infinities, isinf(amax) != 0);
}

static void i8_edges(void) {
    i8_edge(127, 0x3c00, 127, 0);      // scale 1
    i8_edge(1e-4, 13, 127, 0);         // 13.2 units of 2^-24 stored as 13: 129 clamped
    i8_edge(1e-5, 1, 127, 0);          // 1.32 units stored as 1: 168 clamped
    i8_edge(3.8e-6, 1, 64, 0);         // 0.502 units stored as 1
    i8_edge(3.7e-6, 0, 0, 0);          // 0.489 units: scale 0
    i8_edge(0, 0, 0, 0);               //
    i8_edge(8.32e6, 0x7bff, 127, 0);   // 65511.8 stored as 65504; 127.01
    i8_edge(1e7, 0x7bff, 127, 1);      // saturated; 152.7 clamped
    i8_edge(FLT_MAX, 0x7bff, 127, 1);  //
    i8_edge(INFINITY, 0x7bff, 127, 0); // 1000 among them: 1000 / 65504
    PLAIN_CHECK_INT(oracle_i8_groups(256), 4);
    PLAIN_CHECK_INT(oracle_i8_groups(100), 2);
    PLAIN_CHECK_INT(oracle_i8_groups(64), 1);
}

static void i8_ties(void) {
    const double x[8] = {127, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -2.5};
    const int want[8] = {127, 0, 2, 2, 0, -2, 126, -2};
    int8_t codes[8];
    uint16_t scale;
    oracle_i8_encode(8, x, codes, &scale, NULL);
    for (int i = 0; i < 8; i++) {
        PLAIN_CHECK_INT(codes[i], want[i]);
    }
}

// NaN among numbers is a 0 that nobody else notices, and the short last group has its own scale.
static void i8_nan(void) {
    double x[100], y[100];
    int8_t a[100], b[100];
    uint16_t scale_a[2], scale_b[2];
    oracle_events e = {0};
    rng r = rng_make(1);
    for (int i = 0; i < 100; i++) {
        x[i] = y[i] = (float)rng_normal(&r);
    }
    x[3] = x[99] = NAN;
    y[3] = y[99] = 0;
    oracle_i8_encode(100, x, a, scale_a, &e);
    oracle_i8_encode(100, y, b, scale_b, NULL);
    PLAIN_CHECK_BYTES(a, b, sizeof a);
    PLAIN_CHECK_BYTES(scale_a, scale_b, sizeof scale_a);
    PLAIN_CHECK_INT(e.nans, 2);
    y[70] = 1000;
    oracle_i8_encode(100, y, b, scale_b, NULL);
    PLAIN_CHECK_BYTES(a, b, 64);
    PLAIN_CHECK(scale_a[0] == scale_b[0] && scale_a[1] < scale_b[1]);
}

// Division in float32 gives the same scales and codes as in float64: a quotient that lies within
// half a unit of a rounding boundary is on it. Sought where it would fail, beside the boundaries.
static void i8_in_float(void) {
    rng r = rng_make(2);
    for (int i = 0; i < 200000; i++) {
        uint16_t scale = (uint16_t)rng_range(&r, 1, 0x7bff);
        double s = oracle_f16_decode(scale);
        float edge = (float)(s * (rng_range(&r, 0, 127) + 0.5));
        float half = (float)(127 * (s + oracle_f16_decode((uint16_t)(scale - 1))) / 2);
        for (int side = -1; side <= 1; side++) {
            float x = side ? nextafterf(edge, side * INFINITY) : edge;
            float amax = side ? nextafterf(half, side * INFINITY) : half;
            PLAIN_CHECK(rintf(x / (float)s) == rint(x / s));
            PLAIN_CHECK(oracle_f16_encode(amax / 127.0f) == oracle_f16_encode((double)amax / 127));
        }
    }
}

static void round_trips(void) {
    double x[256], y[256];
    rng r = rng_make(3);
    for (int i = 0; i < 256; i++) {
        x[i] = (float)rng_normal(&r);
    }
    const struct {
        oracle_format format;
        double low, high;
    } bounds[] = {{ORACLE_F64, 0, 0},
                  {ORACLE_F32, 0, 0},
                  {ORACLE_F16, 5e-5, 5e-4},
                  {ORACLE_BF16, 5e-4, 4e-3},
                  {ORACLE_I8, 1e-3, 1.2e-2}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        oracle_round_trip(bounds[i].format, 256, x, y);
        double e = oracle_rel_l2(256, y, x);
        printf("  format %d: relative l2 %.2e\n", (int)bounds[i].format, e);
        PLAIN_CHECK(e >= bounds[i].low && e <= bounds[i].high);
    }
}

int main(void) {
    PLAIN_RUN(f16);
    PLAIN_RUN(bf16);
    PLAIN_RUN(cache_halves);
    PLAIN_RUN(i8_edges);
    PLAIN_RUN(i8_ties);
    PLAIN_RUN(i8_nan);
    PLAIN_RUN(i8_in_float);
    PLAIN_RUN(round_trips);
    return plain_finish();
}
