// SPDX-License-Identifier: Apache-2.0
//
// Stage attend: records of one row over its selected cells, for the query heads of one KV head.
// A record is m, l and dim accumulators (docs/numerics.md), one for every 64 selected cells.

#ifndef QSA_KERNELS_ATTEND_ATTEND_H
#define QSA_KERNELS_ATTEND_ATTEND_H

#include "qsa/qsa.h"

typedef struct qsa_attend_args {
    const float *q;           // [heads][dim], the heads that read this KV head
    int32_t heads;            // 1..QSA_MAX_HEADS_PER_KV
    int32_t dim;              // 1..QSA_MAX_HEAD_DIM
    float scale;              // 1 / sqrtf(D)
    qsa_type format;          // f32, f16, bf16, i8
    const void *k, *v;        // row i of this KV head starts at k + i * dim * element size
    const uint16_t *k_scales; // i8: row i's at k_scales + i * groups
    const uint16_t *v_scales;
    const int32_t *cells; // [count] row numbers of the selected cells, ascending by cell; never negative
    int32_t count;        // > 0
    float *records;       // record c of head h at records + c * chunk_stride + h * (2 + dim)
    int64_t chunk_stride; // floats
} qsa_attend_args;
typedef void (*qsa_attend_fn)(const qsa_attend_args *args);

#endif
