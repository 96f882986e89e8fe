// SPDX-License-Identifier: Apache-2.0
//
// Rows into the cache's format in 512-bit vectors (x86-64-v4).

#include "kernels/prep/prep_simd.h"

void qsa_store_avx512(const qsa_store_args *args) {
    store_simd(args);
}
