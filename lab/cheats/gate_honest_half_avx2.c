// SPDX-License-Identifier: Apache-2.0
//
// Honest: 0.5 % faster than its baseline. It must never be kept.
// KERNEL: gate
// EXPECT: honest not kept
// BASELINE: gate_base_half_avx2.c

#include "kernels/kernels.h"

void qsa_gate_honest_half_avx2(const qsa_gate_args *args) {
    qsa_gate_avx2(args);
}
