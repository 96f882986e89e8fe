// SPDX-License-Identifier: Apache-2.0
//
// The numeric contract as code (docs/numerics.md): bit casts, lane sums, exp, sigmoid, half and bf16 conversion.
// Static inline and free of any instruction set, so that every kernel file may include it whatever flags it is
// built with, and a vector kernel can use it for its tails.

#ifndef QSA_NUM_NUM_H
#define QSA_NUM_NUM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

// CUDA's strict kernels include the same text: one statement of every bit (docs/numerics.md).
#ifdef __CUDACC__
#define QSA_ANYWHERE static __host__ __device__ inline
#else
#define QSA_ANYWHERE static inline
#endif

#define QSA_LANES 16

QSA_ANYWHERE uint32_t qsa_bits_of_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

QSA_ANYWHERE float qsa_f32_of_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

QSA_ANYWHERE uint64_t qsa_bits_of_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

QSA_ANYWHERE double qsa_f64_of_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define QSA_NAN_BITS 0x7fc00000u

QSA_ANYWHERE float qsa_nan(void) {
    return qsa_f32_of_bits(QSA_NAN_BITS);
}

QSA_ANYWHERE float qsa_infinity(void) {
    return qsa_f32_of_bits(0x7f800000u);
}

// Every float32 that a stage stores passes through here: NaN bits differ between machines.
QSA_ANYWHERE float qsa_canonical(float x) {
    return x == x ? x : qsa_nan();
}

// Folds 16 lanes by halves; the fixed tree of every lane sum. Destroys lane[].
QSA_ANYWHERE float qsa_fold_lanes(float lane[QSA_LANES]) {
    for (int half = QSA_LANES / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = lane[j] + lane[j + half];
    return lane[0];
}

// dot(a, b) over n dims, n >= 0: lane i % 16 holds the FMA chain of elements i, ascending.
QSA_ANYWHERE float qsa_dot(const float *a, const float *b, int32_t n) {
    float lane[QSA_LANES] = {0};
    int32_t i = 0;
    for (; i + QSA_LANES <= n; i += QSA_LANES)
        for (int j = 0; j < QSA_LANES; j++)
            lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
    for (int j = 0; i + j < n; j++)
        lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
    return qsa_fold_lanes(lane);
}

QSA_ANYWHERE float qsa_relu(float x) {
    return x > 0.0f ? x : (x == x ? 0.0f : qsa_nan());
}

// exp(x) for x <= 0. Coefficients: relative minimax fit of (exp(r) - 1 - r) / r^2 on |r| <= ln 2 / 2, 3.8e-9.
#define QSA_EXP_CUT (-80.0f)
#define QSA_LOG2E   0x1.715476p+0f
#define QSA_LN2_HI  0x1.62e400p-1f // 11 trailing zero bits: n * ln2_hi is exact for |n| <= 2048
#define QSA_LN2_LO  0x1.7f7d1cp-20f
#define QSA_EXP_C2  0x1.fffffcp-2f
#define QSA_EXP_C3  0x1.555492p-3f
#define QSA_EXP_C4  0x1.5558f2p-5f
#define QSA_EXP_C5  0x1.1239e0p-7f
#define QSA_EXP_C6  0x1.6a243ap-10f

QSA_ANYWHERE float qsa_exp(float x) {
    if (!(x >= QSA_EXP_CUT))
        return x == x ? 0.0f : qsa_nan();
    float n = rintf(x * QSA_LOG2E);
    float r = fmaf(n, -QSA_LN2_HI, x);
    r = fmaf(n, -QSA_LN2_LO, r);
    float t = QSA_EXP_C6;
    t = fmaf(t, r, QSA_EXP_C5);
    t = fmaf(t, r, QSA_EXP_C4);
    t = fmaf(t, r, QSA_EXP_C3);
    t = fmaf(t, r, QSA_EXP_C2);
    t = fmaf(t, r, 1.0f);
    t = fmaf(t, r, 1.0f);
    return qsa_f32_of_bits(qsa_bits_of_f32(t) + ((uint32_t)(int32_t)n << 23));
}

QSA_ANYWHERE float qsa_sigmoid(float g) {
    if (g != g)
        return qsa_nan();
    float e = qsa_exp(g < 0.0f ? g : -g);
    return g >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

// binary16 and bf16 to binary32: exact. NaN payloads are made canonical.
QSA_ANYWHERE float qsa_f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u, fraction = h & 1023u;
    if (exponent == 31)
        return fraction ? qsa_nan() : qsa_f32_of_bits(sign | 0x7f800000u);
    if (exponent)
        return qsa_f32_of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
    float magnitude = (float)fraction * 0x1p-24f;
    return qsa_f32_of_bits(sign | qsa_bits_of_f32(magnitude));
}

QSA_ANYWHERE float qsa_f32_of_bf16(uint16_t b) {
    return qsa_canonical(qsa_f32_of_bits((uint32_t)b << 16));
}

// binary32 to binary16, to nearest even; overflow gives infinity (65520 and above), NaN gives 7e00.
QSA_ANYWHERE uint16_t qsa_f16_of_f32(float x) {
    uint32_t u = qsa_bits_of_f32(x);
    uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7e00u;
    if (magnitude >= 0x477ff000u) // 65520: halfway between the largest half and 2^16, rounds up
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24, by one exact scaling and one rounding
        float scaled = rintf(qsa_f32_of_bits(magnitude) * 0x1p24f);
        return (uint16_t)(sign | (uint32_t)scaled);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

// binary32 to bf16, to nearest even; overflow gives infinity, NaN gives 7fc0.
QSA_ANYWHERE uint16_t qsa_bf16_of_f32(float x) {
    uint32_t u = qsa_bits_of_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0u;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#endif
