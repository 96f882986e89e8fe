// SPDX-License-Identifier: Apache-2.0
//
// Wants more of the system than a kernel needs.
// KERNEL: gate
// EXPECT: lint unistd.h

#include "kernels/kernels.h"

#include <unistd.h>

void qsa_gate_includes_system_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
}
