// SPDX-License-Identifier: Apache-2.0
//
// Attention of one row over its selected cells for the heads of one KV head: a record for every 64 cells. Every K and V row
// is decoded once for all heads. Only selected cells are read.

#include "kernels/kernels.h"
#include "num/load.h"

#include <assert.h>

// Maximum of the logits, then their exponentials in place of them. The lanes of l are padded with +0.
static void softmax_chunk(float *s, int32_t count, float *m, float *l) {
    float maximum = -qsa_infinity(), lane[QSA_LANES] = {0};
    int nan = 0;
    for (int32_t c = 0; c < count; c++) {
        nan |= s[c] != s[c];
        maximum = s[c] > maximum ? s[c] : maximum;
    }
    *m = nan ? qsa_nan() : maximum;
    for (int32_t c = 0; c < count; c++) {
        s[c] = qsa_exp(s[c] - *m);
        lane[c % QSA_LANES] = lane[c % QSA_LANES] + s[c];
    }
    *l = qsa_canonical(qsa_fold_lanes(lane));
}

static void decode(float *out, const qsa_attend_args *args, const void *rows, const uint16_t *scales, int32_t cell) {
    const size_t dim = (size_t)args->dim, groups = (dim + QSA_GROUP - 1) / QSA_GROUP;
    const unsigned char *codes = (const unsigned char *)rows + (size_t)cell * dim * qsa_type_size(args->format);
    qsa_decode_row(out, codes, args->format == QSA_I8 ? scales + (size_t)cell * groups : 0, args->format, args->dim);
}

static void attend_chunk(const qsa_attend_args *args, const int32_t *cells, int32_t count, float *records) {
    float row[QSA_MAX_HEAD_DIM], s[QSA_MAX_HEADS_PER_KV][QSA_CHUNK];
    const int32_t dim = args->dim, stride = 2 + dim;
    for (int32_t c = 0; c < count; c++) {
        decode(row, args, args->k, args->k_scales, cells[c]);
        for (int32_t h = 0; h < args->heads; h++)
            s[h][c] = qsa_dot(args->q + (int64_t)h * dim, row, dim) * args->scale + 0.0f; // + 0: no -0 is left
    }
    for (int32_t h = 0; h < args->heads; h++) {
        float *record = records + (int64_t)h * stride;
        softmax_chunk(s[h], count, &record[0], &record[1]);
        memset(record + 2, 0, (size_t)dim * sizeof(float));
    }
    for (int32_t c = 0; c < count; c++) {
        decode(row, args, args->v, args->v_scales, cells[c]);
        for (int32_t h = 0; h < args->heads; h++) {
            float *o = records + (int64_t)h * stride + 2, p = s[h][c];
            for (int32_t d = 0; d < dim; d++)
                o[d] = fmaf(p, row[d], o[d]);
        }
    }
    for (int32_t h = 0; h < args->heads; h++)
        for (int32_t d = 0; d < dim; d++)
            records[(int64_t)h * stride + 2 + d] = qsa_canonical(records[(int64_t)h * stride + 2 + d]);
}

void qsa_attend_ref(const qsa_attend_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->count > 0);
    assert(args->heads >= 1 && args->heads <= QSA_MAX_HEADS_PER_KV);
    float *records = args->records;
    for (int32_t first = 0; first < args->count; first += QSA_CHUNK) {
        int32_t count = args->count - first < QSA_CHUNK ? args->count - first : QSA_CHUNK;
        attend_chunk(args, args->cells + first, count, records);
        records += args->chunk_stride;
    }
}
