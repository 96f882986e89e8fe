// SPDX-License-Identifier: Apache-2.0
//
// Block keys in 512-bit vectors (x86-64-v4).

#include "kernels/prep/prep_simd.h"

void qsa_pool_avx512(const qsa_pool_args *args) {
    pool_simd(args);
}
