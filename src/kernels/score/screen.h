// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of screened scoring share: sizes, the range in which integers stand for floats, and rounding up. The
// derivation of the bound is in docs/numerics.md.

#ifndef QSA_KERNELS_SCORE_SCREEN_H
#define QSA_KERNELS_SCORE_SCREEN_H

#include "num/num.h"
#include "qsa/qsa.h"

enum {
    QSA_SCREEN_LANES = 32, // codes of a key or query are padded with zeros to a multiple of this
    QSA_SCREEN_HEADS = 4,  // and so is the number of heads
};

// Vectors whose largest magnitude lies between these have codes; below, the codes are 0 and all of the vector is error; above,
// nothing is promised. Within them no product of the bound overflows or becomes subnormal, for any number of heads and dims.
#define QSA_SCREEN_LEAST 0x1p-50f
#define QSA_SCREEN_MOST  0x1p50f

QSA_ANYWHERE int32_t qsa_screen_stride(int32_t dim) {
    return (dim + QSA_SCREEN_LANES - 1) / QSA_SCREEN_LANES * QSA_SCREEN_LANES;
}
QSA_ANYWHERE int32_t qsa_screen_heads(int32_t heads) {
    return (heads + QSA_SCREEN_HEADS - 1) / QSA_SCREEN_HEADS * QSA_SCREEN_HEADS;
}

// The largest |x|; infinity if any is NaN or infinite.
QSA_ANYWHERE float qsa_screen_largest(const float *x, int32_t dim) {
    float largest = 0.0f;
    for (int32_t d = 0; d < dim; d++) {
        const float magnitude = fabsf(x[d]);
        largest = !(magnitude < qsa_infinity()) ? qsa_infinity() : magnitude > largest ? magnitude : largest;
    }
    return largest;
}

// A float that is at least the norm whose squares were added up in double, in any order, each within 2^-50 of its value:
// 1024 squares and the root lose less than 2^-41, and the factor gives back 2^-30.
QSA_ANYWHERE float qsa_screen_norm(double squares) {
    const double norm = sqrt(squares) * (1.0 + 0x1p-30);
    const float rounded = (float)norm;
    return (double)rounded >= norm ? rounded : qsa_f32_of_bits(qsa_bits_of_f32(rounded) + 1);
}

#endif
