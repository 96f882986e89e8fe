// SPDX-License-Identifier: Apache-2.0
//
// The output gate in 128-bit vectors (AArch64).

#include "kernels/merge/merge_simd.h"

void qsa_gate_neon(const qsa_gate_args *args) {
    gate_simd(args);
}
