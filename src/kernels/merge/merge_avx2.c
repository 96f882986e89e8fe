// SPDX-License-Identifier: Apache-2.0
//
// Records to outputs in 256-bit vectors (x86-64-v3).

#include "kernels/merge/merge_simd.h"

void qsa_merge_avx2(const qsa_merge_args *args) {
    merge_simd(args);
}
