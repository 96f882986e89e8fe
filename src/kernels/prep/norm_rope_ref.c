// SPDX-License-Identifier: Apache-2.0
//
// Query, key and index query heads of one token: RMS norm, then RoPE.

#include "kernels/kernels.h"
#include "kernels/prep/norm_rope.h"
#include "num/load.h"

#include <assert.h>

void qsa_norm_rope_ref(const qsa_norm_rope_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && 2 * args->half <= args->dim);
    float x[QSA_MAX_HEAD_DIM];
    const unsigned char *source = args->x;
    for (int32_t v = 0; v < args->vectors; v++) {
        float *out = args->out + v * args->out_stride;
        qsa_load_row(x, source + v * args->x_stride, args->type, args->dim);
        qsa_norm_vector(out, x, args->factor, args->dim, args->eps);
        qsa_rope_vector(out, args->cosine, args->sine, args->half);
    }
}
