// SPDX-License-Identifier: Apache-2.0
//
// Worked example, rejected: codes by a product with 1 / scale, computed once for a group of 64, instead of 64 divisions. Two roundings
// in place of one: next to a tie the code is another one.

#include "kernels/simd/simd.h"

#define v16_div(x, y) v16_mul((x), v16_div(v16_set(1.0f), (y)))
#include "kernels/prep/prep_simd.h"

void qsa_store_reciprocal_avx2(const qsa_store_args *args) {
    store_simd(args);
}
