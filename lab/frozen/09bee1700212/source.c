// SPDX-License-Identifier: Apache-2.0
//
// Rows into the cache's format in 256-bit vectors (x86-64-v3).

#include "kernels/prep/prep_simd.h"

void qsa_store_avx2(const qsa_store_args *args) {
    store_simd(args);
}

// ---- src/kernels/prep/prep_simd.h ----

// SPDX-License-Identifier: Apache-2.0
//
// Norm, RoPE, encoding and pooling in v16 lanes, shared by norm_rope, store and pool. Each step is the one of norm_rope.h and
// encode.h, sixteen dims at a time; what does not fill a vector, and groups with NaN, infinities or a saturated scale, take
// the plain functions.

#ifndef QSA_KERNELS_PREP_PREP_SIMD_H
#define QSA_KERNELS_PREP_PREP_SIMD_H

#include "kernels/kernels.h"
#include "kernels/prep/encode.h"
#include "kernels/prep/norm_rope.h"
#include "kernels/simd/simd.h"

#include <assert.h>

QSA_INLINE void v16_norm_vector(float *out, const float *x, const float *factor, int32_t dim, float eps) {
    const float inverse = 1.0f / sqrtf(v16_dot(x, x, dim) / (float)dim + eps);
    int32_t d = 0;
    for (; d + 16 <= dim; d += 16) {
        const v16 scaled = v16_mul(v16_load(x + d), v16_set(inverse));
        v16_store(out + d, v16_canonical(v16_mul(scaled, v16_load(factor + d))));
    }
    for (; d < dim; d++)
        out[d] = qsa_canonical((x[d] * inverse) * factor[d]);
}

QSA_INLINE void v16_rope_vector(float *x, const float *cosine, const float *sine, int32_t half) {
    assert(half >= 0 && 2 * half <= QSA_MAX_HEAD_DIM);
    int32_t d = 0;
    for (; d + 16 <= half; d += 16) {
        const v16 a = v16_load(x + d), b = v16_load(x + half + d), c = v16_load(cosine + d), s = v16_load(sine + d);
        v16_store(x + d, v16_canonical(v16_fma(a, c, v16_neg(v16_mul(b, s)))));
        v16_store(x + half + d, v16_canonical(v16_fma(b, c, v16_mul(a, s))));
    }
    for (; d < half; d++) {
        const float a = x[d], b = x[half + d];
        x[d] = qsa_canonical(fmaf(a, cosine[d], -(b * sine[d])));
        x[half + d] = qsa_canonical(fmaf(b, cosine[d], a * sine[d]));
    }
}

// One full group of 64 dims, if every value is finite and the scale fits a half; else 0 and nothing is written.
QSA_INLINE int v16_encode_group(int8_t *codes, uint16_t *scale_out, const float *x) {
    v16 amax = v16_zero(), spread = v16_zero();
    for (int32_t d = 0; d < QSA_GROUP; d += 16) {
        const v16 v = v16_load(x + d);
        amax = v16_max(v16_abs(v), amax);
        spread = v16_add(spread, v16_sub(v, v)); // NaN where a value is NaN or infinite
    }
    if (v16_unordered(spread))
        return 0;
    const float wanted = v16_fold_max(amax) / 127.0f;
    const uint16_t half = qsa_f16_of_f32(wanted);
    const float scale = qsa_f32_of_f16(half);
    if (wanted > QSA_F16_MAX || !(scale > 0.0f))
        return 0;
    const v16 divisor = v16_set(scale), most = v16_set(127.0f);
    for (int32_t d = 0; d < QSA_GROUP; d += 16) {
        v16 code = v16_rint(v16_div(v16_load(x + d), divisor));
        code = v16_max(v16_min(code, most), v16_neg(most));
        v16_to_i8(codes + d, code);
    }
    *scale_out = half;
    return 1;
}

QSA_INLINE void v16_encode_i8(int8_t *codes, uint16_t *scales, const float *x, int32_t dim, uint64_t *events) {
    for (int32_t first = 0, g = 0; first < dim; first += QSA_GROUP, g++) {
        const int32_t n = dim - first < QSA_GROUP ? dim - first : QSA_GROUP;
        if (n == QSA_GROUP && v16_encode_group(codes + first, &scales[g], x + first))
            continue;
        qsa_count_events(x + first, n, events);
        scales[g] = qsa_encode_group(codes + first, x + first, n, events);
    }
}

QSA_INLINE void norm_rope_simd(const qsa_norm_rope_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && 2 * args->half <= args->dim);
    float x[QSA_MAX_HEAD_DIM];
    const unsigned char *source = args->x;
    for (int32_t v = 0; v < args->vectors; v++) {
        float *out = args->out + v * args->out_stride;
        v16_load_row(x, source + v * args->x_stride, args->type, args->dim);
        v16_norm_vector(out, x, args->factor, args->dim, args->eps);
        v16_rope_vector(out, args->cosine, args->sine, args->half);
    }
}

QSA_INLINE void store_simd(const qsa_store_args *args) {
    float x[QSA_MAX_HEAD_DIM];
    const unsigned char *source = args->x;
    unsigned char *codes = args->codes;
    for (int32_t v = 0; v < args->vectors; v++) {
        void *out = codes + v * args->code_stride;
        v16_load_row(x, source + v * args->x_stride, args->type, args->dim);
        if (args->format == QSA_I8)
            v16_encode_i8(out, args->scales + v * args->scale_stride, x, args->dim, args->events);
        else
            qsa_encode_float(out, x, args->format, args->dim, args->events);
    }
}

