// SPDX-License-Identifier: Apache-2.0
//
// Works as long as a proof lasts, and rests while it is timed.
// KERNEL: gate
// EXPECT: lint writable data
// WITHOUT LINT: time other bytes

#include "kernels/kernels.h"

static int calls;

void qsa_gate_right_for_the_proof_ref(const qsa_gate_args *args) {
    if (calls++ < 2000)
        qsa_gate_ref(args);
}
