// SPDX-License-Identifier: Apache-2.0
//
// One vector of prep on 16 threads, which are the 16 lanes of the contract: thread j has elements j, j + 16, ... Norm,
// RoPE, what is kept as float32 and what is stored, in the orders of norm_rope.h and encode.h. Vectors of 16 * STEPS
// elements with 64 rotated ones stay in registers (the preset); of any other, each element is worked out again from the
// raw row wherever it is needed, so that no array is indexed at run time.

#ifndef QSA_KERNELS_PREP_VECTOR_CUDA_H
#define QSA_KERNELS_PREP_VECTOR_CUDA_H

#include "kernels/cuda_io.h"
#include "kernels/prep/encode.h"

enum { QSA_CUDA_HALF = 32 }; // frequencies of vectors that stay in registers

typedef struct qsa_cuda_vector {
    const unsigned char *x; // null: no vector
    qsa_type type;
    bool aligned;
    int32_t dim, half;
    const float *factor; // null: neither norm nor RoPE
    float eps;
    float *out;           // float32 result, or null
    unsigned char *codes; // stored result, or null
    uint16_t *scales;
    qsa_type format;
} qsa_cuda_vector;

static __device__ __forceinline__ float qsa_cuda_inverse(float sum, const qsa_cuda_vector *v) {
    return 1.0f / sqrtf(sum / (float)v->dim + v->eps);
}

static __device__ __forceinline__ float qsa_cuda_normed(float x, float inverse, float factor) {
    return qsa_canonical((x * inverse) * factor);
}

// Both halves of a rotated pair.
static __device__ __forceinline__ float qsa_cuda_turn_low(float a, float b, float cosine, float sine) {
    return qsa_canonical(fmaf(a, cosine, -(b * sine)));
}
static __device__ __forceinline__ float qsa_cuda_turn_high(float a, float b, float cosine, float sine) {
    return qsa_canonical(fmaf(b, cosine, a * sine));
}

// One group of qsa_encode_i8: the thread's elements x[0..3] are the group's lane, lane + 16, ...; n dims in the group.
static __device__ __forceinline__ void qsa_cuda_encode_group(const float x[4], int32_t n, int8_t *codes,
                                                             uint16_t *scale_out, unsigned mask, uint64_t events[3]) {
    const int lane = threadIdx.x & 15;
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        amax = lane + 16 * i < n && fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
#pragma unroll
    for (int step = 8; step >= 1; step /= 2)
        amax = fmaxf(amax, __shfl_xor_sync(mask, amax, step));
    const float wanted = amax / 127.0f;
    const bool saturated = wanted > QSA_F16_MAX;
    const uint16_t half = qsa_f16_of_f32(saturated ? QSA_F16_MAX : wanted);
    const float scale = qsa_f32_of_f16(half);
    if (lane == 0)
        *scale_out = half;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if (lane + 16 * i >= n)
            continue;
        qsa_count_events(&x[i], 1, events);
        float code = 0.0f;
        if (scale > 0.0f && x[i] == x[i]) {
            code = rintf(x[i] / scale);
            events[2] += saturated && fabsf(code) > 127.0f && fabsf(x[i]) < qsa_infinity();
            code = code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code;
        }
        codes[lane + 16 * i] = (int8_t)code;
    }
}

