// SPDX-License-Identifier: Apache-2.0
//
// Draws of values, lengths and strides for kernel cases.
#include "kernel_values.h"

#include "num/load.h"

#include <float.h>
#include <stdbool.h>

static const uint32_t special[] = {
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, 0x7fc12345, 0xff812345, // inf, NaN
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, // 0, subnormals
    0x7f7fffff, 0xff7fffff, 0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0xff7f8000,                         // bf16's limit
    0x3f800000, 0xbf800000, 0x3f800001, 0xbf800001, 0x42fe0000, 0xc2fe0000,                         // 1, 127
    0x477fe000, 0x477fe600, 0x477fefff, 0x477ff000, 0xc77fe600, 0xc77ff000,                         // f16's limit
    0x33800000, 0x33000000, 0x33000001, 0x387fffff, 0x38800000, 0x38d1b717,                         // f16 subnormals
    0x3727c5ac, 0x367f0f35, 0x36784ee9, 0x4afde684, 0x4b189680, 0x1e3ce508,                         // i8 scale edges
};
enum { SPECIAL = sizeof special / sizeof special[0], NOT_FINITE = 8 };

static float draw_special(rng *r, bool finite) {
    const uint32_t low = finite ? NOT_FINITE : 0;
    return qsa_f32_of_bits(special[low + rng_below(r, SPECIAL - low)]);
}

static float draw_wide(rng *r) {
    const uint32_t exponent = (uint32_t)rng_range(r, 127 - 40, 127 + 40), sign = rng_below(r, 2);
    return qsa_f32_of_bits(sign << 31 | exponent << 23 | rng_below(r, 1u << 23));
}

values_kind values_draw_kind(rng *r) {
    return rng_below(r, 2) ? VALUES_NORMAL : (values_kind)rng_below(r, VALUES_KINDS);
}

const char *values_name(values_kind kind) {
    static const char *const names[] = {"normal", "wide", "some edges", "edges",      "finite edges", "pairs",
                                        "few",    "same", "-inf",       "above zero", "bits"};
    return names[kind];
}

static void put(void *out, qsa_type type, size_t i, float x) {
    if (type == QSA_F32)
        memcpy((unsigned char *)out + 4 * i, &x, sizeof x); // a NaN keeps its payload
    else
        qsa_put(out, type, (int32_t)i, x);
}

void values_fill(rng *r, values_kind kind, qsa_type type, size_t n, void *out) {
    static const float few[] = {-2, -1, -0.0f, 0, 1, 2};
    if (kind == VALUES_BITS) {
        rng_fill_bytes(r, n * qsa_type_size(type), out);
        return;
    }
    const float same = rng_below(r, 2) ? (float)rng_normal(r) : draw_special(r, false);
    float pair = 0;
    for (size_t i = 0; i < n; i++) {
        float x = (float)rng_normal(r);
        if (kind == VALUES_PAIRS)
            x = i % 2 ? -pair * (1 + FLT_EPSILON) : (pair = x);
        else if (kind == VALUES_WIDE)
            x = draw_wide(r);
        else if (kind == VALUES_EDGE || kind == VALUES_FINITE || (kind == VALUES_SOME && rng_below(r, 16) == 0))
            x = draw_special(r, kind == VALUES_FINITE);
        else if (kind == VALUES_FEW)
            x = few[rng_below(r, 6)];
        else if (kind == VALUES_SAME)
            x = same;
        else if (kind == VALUES_MINUS)
            x = -qsa_infinity();
        else if (kind == VALUES_ABOVE)
            x = fabsf(x) + FLT_MIN;
        put(out, type, i, x);
    }
}

void values_fill_scales(rng *r, int any, size_t n, void *out) {
    static const uint16_t edges[] = {0x0000, 0x0001, 0x000d, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0x7e00, 0x7fff, 0xfe01};
    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)rng_range(r, 0x1800, 0x2c00);
        if (any && rng_below(r, 4) == 0)
            half = edges[rng_below(r, sizeof edges / sizeof edges[0])];
        memcpy((unsigned char *)out + 2 * i, &half, sizeof half);
    }
}

int32_t values_draw_position(rng *r, int most) {
    const int shift = 33 + rng_range(r, 0, most);
    return (int32_t)(rng_u64(r) >> shift);
}

qsa_type values_draw_type(rng *r) {
    return (qsa_type)rng_range(r, QSA_F32, QSA_BF16);
}

const char *values_type_name(qsa_type type) {
    static const char *const names[] = {"", "f32", "f16", "bf16", "i8"};
    return names[type];
}

int32_t values_draw_dim(rng *r) {
    const int32_t beside = rng_range(r, -1, 1);
    switch (rng_below(r, 8)) {
    case 0:
        return rng_range(r, 1, 20);
    case 1:
        return beside + 16 * rng_range(r, 1, 16);
    case 2:
        return 64 * rng_range(r, 1, 4);
    case 3:
        return rng_below(r, 4) ? 128 : rng_range(r, 257, QSA_MAX_HEAD_DIM);
    case 4:
        return rng_below(r, 8) ? 256 : QSA_MAX_HEAD_DIM;
    default:
        return rng_range(r, 16, 256);
    }
}

int32_t values_draw_heads(rng *r) {
    return rng_below(r, 16) ? rng_range(r, 1, 16) : QSA_MAX_HEADS_PER_KV;
}

int64_t values_draw_stride(rng *r, size_t bytes, size_t unit) {
    const int64_t tight = (int64_t)bytes, loose = tight + (int64_t)unit * rng_range(r, 0, 37);
    switch (rng_below(r, 4)) {
    case 0:
        return loose;
    case 1:
        return -loose;
    default:
        return tight;
    }
}
