// SPDX-License-Identifier: Apache-2.0
//
// qsa_sincos for many angles at a time: each step of num64.h for all of them before the next, in loops of a constant length that
// the compiler turns into vectors of doubles. Every operation is the scalar function's, so the bits are too.

#ifndef QSA_KERNELS_PREP_ANGLES_SIMD_H
#define QSA_KERNELS_PREP_ANGLES_SIMD_H

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"

enum { TOGETHER = 32 }; // angles of a round: all of a head of 256 dims with a quarter rotated

QSA_INLINE void sincos_round(const float *angle, float *sine, float *cosine) {
    double k[TOGETHER], r[TOGETHER], r2[TOGETHER], s[TOGETHER], c[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        k[i] = rint((double)angle[i] * 0x1.45f306dc9c883p-1);
        r[i] = fma(-k[i], 0x1.1a62633145c07p-54, fma(-k[i], 0x1.921fb54442d18p+0, (double)angle[i]));
        r2[i] = -(r[i] * r[i]);
        s[i] = c[i] = 1.0;
    }
    for (int n = 16; n >= 2; n -= 2)
        for (int i = 0; i < TOGETHER; i++) {
            s[i] = fma(s[i], r2[i] / (double)(n * (n + 1)), 1.0);
            c[i] = fma(c[i], r2[i] / (double)(n * (n - 1)), 1.0);
        }
    for (int i = 0; i < TOGETHER; i++) { // |k| < 2^31: an angle is below 2^31
        const int32_t quarter = (int32_t)k[i] & 3;
        const float sin_r = (float)(s[i] * r[i]), cos_r = (float)c[i];
        const float a = quarter & 1 ? cos_r : sin_r, b = quarter & 1 ? sin_r : cos_r;
        sine[i] = quarter & 2 ? -a : a;
        cosine[i] = (quarter + 1) & 2 ? -b : b;
    }
}

QSA_INLINE void angles_simd(const qsa_angles_args *args) {
    for (int32_t first = 0; first < args->half; first += TOGETHER) {
        const int32_t n = args->half - first < TOGETHER ? args->half - first : TOGETHER;
        float angle[TOGETHER] = {0}, sine[TOGETHER], cosine[TOGETHER];
        for (int32_t i = 0; i < n; i++)
            angle[i] = args->inv_freq[first + i] * (float)args->positions[args->axis[first + i]];
        sincos_round(angle, sine, cosine);
        memcpy(args->sine + first, sine, (size_t)n * sizeof(float));
        memcpy(args->cosine + first, cosine, (size_t)n * sizeof(float));
    }
}

#endif
