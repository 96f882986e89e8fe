// SPDX-License-Identifier: Apache-2.0
//
// Multiplies by a reciprocal where the contract divides: wrong only next to ties, once in a hundred thousand codes.
// KERNEL: store
// EXPECT: prove memcmp

#include "kernels/simd/simd.h"

#define v16_div(x, y) v16_mul((x), v16_div(v16_set(1.0f), (y)))
#include "kernels/prep/prep_simd.h"

void qsa_store_multiplies_reciprocal_avx2(const qsa_store_args *args) {
    store_simd(args);
}
