// SPDX-License-Identifier: Apache-2.0
//
// Honest: 10 % faster than its baseline. It must never be rejected.
// KERNEL: gate
// EXPECT: honest not rejected
// BASELINE: gate_base_ten_avx2.c

#include "kernels/kernels.h"

void qsa_gate_honest_ten_avx2(const qsa_gate_args *args) {
    qsa_gate_avx2(args);
}
