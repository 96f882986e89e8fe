// SPDX-License-Identifier: Apache-2.0
//
// The output gate in 256-bit vectors (x86-64-v3).

#include "kernels/merge/merge_simd.h"

void qsa_gate_avx2(const qsa_gate_args *args) {
    gate_simd(args);
}

// ---- src/kernels/merge/merge_simd.h ----

// SPDX-License-Identifier: Apache-2.0
//
// Merge and gate in v16 lanes. The weights e_k of up to 64 records are made first, then 64 dims of O run over the records in
// registers: each record is read once, in the contract's order.

#ifndef QSA_KERNELS_MERGE_MERGE_SIMD_H
#define QSA_KERNELS_MERGE_MERGE_SIMD_H

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"
#include "num/num64.h"

enum { BATCH = 64 };

// Non-empty records of one head among the chunks first..first+BATCH-1: their numbers and weights.
typedef struct weights {
    int64_t at[BATCH]; // offset of the record
    _Alignas(64) float e[BATCH];
    int32_t count;
} weights;

QSA_INLINE int maximum_of_records(const float *records, int64_t stride, int32_t chunks, float *maximum) {
    int any = 0, nan = 0;
    *maximum = -qsa_infinity();
    for (int32_t k = 0; k < chunks; k++) {
        const float m = records[k * stride], l = records[k * stride + 1];
        if (l == 0.0f)
            continue;
        any = 1;
        nan |= m != m;
        *maximum = m > *maximum ? m : *maximum;
    }
    if (nan)
        *maximum = qsa_nan();
    return any;
}

QSA_INLINE void make_weights(weights *w, const float *records, int64_t stride, int32_t first, int32_t chunks,
                             float maximum) {
    w->count = 0;
    const int32_t end = chunks - first < BATCH ? chunks : first + BATCH;
    for (int32_t k = first; k < end; k++) {
        if (records[k * stride + 1] == 0.0f)
            continue;
        w->at[w->count] = k * stride;
        w->e[w->count++] = records[k * stride] - maximum;
    }
    for (int32_t k = 0; k < w->count; k += 16) {
        if (k + 16 <= w->count)
            v16_store(w->e + k, v16_exp(v16_load(w->e + k)));
        else
            v16_store_n(w->e + k, v16_exp(v16_load_n(w->e + k, w->count - k)), w->count - k);
    }
}

// o[d..d+64) += chain over the records.
QSA_INLINE void merge_dims(float *o, const weights *w, const float *records, int32_t d) {
    v16 a = v16_load(o), b = v16_load(o + 16), c = v16_load(o + 32), e = v16_load(o + 48);
    for (int32_t k = 0; k < w->count; k++) {
        const float *record = records + w->at[k] + 2 + d;
        const v16 weight = v16_set(w->e[k]);
        a = v16_fma(v16_load(record), weight, a);
        b = v16_fma(v16_load(record + 16), weight, b);
        c = v16_fma(v16_load(record + 32), weight, c);
        e = v16_fma(v16_load(record + 48), weight, e);
    }
    v16_store(o, a);
    v16_store(o + 16, b);
    v16_store(o + 32, c);
    v16_store(o + 48, e);
}

QSA_INLINE void merge_batch(float *o, float *sum, const weights *w, const float *records, int32_t dim) {
    for (int32_t k = 0; k < w->count; k++)
        *sum = fmaf(records[w->at[k] + 1], w->e[k], *sum);
    int32_t d = 0;
    for (; d + 64 <= dim; d += 64)
        merge_dims(o + d, w, records, d);
    for (int32_t k = 0; k < w->count; k++)
        for (int32_t i = d; i < dim; i++)
            o[i] = fmaf(records[w->at[k] + 2 + i], w->e[k], o[i]);
}

QSA_INLINE float log_sum_exp(float maximum, float sum) {
    if (!(sum > 0.0f && sum < qsa_infinity()) || !(fabsf(maximum) < qsa_infinity()))
        return qsa_canonical(maximum + sum); // NaN or infinity, whichever is there
    return (float)((double)maximum + qsa_log64((double)sum));
}

// Sixteen gates from dim d on; zeros behind dim.
QSA_INLINE v16 gates_at(const unsigned char *gate, qsa_type type, int32_t d, int32_t dim) {
    float x[16] = {0};
    v16_load_row(x, gate + (size_t)d * qsa_type_size(type), type, dim - d < 16 ? dim - d : 16);
    return v16_sigmoid(v16_load(x));
}

QSA_INLINE void put_dims(unsigned char *out, qsa_type type, int32_t d, int32_t dim, v16 value) {
    if (type == QSA_F32 && d + 16 <= dim) {
        value = v16_canonical(value);
        memcpy(out + 4 * (size_t)d, &value, sizeof value);
        return;
    }
    float x[16];
    v16_store(x, value);
    for (int32_t i = 0; i < 16 && d + i < dim; i++)
        qsa_put(out, type, d + i, x[i]);
}

QSA_INLINE void merge_simd(const qsa_merge_args *args) {
    _Alignas(64) float o[QSA_MAX_HEAD_DIM];
    weights w;
    const unsigned char *gates = args->gate;
    const int32_t dim = args->dim;
    for (int32_t h = 0; h < args->heads; h++) {
        const float *records = args->records + (int64_t)h * (2 + dim);
        unsigned char *out = (unsigned char *)args->out + h * args->out_stride;
        float maximum, sum = 0.0f;
        const int any = maximum_of_records(records, args->chunk_stride, args->chunks, &maximum);
        memset(o, 0, sizeof o);
        for (int32_t first = 0; first < args->chunks; first += BATCH) {
            make_weights(&w, records, args->chunk_stride, first, args->chunks, maximum);
            merge_batch(o, &sum, &w, records, dim);
        }
        for (int32_t d = 0; d < dim; d += 16) {
            v16 value = v16_load(o + d);
            if (any)
                value = v16_canonical(v16_div(value, v16_set(sum)));
            if (gates)
                value = v16_mul(value, gates_at(gates + h * args->gate_stride, args->gate_type, d, dim));
            put_dims(out, args->out_type, d, dim, value);
        }
        if (args->lse)
            args->lse[h] = any ? log_sum_exp(maximum, sum) : -qsa_infinity();
    }
}

QSA_INLINE void gate_simd(const qsa_gate_args *args) {
    for (int32_t h = 0; h < args->heads; h++) {
        const unsigned char *x = (const unsigned char *)args->x + h * args->x_stride;
        const unsigned char *gate = (const unsigned char *)args->gate + h * args->gate_stride;
        unsigned char *out = (unsigned char *)args->out + h * args->out_stride;
        for (int32_t d = 0; d < args->dim; d += 16) {
            float value[16] = {0};
            const int32_t n = args->dim - d < 16 ? args->dim - d : 16;
            v16_load_row(value, x + (size_t)d * qsa_type_size(args->x_type), args->x_type, n);
            const v16 gated = v16_mul(v16_load(value), gates_at(gate, args->gate_type, d, args->dim));
            put_dims(out, args->out_type, d, args->dim, gated);
        }
    }
}

#endif
