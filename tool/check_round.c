// SPDX-License-Identifier: Apache-2.0
//
// The model's cache formats: what keys and values are after a trip through one.

#include "check_model_impl.h"

#include <math.h>

// To nearest even with `bits` bits of significand, exponents from `least`, clamped to `most`.
static double round_to(double x, int bits, int least, double most) {
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    const int exponent = ilogb(x) < least ? least : ilogb(x);
    const double unit = ldexp(1, exponent - bits + 1);
    const double rounded = rint(x / unit) * unit;
    return rounded > most ? most : rounded < -most ? -most : rounded;
}

static double to_half(double x) {
    return round_to(x, 11, -14, 65504);
}

static void round_group(int32_t dim, double *x) {
    double most = 0;
    for (int32_t i = 0; i < dim; i++) {
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    }
    const double scale = to_half((double)((float)most / 127.0F));
    for (int32_t i = 0; i < dim; i++) {
        const double code = scale > 0 ? rint((double)((float)x[i] / (float)scale)) : 0;
        x[i] = scale * (code > 127 ? 127 : code < -127 ? -127 : code);
    }
}

void check_round_rows(qsa_type format, int32_t rows, int32_t dim, double *x) {
    for (int32_t r = 0; r < rows; r++, x += dim) {
        for (int32_t i = 0; format == QSA_I8 && i < dim; i += QSA_GROUP) {
            round_group(dim - i < QSA_GROUP ? dim - i : QSA_GROUP, x + i);
        }
        for (int32_t i = 0; format != QSA_I8 && format != QSA_F32 && i < dim; i++) {
            x[i] = format == QSA_F16 ? to_half(x[i]) : round_to(x[i], 8, -126, 0x1.fep127);
        }
    }
}
