// SPDX-License-Identifier: Apache-2.0
//
// Stage merge: records to outputs, and the gate. Both handle the heads of one row.

#ifndef QSA_KERNELS_MERGE_MERGE_H
#define QSA_KERNELS_MERGE_MERGE_H

#include "qsa/qsa.h"

typedef struct qsa_merge_args {
    const float *records; // record c of head h at records + c * chunk_stride + h * (2 + dim)
    int64_t chunk_stride; // floats
    int32_t chunks;       // >= 0
    int32_t heads;
    int32_t dim;      // 1..QSA_MAX_HEAD_DIM
    const void *gate; // head h at gate + h * gate_stride bytes; null: no gate
    qsa_type gate_type;
    int64_t gate_stride;
    void *out; // head h at out + h * out_stride bytes
    qsa_type out_type;
    int64_t out_stride;
    float *lse; // [heads], may be null
} qsa_merge_args;
typedef void (*qsa_merge_fn)(const qsa_merge_args *args);

// gate: out = x * sigmoid(gate). Element by element, so out may be x if both have one type.
typedef struct qsa_gate_args {
    const void *x;
    qsa_type x_type;
    int64_t x_stride;
    const void *gate;
    qsa_type gate_type;
    int64_t gate_stride;
    void *out;
    qsa_type out_type;
    int64_t out_stride;
    int32_t heads;
    int32_t dim;
} qsa_gate_args;
typedef void (*qsa_gate_fn)(const qsa_gate_args *args);

#endif
