// SPDX-License-Identifier: Apache-2.0
//
// Block keys in 256-bit vectors (x86-64-v3).

#include "kernels/prep/prep_simd.h"

void qsa_pool_avx2(const qsa_pool_args *args) {
    pool_simd(args);
}
