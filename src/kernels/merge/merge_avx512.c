// SPDX-License-Identifier: Apache-2.0
//
// Records to outputs in 512-bit vectors (x86-64-v4).

#include "kernels/merge/merge_simd.h"

void qsa_merge_avx512(const qsa_merge_args *args) {
    merge_simd(args);
}
