// SPDX-License-Identifier: Apache-2.0
//
// The contract's 16 virtual lanes as vectors: `v16` is one 512-bit, two 256-bit or four 128-bit registers, and every function
// here computes each lane as src/num/num.h does. Kernels written with it are one source for all instruction sets; their files
// (<kernel>_avx2.c, ...) include this header under the compiler flags of their suffix.
//
// An instruction set's header gives: v16, v16_zero, v16_set, v16_load, v16_store, v16_fma, v16_add, v16_sub, v16_mul, v16_div,
// v16_neg, v16_abs, v16_max, v16_rint, v16_hold, v16_unordered, v16_canonical, v16_scale_by_power, v16_at_least, v16_negative,
// v16_fold, v16_fold8, v16_decode, v16_of_f16, v16_of_bf16, v16_to_i8, and the shapes of its register tiles.

#ifndef QSA_KERNELS_SIMD_SIMD_H
#define QSA_KERNELS_SIMD_SIMD_H

#include "num/load.h"

#define QSA_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include "kernels/simd/avx512.h"
#elif defined(__AVX2__)
#include "kernels/simd/avx2.h"
#elif defined(__ARM_NEON)
#include "kernels/simd/neon.h"
#endif

// A half scale: the instruction where there is one, else the same value by hand. NaN payloads may differ.
QSA_INLINE float qsa_half_to_float(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    return qsa_f32_of_f16(h);
#endif
}

#define QSA_PREFETCH(p) __builtin_prefetch(p)

// n < 16 elements, zeros behind them. Exactly n are read.
QSA_INLINE v16 v16_load_n(const float *p, int32_t n) {
    float x[16] = {0};
    for (int32_t i = 0; i < n; i++)
        x[i] = p[i];
    return v16_load(x);
}

QSA_INLINE void v16_store_n(float *p, v16 v, int32_t n) {
    float x[16];
    v16_store(x, v);
    for (int32_t i = 0; i < n; i++)
        p[i] = x[i];
}

// The dims of a stored row behind the last whole 16, zeros behind them. Out of line: rows rarely have any.
static __attribute__((noinline)) void v16_decode_tail(float out[16], const unsigned char *row, const uint16_t *scales,
                                                      qsa_type format, int32_t d, int32_t dim) {
    // cppcheck-suppress nullPointer ; scales is null only where the format has none
    const float scale = format == QSA_I8 ? qsa_f32_of_f16(scales[d / QSA_GROUP]) : 0.0f;
    for (int32_t i = 0; i < 16; i++)
        out[i] = d + i >= dim       ? 0.0f
                 : format == QSA_I8 ? (float)((const int8_t *)row)[d + i] * scale
                                    : qsa_load(row, format, d + i);
}

// A whole stored row, zeros behind it up to a multiple of 16.
QSA_INLINE void v16_decode_row(float *out, const unsigned char *row, const uint16_t *scales, qsa_type format,
                               int32_t dim) {
    int32_t d = 0;
    for (; d + QSA_GROUP <= dim; d += QSA_GROUP) {
        // cppcheck-suppress nullPointer ; scales is null only where the format has none
        const v16 scale = v16_set(format == QSA_I8 ? qsa_half_to_float(scales[d / QSA_GROUP]) : 0.0f);
        for (int32_t i = 0; i < QSA_GROUP; i += 16)
            v16_store(out + d + i, v16_decode(row, format, d + i, scale));
    }
    for (; d + 16 <= dim; d += 16) {
        // cppcheck-suppress nullPointer ; likewise
        const v16 scale = v16_set(format == QSA_I8 ? qsa_half_to_float(scales[d / QSA_GROUP]) : 0.0f);
        v16_store(out + d, v16_decode(row, format, d, scale));
    }
    if (d < dim)
        v16_decode_tail(out + d, row, scales, format, d, dim);
}

// qsa_exp, lane by lane: below the cut +0, NaN canonical.
QSA_INLINE v16 v16_exp(v16 x) {
    const v16 n = v16_rint(v16_mul(x, v16_set(QSA_LOG2E)));
    v16 r = v16_fma(n, v16_set(-QSA_LN2_HI), x);
    r = v16_fma(n, v16_set(-QSA_LN2_LO), r);
    v16 t = v16_set(QSA_EXP_C6);
    t = v16_fma(t, r, v16_set(QSA_EXP_C5));
    t = v16_fma(t, r, v16_set(QSA_EXP_C4));
    t = v16_fma(t, r, v16_set(QSA_EXP_C3));
    t = v16_fma(t, r, v16_set(QSA_EXP_C2));
    t = v16_fma(t, r, v16_set(1.0f));
    t = v16_fma(t, r, v16_set(1.0f));
    return v16_cut(v16_scale_by_power(t, n), x);
}

QSA_INLINE v16 v16_sigmoid(v16 g) {
    const v16 e = v16_exp(v16_neg(v16_abs(g))), one = v16_set(1.0f);
    return v16_canonical(v16_div(v16_select_negative(g, e, one), v16_add(one, e)));
}

// dot(a, b) of the contract.
QSA_INLINE float v16_dot(const float *a, const float *b, int32_t n) {
    v16 sum = v16_zero();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16)
        sum = v16_fma(v16_load(a + i), v16_load(b + i), sum);
    if (i < n)
        sum = v16_fma(v16_load_n(a + i, n - i), v16_load_n(b + i, n - i), sum);
    return v16_fold(sum);
}

// Elements i..i+15 of a row of f32, f16 or bf16 at any alignment.
QSA_INLINE v16 v16_load_raw(const void *data, qsa_type type, int32_t i) {
    const unsigned char *p = (const unsigned char *)data + (size_t)i * qsa_type_size(type);
    if (type == QSA_F16)
        return v16_of_f16(p);
    if (type == QSA_BF16)
        return v16_of_bf16(p);
    return v16_load((const float *)(const void *)p); // vector loads ask for no alignment
}

// A row of f32, f16 or bf16 at any alignment as float32.
QSA_INLINE void v16_load_row(float *out, const void *data, qsa_type type, int32_t n) {
    int32_t i = 0;
    if (type == QSA_F32) {
        memcpy(out, data, (size_t)n * sizeof(float));
        return;
    }
    const unsigned char *p = (const unsigned char *)data;
    for (; i + 16 <= n; i += 16)
        v16_store(out + i, type == QSA_F16 ? v16_of_f16(p + 2 * i) : v16_of_bf16(p + 2 * i));
    for (; i < n; i++)
        out[i] = qsa_load(data, type, i);
}

#endif
