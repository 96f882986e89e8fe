// SPDX-License-Identifier: Apache-2.0
//
// The oracle's cache formats, on values rather than on bits: a number is moved to the format's grid
// by one rint in double, and only then spelled in bits. The library works on bits; that the two
// agree is the point.
#include "oracle.h"

#include <math.h>
#include <string.h>

// A binary format with `fraction` stored fraction bits, smallest normal exponent `low` and largest
// exponent `high`.
typedef struct {
    int fraction, low, high;
} grid;

static const grid HALF = {10, -14, 15};
static const grid BFLOAT = {7, -126, 127};

static uint16_t grid_encode(grid f, double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    unsigned infinity = (unsigned)(f.high - f.low + 2) << f.fraction;
    if (isnan(x)) {
        return (uint16_t)(infinity | 1u << (f.fraction - 1));
    }
    double a = fabs(x);
    if (isinf(a)) {
        return (uint16_t)(sign | infinity);
    }
    int exponent;
    frexp(a, &exponent);
    exponent--; // a = [1, 2) * 2^exponent
    if (a == 0 || exponent < f.low) {
        exponent = f.low;
    }
    // Units of the last place, 2^fraction .. 2^(fraction+1) for a normal number. Adding the units
    // to the exponent field carries into it by itself when rounding reached the next power of two.
    unsigned units = (unsigned)rint(ldexp(a, f.fraction - exponent));
    unsigned bits = ((unsigned)(exponent - f.low) << f.fraction) + units;
    return (uint16_t)(sign | (exponent > f.high || bits > infinity ? infinity : bits));
}

static double grid_decode(grid f, uint16_t bits) {
    unsigned fraction = bits & ((1u << f.fraction) - 1);
    int field = (bits & 0x7fff) >> f.fraction;
    double a;
    if (field == f.high - f.low + 2) {
        a = fraction ? (double)NAN : (double)INFINITY;
    } else if (field == 0) {
        a = ldexp(fraction, f.low - f.fraction);
    } else {
        a = ldexp((1u << f.fraction) + fraction, f.low + field - 1 - f.fraction);
    }
    return bits & 0x8000 ? -a : a;
}

uint16_t oracle_f16_encode(double x) {
    return grid_encode(HALF, x);
}

double oracle_f16_decode(uint16_t h) {
    return grid_decode(HALF, h);
}

uint16_t oracle_bf16_encode(double x) {
    return grid_encode(BFLOAT, x);
}

double oracle_bf16_decode(uint16_t b) {
    return grid_decode(BFLOAT, b);
}

uint16_t oracle_cache_encode(oracle_format format, double x, oracle_events *events) {
    grid f = format == ORACLE_F16 ? HALF : BFLOAT;
    double largest = ldexp(2 - ldexp(1, -f.fraction), f.high);
    bool beyond = isfinite(x) && isinf(grid_decode(f, grid_encode(f, x)));
    if (events) {
        events->nans += isnan(x);
        events->infinities += isinf(x) != 0;
        events->saturated += beyond;
    }
    return grid_encode(f, beyond ? copysign(largest, x) : x);
}

int oracle_i8_groups(int dim) {
    return (dim + ORACLE_I8_GROUP - 1) / ORACLE_I8_GROUP;
}

uint16_t oracle_i8_scale(double amax) {
    double scale = amax / 127;
    return oracle_f16_encode(scale > 65504 ? 65504 : scale);
}

static int8_t i8_code(double x, double scale, oracle_events *events) {
    events->nans += isnan(x);
    events->infinities += isinf(x) != 0;
    if (isnan(x) || scale == 0) {
        return 0;
    }
    double code = rint(x / scale);
    events->saturated += isfinite(x) && fabs(code) > 127 && scale == 65504;
    return (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
}

void oracle_i8_encode(int dim, const double *x, int8_t *codes, uint16_t *scales, oracle_events *events) {
    oracle_events ignored = {0};
    for (int group = 0; group < oracle_i8_groups(dim); group++) {
        int begin = group * ORACLE_I8_GROUP;
        int end = begin + ORACLE_I8_GROUP < dim ? begin + ORACLE_I8_GROUP : dim;
        double amax = 0;
        for (int i = begin; i < end; i++) {
            amax = fabs(x[i]) > amax ? fabs(x[i]) : amax; // false for NaN
        }
        scales[group] = oracle_i8_scale(amax);
        for (int i = begin; i < end; i++) {
            codes[i] = i8_code(x[i], oracle_f16_decode(scales[group]), events ? events : &ignored);
        }
    }
}

void oracle_i8_decode(int dim, const int8_t *codes, const uint16_t *scales, double *x) {
    for (int i = 0; i < dim; i++) {
        x[i] = codes[i] * oracle_f16_decode(scales[i / ORACLE_I8_GROUP]);
    }
}

static double round_one(oracle_format format, double x) {
    if (format == ORACLE_F16) {
        return oracle_f16_decode(oracle_cache_encode(format, x, NULL));
    }
    return format == ORACLE_BF16 ? oracle_bf16_decode(oracle_cache_encode(format, x, NULL)) : x;
}

void oracle_round_trip(oracle_format format, int dim, const double *x, double *out) {
    for (int begin = 0; begin < dim; begin += ORACLE_I8_GROUP) {
        int n = dim - begin < ORACLE_I8_GROUP ? dim - begin : ORACLE_I8_GROUP;
        double value[ORACLE_I8_GROUP];
        int8_t codes[ORACLE_I8_GROUP];
        uint16_t scale;
        for (int i = 0; i < n; i++) {
            value[i] = format == ORACLE_F64 ? x[begin + i] : (double)(float)x[begin + i];
        }
        if (format == ORACLE_I8) {
            oracle_i8_encode(n, value, codes, &scale, NULL);
            oracle_i8_decode(n, codes, &scale, value);
        }
        for (int i = 0; i < n; i++) {
            out[begin + i] = round_one(format, value[i]);
        }
    }
}
