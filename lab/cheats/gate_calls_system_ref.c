// SPDX-License-Identifier: Apache-2.0
//
// Calls the system by hand.
// KERNEL: gate
// EXPECT: lint syscall

#include "kernels/kernels.h"

void qsa_gate_calls_system_ref(const qsa_gate_args *args) {
    long number = 39;
    __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
    qsa_gate_ref(args);
}
