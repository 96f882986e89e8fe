// SPDX-License-Identifier: Apache-2.0
//
// The screening copy of a block key: int8 codes, their scale, and the norm of what they miss. The norm is added up in double
// from the codes as they are, so it bounds the error whatever the rounding did. Runs once per block, so there are no vectors.

#include "kernels/kernels.h"
#include "num/load.h"

#include <assert.h>

void qsa_screen_key_ref(const qsa_screen_key_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM);
    float key[QSA_MAX_HEAD_DIM];
    qsa_load_row(key, args->key, args->format, args->dim);
    const float largest = qsa_screen_largest(key, args->dim);
    for (int32_t d = 0; d < qsa_screen_stride(args->dim); d++)
        args->codes[d] = 0;
    *args->scale = 0.0f;
    *args->residual = qsa_infinity();
    if (largest > QSA_SCREEN_MOST)
        return;
    const float scale = largest >= QSA_SCREEN_LEAST ? largest / 127.0f : 0.0f;
    double squares = 0.0;
    for (int32_t d = 0; d < args->dim; d++) {
        const float code = scale > 0.0f ? rintf(key[d] / scale) : 0.0f; // within 127 (1 + 2^-22) before rint
        const double rest = (double)key[d] - (double)scale * (double)code;
        args->codes[d] = (int8_t)code;
        squares = squares + rest * rest;
    }
    *args->scale = scale;
    *args->residual = qsa_screen_norm(squares);
}
