// SPDX-License-Identifier: Apache-2.0
//
// One vector's RMS norm and RoPE in the contract's order, shared by norm_rope and pool so that a block key and a query
// go through the same arithmetic.

#ifndef QSA_KERNELS_PREP_NORM_ROPE_H
#define QSA_KERNELS_PREP_NORM_ROPE_H

#include "num/num.h"

QSA_ANYWHERE void qsa_norm_vector(float *out, const float *x, const float *factor, int32_t dim, float eps) {
    float inverse = 1.0f / sqrtf(qsa_dot(x, x, dim) / (float)dim + eps);
    for (int32_t d = 0; d < dim; d++)
        out[d] = qsa_canonical((x[d] * inverse) * factor[d]);
}

// NeoX halves: dims d and half + d turn together. In place.
QSA_ANYWHERE void qsa_rope_vector(float *x, const float *cosine, const float *sine, int32_t half) {
    for (int32_t d = 0; d < half; d++) {
        float a = x[d], b = x[half + d];
        x[d] = qsa_canonical(fmaf(a, cosine[d], -(b * sine[d])));
        x[half + d] = qsa_canonical(fmaf(b, cosine[d], a * sine[d]));
    }
}

#endif
