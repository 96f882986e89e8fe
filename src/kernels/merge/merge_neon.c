// SPDX-License-Identifier: Apache-2.0
//
// Records to outputs in 128-bit vectors (AArch64).

#include "kernels/merge/merge_simd.h"

void qsa_merge_neon(const qsa_merge_args *args) {
    merge_simd(args);
}
