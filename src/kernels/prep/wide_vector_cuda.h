// SPDX-License-Identifier: Apache-2.0
//
// One vector of prep on 16 / SPAN threads: thread t owns lanes SPAN * t .. SPAN * t + SPAN - 1 of the contract, so that
// it reads and writes SPAN elements at once and runs SPAN chains beside each other. What vector_cuda.h does, the same
// bits, for vectors of 128 or 256 aligned elements of which 64 are rotated (prep_wide_cuda.h). All 32 threads of a warp
// come here together, with 2 * SPAN vectors of one kind.
//
// Arithmetic on this device gives one NaN, 7fffffff, which an integer minimum makes the contract's 7fc00000: an
// instruction in place of a comparison and a selection. Values that were only moved may be other NaNs.

#ifndef QSA_KERNELS_PREP_WIDE_VECTOR_CUDA_H
#define QSA_KERNELS_PREP_WIDE_VECTOR_CUDA_H

#include "kernels/prep/vector_cuda.h"

template <int BYTES> struct qsa_word;
template <> struct qsa_word<2> { typedef uint16_t type; };
template <> struct qsa_word<4> { typedef uint32_t type; };
template <> struct qsa_word<8> { typedef uint2 type; };
template <> struct qsa_word<16> { typedef uint4 type; };

// COUNT elements of T at p, in one access.
template <int COUNT, class T> static __device__ __forceinline__ void qsa_wide_get(T *x, const void *p) {
    const auto word = *(const typename qsa_word<COUNT * sizeof(T)>::type *)p;
    memcpy(x, &word, sizeof word);
}
template <int COUNT, class T> static __device__ __forceinline__ void qsa_wide_put(void *p, const T *x) {
    typename qsa_word<COUNT * sizeof(T)>::type word;
    memcpy(&word, x, sizeof word);
    *(typename qsa_word<COUNT * sizeof(T)>::type *)p = word;
}

// A NaN that arithmetic made becomes the canonical one.
static __device__ __forceinline__ float qsa_wide_canonical(float x) {
#ifdef __CUDA_ARCH__
    return __int_as_float(min(__float_as_int(x), (int)QSA_NAN_BITS));
#else
    return qsa_canonical(x);
#endif
}

// The larger magnitude; NaN if either is.
static __device__ __forceinline__ float qsa_wide_most(float most, float x) {
#ifdef __CUDA_ARCH__
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(most) : "f"(fabsf(x)));
    return most;
#else
    return most != most || x != x ? qsa_nan() : fabsf(x) > most ? fabsf(x) : most;
#endif
}

// The warp's raw elements: y[SPAN * k + e] is element 16 k + lane e of the thread. Half NaNs are left as they come.
template <int STEPS, int SPAN>
static __device__ __forceinline__ void qsa_wide_read(float *y, const unsigned char *x, qsa_type type, int t) {
    if (type == QSA_F32) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            qsa_wide_get<SPAN>(y + SPAN * k, (const float *)x + 16 * k + SPAN * t);
        return;
    }
    uint16_t h[STEPS * SPAN];
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        qsa_wide_get<SPAN>(h + SPAN * k, (const uint16_t *)x + 16 * k + SPAN * t);
    if (type == QSA_F16) {
#pragma unroll
        for (int i = 0; i < STEPS * SPAN; i++)
            y[i] = qsa_cuda_half(h[i]);
    } else {
#pragma unroll
        for (int i = 0; i < STEPS * SPAN; i++)
            y[i] = qsa_f32_of_bits((uint32_t)h[i] << 16);
    }
}

template <int STEPS, int SPAN>
static __device__ __forceinline__ void qsa_wide_factor(float *f, const float *factor, int t) {
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        qsa_wide_get<SPAN>(f + SPAN * k, factor + 16 * k + SPAN * t);
}

// The norm's factor. qsa_fold_lanes: lanes of other threads first, then the thread's own; adding commutes.
template <int STEPS, int SPAN> static __device__ __forceinline__ float qsa_wide_inverse(const float *y, float eps) {
    float lane[SPAN] = {};
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int e = 0; e < SPAN; e++)
            lane[e] = fmaf(y[SPAN * k + e], y[SPAN * k + e], lane[e]);
#pragma unroll
    for (int half = 8; half >= SPAN; half /= 2)
#pragma unroll
        for (int e = 0; e < SPAN; e++)
            lane[e] = lane[e] + __shfl_xor_sync(0xffffffffu, lane[e], half / SPAN);
#pragma unroll
    for (int half = SPAN / 2; half >= 1; half /= 2)
#pragma unroll
        for (int e = 0; e < half; e++)
            lane[e] = lane[e] + lane[e + half];
    return 1.0f / sqrtf(lane[0] * (1.0f / (16 * STEPS)) + eps); // a power of two: the division's bits
}

template <int STEPS, int SPAN>
static __device__ __forceinline__ void qsa_wide_scale(float *y, float inverse, const float *factor) {
#pragma unroll
    for (int i = 0; i < STEPS * SPAN; i++)
        y[i] = qsa_wide_canonical((y[i] * inverse) * factor[i]);
}

// RoPE in place: a pair's halves are QSA_CUDA_HALF / 16 steps apart, so in one thread.
template <int SPAN>
static __device__ __forceinline__ void qsa_wide_turn(float *y, const float *cosine, const float *sine, int t) {
    constexpr int apart = QSA_CUDA_HALF / 16;
#pragma unroll
    for (int k = 0; k < apart; k++) {
        float c[SPAN], s[SPAN];
        qsa_wide_get<SPAN>(c, cosine + 16 * k + SPAN * t);
        qsa_wide_get<SPAN>(s, sine + 16 * k + SPAN * t);
#pragma unroll
        for (int e = 0; e < SPAN; e++) {
            const float a = y[SPAN * k + e], b = y[SPAN * (k + apart) + e];
            y[SPAN * k + e] = qsa_wide_canonical(fmaf(a, c[e], -(b * s[e])));
            y[SPAN * (k + apart) + e] = qsa_wide_canonical(fmaf(b, c[e], a * s[e]));
        }
    }
}

