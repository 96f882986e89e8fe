// SPDX-License-Identifier: Apache-2.0
//
// Scalar functions in double whose bits are the same on every machine: log, exp, power, sin, cos. Used a few dozen times
// per token or layer (RoPE, log-sum-exp), never per cell. Only + - * / fma rint and bit casts.

#ifndef QSA_NUM_NUM64_H
#define QSA_NUM_NUM64_H

#include "num/num.h"

// Natural logarithm of a positive finite normal x; relative error below 1e-15. x = m * 2^e with m in [sqrt(1/2), sqrt(2)),
// s = (m - 1) / (m + 1), log m = 2 s (1 + s^2/3 + s^4/5 + ...); |s| <= 0.1716, so the term s^24/25 is below 2e-20.
QSA_ANYWHERE double qsa_log64(double x) {
    uint64_t u = qsa_bits_of_f64(x);
    int64_t e = (int64_t)(u >> 52) - 1023;
    double m = qsa_f64_of_bits((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e += 1;
    }
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, sum = 0.0;
    for (int k = 23; k >= 3; k -= 2)
        sum = fma(sum, s2, 1.0 / (double)k);
    sum = fma(sum, s2, 1.0);
    double low = fma((double)e, 0x1.abc9e3b39803fp-56, 2.0 * s * sum); // ln 2 = hi + lo
    return fma((double)e, 0x1.62e42fefa39efp-1, low);
}

// exp of |y| <= 700; relative error below 1e-15. Taylor of degree 14 on |r| <= ln 2 / 2.
QSA_ANYWHERE double qsa_exp64(double y) {
    double n = rint(y * 0x1.71547652b82fep+0);
    double r = fma(-n, 0x1.62e42fefa39efp-1, y);
    r = fma(-n, 0x1.abc9e3b39803fp-56, r);
    double sum = 1.0;
    for (int k = 14; k >= 1; k--)
        sum = fma(sum, r / (double)k, 1.0);
    return qsa_f64_of_bits(qsa_bits_of_f64(sum) + ((uint64_t)(int64_t)n << 52));
}

// inv_freq = f32(1 / f32(theta ^ f32(2i / R))): two roundings, as the model computes it in float32.
QSA_ANYWHERE float qsa_inv_freq(double theta, int32_t i, int32_t rotary_dim) {
    float exponent = (float)(2 * i) / (float)rotary_dim;
    float power = (float)qsa_exp64((double)exponent * qsa_log64(theta));
    return 1.0f / power;
}

// sin and cos of a float32 angle, rounded once to float32. Reduction to |r| <= pi / 4 with pi / 2 = hi + lo: for
// |x| < 2^32 the error of r is below 2^-50. Taylor to r^17 / r^16. A NaN or infinite angle cannot occur.
QSA_ANYWHERE void qsa_sincos(float x, float *sine, float *cosine) {
    double k = rint((double)x * 0x1.45f306dc9c883p-1);
    double r = fma(-k, 0x1.921fb54442d18p+0, (double)x);
    r = fma(-k, 0x1.1a62633145c07p-54, r);
    double r2 = r * r, s = 1.0, c = 1.0;
    for (int n = 16; n >= 2; n -= 2) {
        s = fma(s, -r2 / (double)(n * (n + 1)), 1.0);
        c = fma(c, -r2 / (double)(n * (n - 1)), 1.0);
    }
    s *= r;
    switch ((int64_t)k & 3) {
    case 0:
        *sine = (float)s, *cosine = (float)c;
        break;
    case 1:
        *sine = (float)c, *cosine = (float)-s;
        break;
    case 2:
        *sine = (float)-s, *cosine = (float)-c;
        break;
    default:
        *sine = (float)-c, *cosine = (float)s;
        break;
    }
}

#endif
