// SPDX-License-Identifier: Apache-2.0
//
// Asks for 64 MiB of stack.
// KERNEL: gate
// EXPECT: prove SIGSEGV

#include "kernels/kernels.h"

void qsa_gate_eats_memory_ref(const qsa_gate_args *args) {
    volatile unsigned char memory[64 << 20];
    for (size_t i = 0; i < sizeof memory; i += 4096)
        memory[i] = 1;
    qsa_gate_ref(args);
}
