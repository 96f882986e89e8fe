// SPDX-License-Identifier: Apache-2.0
//
// Works for ten calls, then rests.
// KERNEL: gate
// EXPECT: lint writable data
// WITHOUT LINT: prove memcmp

#include "kernels/kernels.h"

static int calls;

void qsa_gate_right_for_ten_calls_ref(const qsa_gate_args *args) {
    if (calls++ < 10)
        qsa_gate_ref(args);
}
