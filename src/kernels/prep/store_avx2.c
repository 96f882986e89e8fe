// SPDX-License-Identifier: Apache-2.0
//
// Rows into the cache's format in 256-bit vectors (x86-64-v3).

#include "kernels/prep/prep_simd.h"

void qsa_store_avx2(const qsa_store_args *args) {
    store_simd(args);
}
