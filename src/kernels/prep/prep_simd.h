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

// Dims d..d+15 of a raw row, normed.
QSA_INLINE v16 v16_normed(const unsigned char *x, qsa_type type, int32_t d, v16 inverse, const float *factor) {
    return v16_mul(v16_mul(v16_load_raw(x, type, d), inverse), v16_load(factor + d));
}

// One vector whose dims and rotated halves are multiples of 16: after the sum of squares norm and RoPE in one pass, which reads
// the raw row again instead of a copy. A NaN between the two is no less a NaN for being made canonical after both only.
QSA_INLINE void norm_rope_whole(const qsa_norm_rope_args *args, float *out, const unsigned char *x, qsa_type type) {
    const int32_t dim = args->dim, half = args->half;
    v16 sum = v16_zero();
    for (int32_t d = 0; d < dim; d += 16) {
        const v16 v = v16_load_raw(x, type, d);
        sum = v16_fma(v, v, sum);
    }
    const v16 inverse = v16_set(1.0f / sqrtf(v16_fold(sum) / (float)dim + args->eps));
    for (int32_t d = 0; d < half; d += 16) {
        const v16 a = v16_normed(x, type, d, inverse, args->factor);
        const v16 b = v16_normed(x, type, half + d, inverse, args->factor);
        const v16 c = v16_load(args->cosine + d), s = v16_load(args->sine + d);
        v16_store(out + d, v16_canonical(v16_fma(a, c, v16_neg(v16_mul(b, s)))));
        v16_store(out + half + d, v16_canonical(v16_fma(b, c, v16_mul(a, s))));
    }
    for (int32_t d = 2 * half; d < dim; d += 16)
        v16_store(out + d, v16_canonical(v16_normed(x, type, d, inverse, args->factor)));
}

QSA_INLINE void norm_rope_vector(const qsa_norm_rope_args *args, float *out, const unsigned char *x) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->half >= 0 && 2 * args->half <= args->dim);
    if (args->dim % 16 != 0 || args->half % 16 != 0) {
        float row[QSA_MAX_HEAD_DIM];
        v16_load_row(row, x, args->type, args->dim);
        v16_norm_vector(out, row, args->factor, args->dim, args->eps);
        v16_rope_vector(out, args->cosine, args->sine, args->half);
    } else if (args->type == QSA_F32) {
        norm_rope_whole(args, out, x, QSA_F32);
    } else if (args->type == QSA_F16) {
        norm_rope_whole(args, out, x, QSA_F16);
    } else {
        norm_rope_whole(args, out, x, QSA_BF16);
    }
}

QSA_INLINE void norm_rope_simd(const qsa_norm_rope_args *args) {
    const unsigned char *source = args->x;
    for (int32_t v = 0; v < args->vectors; v++)
        norm_rope_vector(args, args->out + v * args->out_stride, source + v * args->x_stride);
}

// A raw row as float32: where it lies if it can be read as that, else in `copy`.
QSA_INLINE const float *float_row(float *copy, const unsigned char *x, qsa_type type, int32_t dim) {
    if (type == QSA_F32 && (uintptr_t)x % sizeof(float) == 0)
        return (const float *)x;
    v16_load_row(copy, x, type, dim);
    return copy;
}

// Vector v of the call into the cache's format.
QSA_INLINE void store_vector(const qsa_store_args *args, int32_t v, const float *x) {
    void *out = (unsigned char *)args->codes + v * args->code_stride;
    if (args->format == QSA_I8)
        v16_encode_i8(out, args->scales + v * args->scale_stride, x, args->dim, args->events);
    else
        qsa_encode_float(out, x, args->format, args->dim, args->events);
}

QSA_INLINE void store_simd(const qsa_store_args *args) {
    float copy[QSA_MAX_HEAD_DIM];
    const unsigned char *source = args->x;
    for (int32_t v = 0; v < args->vectors; v++)
        store_vector(args, v, float_row(copy, source + v * args->x_stride, args->type, args->dim));
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
