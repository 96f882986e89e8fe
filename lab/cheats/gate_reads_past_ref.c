// SPDX-License-Identifier: Apache-2.0
//
// Reads a byte before an input and throws it away.
// KERNEL: gate
// EXPECT: prove SIGSEGV

#include "kernels/kernels.h"

void qsa_gate_reads_past_ref(const qsa_gate_args *args) {
    const volatile unsigned char *x = args->x;
    qsa_gate_ref(args);
    if (args->x_stride >= 0)
        (void)x[-1];
}
