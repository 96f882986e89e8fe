// SPDX-License-Identifier: Apache-2.0
//
// Index queries as integers of 16 bits or less, such that a dot with 127 in every dim fits 32 bits, and the three numbers of
// the row's error bound (docs/numerics.md, screened scoring).

#include "kernels/kernels.h"

#include <assert.h>

// Codes of one head. Adds to the norms of the heads and of what their codes miss.
static float encode_head(int16_t *codes, const float *q, int32_t dim, double *norms, double *misses) {
    const int32_t fits = INT32_MAX / (127 * dim), limit = fits < 32767 ? fits : 32767;
    const float largest = qsa_screen_largest(q, dim), most = (float)limit;
    const float scale = largest >= QSA_SCREEN_LEAST ? largest / most : 0.0f;
    double squares = 0.0, missed = 0.0;
    for (int32_t d = 0; d < dim; d++) {
        float code = scale > 0.0f ? rintf(q[d] / scale) : 0.0f;
        code = code > most ? most : code < -most ? -most : code;
        const double x = (double)q[d], rest = x - (double)scale * (double)code;
        codes[d] = (int16_t)code;
        squares = squares + x * x;
        missed = missed + rest * rest;
    }
    *norms = *norms + (double)qsa_screen_norm(squares);
    *misses = *misses + (double)qsa_screen_norm(missed);
    return scale;
}

void qsa_screen_query_ref(const qsa_screen_query_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->heads >= 1 && args->heads <= QSA_MAX_HEADS);
    const int32_t stride = qsa_screen_stride(args->dim), heads = qsa_screen_heads(args->heads);
    *args->usable = qsa_screen_largest(args->index_q, args->heads * args->dim) <= QSA_SCREEN_MOST;
    if (!*args->usable)
        return;
    memset(args->codes, 0, (size_t)heads * (size_t)stride * sizeof(int16_t));
    memset(args->scales, 0, (size_t)heads * sizeof(float));
    double norms = 0.0, misses = 0.0;
    for (int32_t h = 0; h < args->heads; h++)
        args->scales[h] = encode_head(args->codes + (int64_t)h * stride, args->index_q + (int64_t)h * args->dim,
                                      args->dim, &norms, &misses);
    // gamma: what any of the sums loses at most, relative to its terms' magnitudes. 127 sqrt(dim): the norm of any codes.
    const int32_t links = (args->dim + QSA_LANES - 1) / QSA_LANES;
    const double steps = links + 2 * args->heads + 16;
    const double gamma = steps * 0x1p-24 * 1.01, inflated = 1.0 + 0x1p-20, codes = 127.0 * sqrt((double)args->dim);
    const float per_residual = (float)(norms * (1.0 + gamma) * inflated);
    const float per_scale = (float)(codes * (misses + 2.0 * gamma * (norms + misses)) * inflated);
    // Not below 2^-120: above 0 for an infinite residual, and far from where rounding to float would be an absolute error.
    args->bound[0] = per_residual > 0x1p-120f ? per_residual : 0x1p-120f;
    args->bound[1] = per_scale > 0x1p-120f ? per_scale : 0x1p-120f;
    args->bound[2] = 0x1p-120f;
}
