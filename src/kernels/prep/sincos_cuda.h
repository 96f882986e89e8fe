// SPDX-License-Identifier: Apache-2.0
//
// qsa_sincos for the device, the same bits. Its sixteen divisions by constants become products with the rounded
// reciprocal and one correction. The product is within two units of the quotient, so the remainder is exact and the
// corrected quotient errs by less than 2^-49 of a unit before it is rounded; and a / d with d < 2^9 is never nearer
// than 2^-10 of a unit to the middle of two doubles (nor on it, which would take a 54 bit a). Nothing here comes near
// underflow but a zero, whose sign the next addition of 1 hides. The divisions are independent of each other and of
// the chain; sixteen calls of the division routine would be done one after the other (1.3 us of one token's prep).

#ifndef QSA_KERNELS_PREP_SINCOS_CUDA_H
#define QSA_KERNELS_PREP_SINCOS_CUDA_H

#include "num/num64.h"

#include <cuda_runtime.h>

template <int DIVISOR> static __device__ __forceinline__ double qsa_cuda_over(double a) {
    constexpr double divisor = DIVISOR, reciprocal = 1.0 / divisor;
    const double q = a * reciprocal;
    return fma(fma(-q, divisor, a), reciprocal, q);
}

// Steps N, N - 2, ... 2 of the two chains.
template <int N> static __device__ __forceinline__ void qsa_cuda_taylor(double r2, double *s, double *c) {
    if constexpr (N >= 2) {
        *s = fma(*s, qsa_cuda_over<N *(N + 1)>(-r2), 1.0);
        *c = fma(*c, qsa_cuda_over<N *(N - 1)>(-r2), 1.0);
        qsa_cuda_taylor<N - 2>(r2, s, c);
    }
}

static __device__ __forceinline__ void qsa_cuda_sincos(float x, float *sine, float *cosine) {
    const double k = rint((double)x * 0x1.45f306dc9c883p-1);
    double r = fma(-k, 0x1.921fb54442d18p+0, (double)x);
    r = fma(-k, 0x1.1a62633145c07p-54, r);
    double s = 1.0, c = 1.0;
    qsa_cuda_taylor<16>(r * r, &s, &c);
    s *= r;
    const int quadrant = (int)((int64_t)k & 3);
    const double a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
    *sine = (float)(quadrant & 2 ? -a : a);
    *cosine = (float)(quadrant == 1 || quadrant == 2 ? -b : b);
}

#endif
