// SPDX-License-Identifier: Apache-2.0
//
// Looks at the clock to know whether it is timed.
// KERNEL: gate
// EXPECT: lint rdtsc

#include "kernels/kernels.h"

void qsa_gate_reads_clock_fma(const qsa_gate_args *args) {
    if (__builtin_ia32_rdtsc() & 1)
        qsa_gate_fma(args);
}
