// SPDX-License-Identifier: Apache-2.0
//
// Records to outputs: O = sum_k e_k O_k, L = sum_k e_k l_k by serial FMA in ascending k, o = O / L, then the gate.
// Records with l = 0 hold nothing (an empty split) and are skipped, so they cannot poison the row.

#include "kernels/kernels.h"
#include "num/load.h"
#include "num/num64.h"

#include <assert.h>

static float maximum_of_records(const float *records, int64_t chunk_stride, int32_t chunks, int *any) {
    float maximum = -qsa_infinity();
    int nan = 0;
    *any = 0;
    for (int32_t k = 0; k < chunks; k++) {
        float m = records[k * chunk_stride], l = records[k * chunk_stride + 1];
        if (l == 0.0f)
            continue;
        *any = 1;
        nan |= m != m;
        maximum = m > maximum ? m : maximum;
    }
    return nan ? qsa_nan() : maximum;
}

static float log_sum_exp(float maximum, float sum) {
    if (!(sum > 0.0f && sum < qsa_infinity()) || !(fabsf(maximum) < qsa_infinity()))
        return qsa_canonical(maximum + sum); // NaN or infinity, whichever is there
    return (float)((double)maximum + qsa_log64((double)sum));
}

static void merge_head(const qsa_merge_args *args, int32_t h, float *o) {
    const float *records = args->records + (int64_t)h * (2 + args->dim);
    int any;
    float maximum = maximum_of_records(records, args->chunk_stride, args->chunks, &any), sum = 0.0f;
    memset(o, 0, (size_t)args->dim * sizeof(float));
    for (int32_t k = 0; k < args->chunks; k++) {
        const float *record = records + k * args->chunk_stride;
        if (record[1] == 0.0f)
            continue;
        float e = qsa_exp(record[0] - maximum);
        sum = fmaf(record[1], e, sum);
        for (int32_t d = 0; d < args->dim; d++)
            o[d] = fmaf(record[2 + d], e, o[d]);
    }
    if (any)
        for (int32_t d = 0; d < args->dim; d++)
            o[d] = qsa_canonical(o[d] / sum);
    if (args->lse)
        args->lse[h] = any ? log_sum_exp(maximum, sum) : -qsa_infinity();
}

void qsa_merge_ref(const qsa_merge_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->chunks >= 0);
    float o[QSA_MAX_HEAD_DIM];
    const unsigned char *gates = args->gate;
    unsigned char *outs = args->out;
    for (int32_t h = 0; h < args->heads; h++) {
        merge_head(args, h, o);
        if (gates) {
            const unsigned char *gate = gates + h * args->gate_stride;
            for (int32_t d = 0; d < args->dim; d++)
                o[d] = o[d] * qsa_sigmoid(qsa_load(gate, args->gate_type, d));
        }
        for (int32_t d = 0; d < args->dim; d++)
            qsa_put(outs + h * args->out_stride, args->out_type, d, o[d]);
    }
}
