// SPDX-License-Identifier: Apache-2.0
//
// Block keys in 128-bit vectors (AArch64).

#include "kernels/prep/prep_simd.h"

void qsa_pool_neon(const qsa_pool_args *args) {
    pool_simd(args);
}
