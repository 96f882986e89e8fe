// SPDX-License-Identifier: Apache-2.0
//
// Keys and values into the cache's format: keys after norm and RoPE, values raw.

#include "kernels/kernels.h"
#include "kernels/prep/encode.h"

#include <assert.h>

void qsa_store_ref(const qsa_store_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM);
    float x[QSA_MAX_HEAD_DIM];
    const unsigned char *source = args->x;
    unsigned char *codes = args->codes;
    for (int32_t v = 0; v < args->vectors; v++) {
        qsa_load_row(x, source + v * args->x_stride, args->type, args->dim);
        void *out = codes + v * args->code_stride;
        if (args->format == QSA_I8)
            qsa_encode_i8(out, args->scales + v * args->scale_stride, x, args->dim, args->events);
        else
            qsa_encode_float(out, x, args->format, args->dim, args->events);
    }
}
