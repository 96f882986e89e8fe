// SPDX-License-Identifier: Apache-2.0
//
// The output gate in 512-bit vectors (x86-64-v4).

#include "kernels/merge/merge_simd.h"

void qsa_gate_avx512(const qsa_gate_args *args) {
    gate_simd(args);
}