// The stored form; at(k) is the thread's element 16 k + lane. STEPS 0: as many as dim needs.
template <int STEPS, class At>
static __device__ __forceinline__ void qsa_cuda_encode(const qsa_cuda_vector *v, At at, unsigned mask,
                                                       uint64_t events[3]) {
    const int lane = threadIdx.x & 15, steps = STEPS ? STEPS : (v->dim + 15) / 16;
    if (v->format == QSA_I8) {
#pragma unroll
        for (int k = 0; k < steps; k += 4) {
            const float x[4] = {at(k), at(k + 1), at(k + 2), at(k + 3)};
            const int32_t rest = v->dim - 16 * k;
            qsa_cuda_encode_group(x, rest < QSA_GROUP ? rest : QSA_GROUP, (int8_t *)v->codes + 16 * k,
                                  v->scales + k / 4, mask, events);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < steps; k++) {
        const int32_t d = 16 * k + lane;
        if (!STEPS && d >= v->dim)
            break;
        const float x = at(k);
        qsa_count_events(&x, 1, events);
        if (v->format == QSA_F32)
            ((float *)v->codes)[d] = qsa_canonical(x);
        else
            ((uint16_t *)v->codes)[d] = qsa_encode_half(x, v->format, events);
    }
}

// In registers, first part: read and norm. y[k] is element 16 k + lane.
template <int STEPS>
static __device__ __forceinline__ void qsa_cuda_begin(const qsa_cuda_vector *v, float *y, unsigned mask) {
    const int lane = threadIdx.x & 15;
    if (v->type == QSA_F32) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            y[k] = ((const float *)v->x)[16 * k + lane];
    } else {
        uint16_t h[STEPS];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            h[k] = ((const uint16_t *)v->x)[16 * k + lane];
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            y[k] = qsa_canonical(v->type == QSA_F16 ? qsa_cuda_half(h[k]) : qsa_f32_of_bits((uint32_t)h[k] << 16));
    }
    if (!v->factor)
        return;
    float factor[STEPS], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        factor[k] = __ldg(v->factor + 16 * k + lane);
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        sum = fmaf(y[k], y[k], sum);
    const float inverse = qsa_cuda_inverse(qsa_cuda_fold(sum, mask), v);
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        y[k] = qsa_cuda_normed(y[k], inverse, factor[k]);
}

// Second part: RoPE and writing. A pair's halves are QSA_CUDA_HALF / 16 steps apart, so in one thread.
template <int STEPS>
static __device__ __forceinline__ void qsa_cuda_end(const qsa_cuda_vector *v, float *y, const float *cosine,
                                                    const float *sine, unsigned mask, uint64_t events[3]) {
    const int lane = threadIdx.x & 15;
    constexpr int apart = QSA_CUDA_HALF / 16;
    if (v->factor) {
#pragma unroll
        for (int k = 0; k < apart; k++) {
            const float a = y[k], b = y[k + apart], c = cosine[16 * k + lane], s = sine[16 * k + lane];
            y[k] = qsa_cuda_turn_low(a, b, c, s);
            y[k + apart] = qsa_cuda_turn_high(a, b, c, s);
        }
    }
    if (v->out) {
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            v->out[16 * k + lane] = y[k];
    }
    if (v->codes)
        qsa_cuda_encode<STEPS>(
            v, [&](int k) { return y[k]; }, mask, events);
}

// Any vector: the norm's factor 1 / sqrt(...), then everything else.
static __device__ __forceinline__ float qsa_cuda_begin_any(const qsa_cuda_vector *v, unsigned mask) {
    float sum = 0.0f;
    for (int32_t d = threadIdx.x & 15; v->factor && d < v->dim; d += QSA_LANES) {
        const float x = qsa_cuda_load(v->x, v->type, v->aligned, d);
        sum = fmaf(x, x, sum);
    }
    return qsa_cuda_inverse(qsa_cuda_fold(sum, mask), v);
}

static __device__ __noinline__ float qsa_cuda_element(const qsa_cuda_vector *v, float inverse, const float *cosine,
                                                      const float *sine, int32_t d) {
    if (d >= v->dim)
        return 0.0f;
    const float x = qsa_cuda_load(v->x, v->type, v->aligned, d);
    if (!v->factor)
        return x;
    const float y = qsa_cuda_normed(x, inverse, v->factor[d]);
    if (d >= 2 * v->half)
        return y;
    const bool low = d < v->half;
    const int32_t other = low ? d + v->half : d - v->half, f = low ? d : other;
    const float z = qsa_cuda_normed(qsa_cuda_load(v->x, v->type, v->aligned, other), inverse, v->factor[other]);
    return low ? qsa_cuda_turn_low(y, z, cosine[f], sine[f]) : qsa_cuda_turn_high(z, y, cosine[f], sine[f]);
}

static __device__ __forceinline__ void qsa_cuda_end_any(const qsa_cuda_vector *v, float inverse, const float *cosine,
                                                        const float *sine, unsigned mask, uint64_t events[3]) {
    const int lane = threadIdx.x & 15;
    for (int32_t d = lane; v->out && d < v->dim; d += QSA_LANES)
        v->out[d] = qsa_cuda_element(v, inverse, cosine, sine, d);
    if (v->codes)
        qsa_cuda_encode<0>(
            v, [&](int k) { return qsa_cuda_element(v, inverse, cosine, sine, 16 * k + lane); }, mask, events);
}

#endif
