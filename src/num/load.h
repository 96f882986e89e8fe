// SPDX-License-Identifier: Apache-2.0
//
// Elements and rows of the public number types, at any alignment: reading is exact, writing rounds to nearest even
// (f16 beyond 65519 becomes infinity: an output is IEEE, only the cache clamps).

#ifndef QSA_NUM_LOAD_H
#define QSA_NUM_LOAD_H

#include "num/num.h"
#include "qsa/qsa.h"

QSA_ANYWHERE size_t qsa_type_size(qsa_type type) {
    return type == QSA_F32 ? 4u : type == QSA_I8 ? 1u : 2u;
}

// Element i of a vector of f32, f16 or bf16. A half NaN arrives canonical, a float32 NaN as it is.
QSA_ANYWHERE float qsa_load(const void *data, qsa_type type, int32_t i) {
    const unsigned char *p = (const unsigned char *)data + (size_t)i * qsa_type_size(type);
    if (type == QSA_F32) {
        float x;
        memcpy(&x, p, sizeof x);
        return x;
    }
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return type == QSA_F16 ? qsa_f32_of_f16(h) : qsa_f32_of_bf16(h);
}

QSA_ANYWHERE void qsa_load_row(float *out, const void *data, qsa_type type, int32_t n) {
    if (type == QSA_F32) {
        memcpy(out, data, (size_t)n * sizeof(float));
        return;
    }
    const unsigned char *p = (const unsigned char *)data;
    for (int32_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * (size_t)i, sizeof h);
        out[i] = type == QSA_F16 ? qsa_f32_of_f16(h) : qsa_f32_of_bf16(h);
    }
}

QSA_ANYWHERE void qsa_put(void *data, qsa_type type, int32_t i, float x) {
    unsigned char *p = (unsigned char *)data + (size_t)i * qsa_type_size(type);
    if (type == QSA_F32) {
        x = qsa_canonical(x);
        memcpy(p, &x, sizeof x);
        return;
    }
    uint16_t h = type == QSA_F16 ? qsa_f16_of_f32(x) : qsa_bf16_of_f32(x);
    memcpy(p, &h, sizeof h);
}

// Row `vector` of a cache in stored form, decoded: exact in every format. groups of 64 dims share a scale (i8 only).
QSA_ANYWHERE void qsa_decode_row(float *out, const void *codes, const uint16_t *scales, qsa_type format, int32_t dim) {
    if (format != QSA_I8) {
        qsa_load_row(out, codes, format, dim);
        return;
    }
    const int8_t *code = (const int8_t *)codes;
    for (int32_t first = 0, g = 0; first < dim; first += QSA_GROUP, g++) {
        float scale = qsa_f32_of_f16(scales[g]);
        int32_t end = dim - first < QSA_GROUP ? dim : first + QSA_GROUP;
        for (int32_t d = first; d < end; d++)
            out[d] = (float)code[d] * scale;
    }
}

#endif
