// SPDX-License-Identifier: Apache-2.0
//
// The total order of scores as unsigned integers: NaN (0) below -inf ... -0 = +0 ... +inf.

#ifndef QSA_KERNELS_TOPK_KEY_H
#define QSA_KERNELS_TOPK_KEY_H

#include "num/num.h"

QSA_ANYWHERE uint32_t qsa_score_key(float score) {
    if (score != score)
        return 0;
    uint32_t u = qsa_bits_of_f32(score + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

// The score of a key that some score has; key 0 gives NaN.
QSA_ANYWHERE float qsa_score_of_key(uint32_t key) {
    return key & 0x80000000u ? qsa_f32_of_bits(key ^ 0x80000000u) : key ? qsa_f32_of_bits(~key) : qsa_nan();
}

#endif
