// SPDX-License-Identifier: Apache-2.0
//
// Runs code when it is loaded, before anybody looks.
// KERNEL: gate
// EXPECT: lint runs code when it is loaded

#include "kernels/kernels.h"

__attribute__((constructor)) static void first(void) {
    volatile int here = 1;
    (void)here;
}

void qsa_gate_runs_before_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
}
