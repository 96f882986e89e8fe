// SPDX-License-Identifier: Apache-2.0
//
// A block key: the mean of the block's raw index keys in cell order, normed, rotated at the first cell's positions.

#include "kernels/kernels.h"
#include "kernels/prep/encode.h"
#include "kernels/prep/norm_rope.h"

#include <assert.h>

void qsa_pool_ref(const qsa_pool_args *args) {
    assert(args->ratio >= 1 && args->ratio <= QSA_MAX_RATIO);
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && 2 * args->half <= args->dim);
    float mean[QSA_MAX_HEAD_DIM], key[QSA_MAX_HEAD_DIM];
    qsa_load_row(mean, args->keys[0].data, args->keys[0].type, args->dim);
    for (int32_t c = 1; c < args->ratio; c++) {
        qsa_load_row(key, args->keys[c].data, args->keys[c].type, args->dim);
        for (int32_t d = 0; d < args->dim; d++)
            mean[d] = mean[d] + key[d];
    }
    for (int32_t d = 0; d < args->dim; d++)
        mean[d] = mean[d] / (float)args->ratio;
    qsa_norm_vector(key, mean, args->factor, args->dim, args->eps);
    qsa_rope_vector(key, args->cosine, args->sine, args->half);
    qsa_encode_float(args->out, key, args->format, args->dim, args->events);
}
