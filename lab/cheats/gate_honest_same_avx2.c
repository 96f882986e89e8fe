// SPDX-License-Identifier: Apache-2.0
//
// Honest: the same kernel. It must pass the proof and never be kept.
// KERNEL: gate
// EXPECT: honest not kept
// BASELINE: avx2

#include "kernels/kernels.h"

void qsa_gate_honest_same_avx2(const qsa_gate_args *args) {
    qsa_gate_avx2(args);
}
