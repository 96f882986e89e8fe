// SPDX-License-Identifier: Apache-2.0
//
// Rows into the cache's format in 128-bit vectors (AArch64).

#include "kernels/prep/prep_simd.h"

void qsa_store_neon(const qsa_store_args *args) {
    store_simd(args);
}
