// SPDX-License-Identifier: Apache-2.0
//
// One vector into a cache format, with the rules for values that do not fit (docs/numerics.md, cache formats).
// events: nan, infinite, saturated.

#ifndef QSA_KERNELS_PREP_ENCODE_H
#define QSA_KERNELS_PREP_ENCODE_H

#include "num/load.h"

#define QSA_F16_MAX  65504.0f
#define QSA_BF16_MAX 0x1.fep127f

QSA_ANYWHERE void qsa_count_events(const float *x, int32_t n, uint64_t *events) {
    for (int32_t d = 0; d < n; d++) {
        uint32_t magnitude = qsa_bits_of_f32(x[d]) & 0x7fffffffu;
        events[0] += magnitude > 0x7f800000u;
        events[1] += magnitude == 0x7f800000u;
    }
}

// A finite value beyond `largest` is stored as the largest; infinities and NaN stay what they are.
QSA_ANYWHERE uint16_t qsa_encode_half(float x, qsa_type format, uint64_t *events) {
    float largest = format == QSA_F16 ? QSA_F16_MAX : QSA_BF16_MAX;
    uint16_t code = format == QSA_F16 ? qsa_f16_of_f32(x) : qsa_bf16_of_f32(x);
    uint16_t infinite = format == QSA_F16 ? 0x7c00u : 0x7f80u;
    if ((code & 0x7fffu) == infinite && fabsf(x) < qsa_infinity()) {
        events[2]++;
        code = (uint16_t)((code & 0x8000u) | (format == QSA_F16 ? qsa_f16_of_f32(largest) : qsa_bf16_of_f32(largest)));
    }
    return code;
}

QSA_ANYWHERE void qsa_encode_float(void *out, const float *x, qsa_type format, int32_t dim, uint64_t *events) {
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
QSA_ANYWHERE uint16_t qsa_encode_group(int8_t *codes, const float *x, int32_t n, uint64_t *events) {
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

QSA_ANYWHERE void qsa_encode_i8(int8_t *codes, uint16_t *scales, const float *x, int32_t dim, uint64_t *events) {
    qsa_count_events(x, dim, events);
    for (int32_t first = 0, g = 0; first < dim; first += QSA_GROUP, g++) {
        int32_t n = dim - first < QSA_GROUP ? dim - first : QSA_GROUP;
        scales[g] = qsa_encode_group(codes + first, x + first, n, events);
    }
}

#endif