// One code of qsa_encode_group, whatever the value and the scale: the code, and its events as bits 8, 9, 10.
static __device__ __noinline__ unsigned qsa_wide_any_code(float x, float scale, bool saturated) {
    uint64_t events[3] = {0, 0, 0};
    float code = 0.0f;
    qsa_count_events(&x, 1, events);
    if (scale > 0.0f && x == x) {
        code = rintf(x / scale);
        events[2] = saturated && fabsf(code) > 127.0f && fabsf(x) < qsa_infinity();
        code = code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code;
    }
    return (uint8_t)(int8_t)code | (unsigned)events[0] << 8 | (unsigned)events[1] << 9 | (unsigned)events[2] << 10;
}

// Codes of a group of 64 elements, x[0 .. 4 SPAN - 1] the thread's own. A normal scale that is not the largest leaves
// nothing to clamp: it is amax / 127 but for 2^-11 of it. Then the quotient needs no division: q is near x / scale, and
// one correction makes it the rounded one, because a 24 bit number over an 11 bit one is never nearer than 2^-36 of
// itself to the middle of two floats, and the correction errs by 2^-46. Adding 1.5 * 2^23 rounds it to even.
template <int SPAN>
static __device__ __forceinline__ void qsa_wide_group(const float *x, unsigned char *codes, uint16_t *scale_out, int t,
                                                      bool valid, uint64_t events[3]) {
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * SPAN; i++)
        amax = qsa_wide_most(amax, x[i]);
#pragma unroll
    for (int step = 8 / SPAN; step >= 1; step /= 2)
        amax = qsa_wide_most(amax, __shfl_xor_sync(0xffffffffu, amax, step));
    const bool plain = amax >= 0.0078125f && amax <= 8300000.0f; // scales from 2^-14 on, and below 65504
    uint8_t code[4 * SPAN];
    if (__all_sync(0xffffffffu, plain)) {
        const uint16_t half = qsa_f16_of_f32(amax / 127.0f);
        const float scale = qsa_f32_of_f16(half), inverse = 1.0f / scale;
#pragma unroll
        for (int i = 0; i < 4 * SPAN; i++) {
            const float q = x[i] * inverse;
            const float quotient = fmaf(fmaf(-q, scale, x[i]), inverse, q);
            code[i] = (uint8_t)qsa_bits_of_f32(quotient + 12582912.0f);
        }
        if (valid && t == 0)
            *scale_out = half;
    } else {
        float finite = 0.0f;
#pragma unroll
        for (int i = 0; i < 4 * SPAN; i++)
            finite = fmaxf(finite, fabsf(x[i])); // passes over NaN
#pragma unroll
        for (int step = 8 / SPAN; step >= 1; step /= 2)
            finite = fmaxf(finite, __shfl_xor_sync(0xffffffffu, finite, step));
        const float wanted = finite / 127.0f;
        const bool saturated = wanted > QSA_F16_MAX;
        const uint16_t half = qsa_f16_of_f32(saturated ? QSA_F16_MAX : wanted);
        const float scale = qsa_f32_of_f16(half);
#pragma unroll
        for (int i = 0; i < 4 * SPAN; i++) {
            const unsigned any = qsa_wide_any_code(x[i], scale, saturated);
            code[i] = (uint8_t)any;
            if (valid) {
                events[0] += any >> 8 & 1;
                events[1] += any >> 9 & 1;
                events[2] += any >> 10 & 1;
            }
        }
        if (valid && t == 0)
            *scale_out = half;
    }
    if (valid) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if constexpr (SPAN == 1)
                codes[16 * k + t] = code[k];
            else
                qsa_wide_put<SPAN>(codes + 16 * k + SPAN * t, code + SPAN * k);
    }
}

// The stored form, in any format.
template <int STEPS, int SPAN>
static __device__ __forceinline__ void qsa_wide_store(const float *y, qsa_type format, unsigned char *codes,
                                                      uint16_t *scales, int t, bool valid, uint64_t events[3]) {
    if (format == QSA_I8) {
#pragma unroll
        for (int g = 0; g < STEPS / 4; g++)
            qsa_wide_group<SPAN>(y + 4 * SPAN * g, codes + 64 * g, scales + g, t, valid, events);
        return;
    }
    if (!valid)
        return;
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < STEPS * SPAN; i++)
        most = qsa_wide_most(most, y[i]);
    if (!(most < qsa_infinity())) {
#pragma unroll
        for (int i = 0; i < STEPS * SPAN; i++)
            qsa_count_events(y + i, 1, events);
    }
    if (format == QSA_F32) {
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            float x[SPAN];
#pragma unroll
            for (int e = 0; e < SPAN; e++)
                x[e] = qsa_canonical(y[SPAN * k + e]);
            qsa_wide_put<SPAN>((float *)codes + 16 * k + SPAN * t, x);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        uint16_t h[SPAN];
#pragma unroll
        for (int e = 0; e < SPAN; e++)
            h[e] = qsa_encode_half(y[SPAN * k + e], format, events);
        qsa_wide_put<SPAN>((uint16_t *)codes + 16 * k + SPAN * t, h);
    }
}

#endif
