// SPDX-License-Identifier: Apache-2.0
//
// Writes to an input, the same byte that was there.
// KERNEL: gate
// EXPECT: prove SIGSEGV

#include "kernels/kernels.h"

void qsa_gate_edits_input_ref(const qsa_gate_args *args) {
    volatile unsigned char *gate = (unsigned char *)(uintptr_t)args->gate;
    qsa_gate_ref(args);
    const unsigned char same = *gate;
    *gate = same;
}