QSA_INLINE void pool_simd(const qsa_pool_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && 2 * args->half <= args->dim);
    float mean[QSA_MAX_HEAD_DIM], key[QSA_MAX_HEAD_DIM];
    v16_load_row(mean, args->keys[0].data, args->keys[0].type, args->dim);
    for (int32_t c = 1; c < args->ratio; c++) {
        v16_load_row(key, args->keys[c].data, args->keys[c].type, args->dim);
        int32_t d = 0;
        for (; d + 16 <= args->dim; d += 16)
            v16_store(mean + d, v16_add(v16_load(mean + d), v16_load(key + d)));
        for (; d < args->dim; d++)
            mean[d] = mean[d] + key[d];
    }
    for (int32_t d = 0; d < args->dim; d++)
        mean[d] = mean[d] / (float)args->ratio;
    v16_norm_vector(key, mean, args->factor, args->dim, args->eps);
    v16_rope_vector(key, args->cosine, args->sine, args->half);
    qsa_encode_float(args->out, key, args->format, args->dim, args->events);
}

#endif

// ---- src/kernels/prep/encode.h ----

// SPDX-License-Identifier: Apache-2.0
//
// One vector into a cache format, with the rules for values that do not fit (docs/numerics.md, cache formats).
// events: nan, infinite, saturated.

#ifndef QSA_KERNELS_PREP_ENCODE_H
#define QSA_KERNELS_PREP_ENCODE_H

#include "num/load.h"

#define QSA_F16_MAX  65504.0f
#define QSA_BF16_MAX 0x1.fep127f

static inline void qsa_count_events(const float *x, int32_t n, uint64_t *events) {
    for (int32_t d = 0; d < n; d++) {
        uint32_t magnitude = qsa_bits_of_f32(x[d]) & 0x7fffffffu;
        events[0] += magnitude > 0x7f800000u;
        events[1] += magnitude == 0x7f800000u;
    }
}

// A finite value beyond `largest` is stored as the largest; infinities and NaN stay what they are.
static inline uint16_t qsa_encode_half(float x, qsa_type format, uint64_t *events) {
    float largest = format == QSA_F16 ? QSA_F16_MAX : QSA_BF16_MAX;
    uint16_t code = format == QSA_F16 ? qsa_f16_of_f32(x) : qsa_bf16_of_f32(x);
    uint16_t infinite = format == QSA_F16 ? 0x7c00u : 0x7f80u;
    if ((code & 0x7fffu) == infinite && fabsf(x) < qsa_infinity()) {
        events[2]++;
        code = (uint16_t)((code & 0x8000u) | (format == QSA_F16 ? qsa_f16_of_f32(largest) : qsa_bf16_of_f32(largest)));
    }
    return code;
}

static inline void qsa_encode_float(void *out, const float *x, qsa_type format, int32_t dim, uint64_t *events) {
    qsa_count_events(x, dim, events);
    for (int32_t d = 0; d < dim; d++) {
        if (format == QSA_F32)
            ((float *)out)[d] = qsa_canonical(x[d]);
        else
            ((uint16_t *)out)[d] = qsa_encode_half(x[d], format, events);
    }
}

// One group of at most 64 dims. Division by the *stored* scale; the clamp works for subnormal scales (amax below 1e-3,
// where rounding the scale down would give codes up to 168) and for saturated ones.
static inline uint16_t qsa_encode_group(int8_t *codes, const float *x, int32_t n, uint64_t *events) {
    float amax = 0.0f;
    for (int32_t d = 0; d < n; d++) {
        float magnitude = fabsf(x[d]);
        amax = magnitude > amax ? magnitude : amax;
    }
    float wanted = amax / 127.0f;
    int saturated = wanted > QSA_F16_MAX;
    uint16_t half = qsa_f16_of_f32(saturated ? QSA_F16_MAX : wanted);
    float scale = qsa_f32_of_f16(half);
    for (int32_t d = 0; d < n; d++) {
        float code = 0.0f;
        if (scale > 0.0f && x[d] == x[d]) {
            code = rintf(x[d] / scale);
            events[2] += saturated && fabsf(code) > 127.0f && fabsf(x[d]) < qsa_infinity();
            code = code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code;
        }
        codes[d] = (int8_t)code;
    }
    return half;
}

static inline void qsa_encode_i8(int8_t *codes, uint16_t *scales, const float *x, int32_t dim, uint64_t *events) {
    qsa_count_events(x, dim, events);
    for (int32_t first = 0, g = 0; first < dim; first += QSA_GROUP, g++) {
        int32_t n = dim - first < QSA_GROUP ? dim - first : QSA_GROUP;
        scales[g] = qsa_encode_group(codes + first, x + first, n, events);
    }
}

#endif

// ---- src/kernels/prep/norm_rope.h ----

// SPDX-License-Identifier: Apache-2.0
//
// One vector's RMS norm and RoPE in the contract's order, shared by norm_rope and pool so that a block key and a query
// go through the same arithmetic.

#ifndef QSA_KERNELS_PREP_NORM_ROPE_H
#define QSA_KERNELS_PREP_NORM_ROPE_H

#include "num/num.h"

static inline void qsa_norm_vector(float *out, const float *x, const float *factor, int32_t dim, float eps) {
    float inverse = 1.0f / sqrtf(qsa_dot(x, x, dim) / (float)dim + eps);
    for (int32_t d = 0; d < dim; d++)
        out[d] = qsa_canonical((x[d] * inverse) * factor[d]);
}

// NeoX halves: dims d and half + d turn together. In place.
static inline void qsa_rope_vector(float *x, const float *cosine, const float *sine, int32_t half) {
    for (int32_t d = 0; d < half; d++) {
        float a = x[d], b = x[half + d];
        x[d] = qsa_canonical(fmaf(a, cosine[d], -(b * sine[d])));
        x[half + d] = qsa_canonical(fmaf(b, cosine[d], a * sine[d]));
    }
}

#endif
