// SPDX-License-Identifier: Apache-2.0
//
// Writes nothing: right where the outputs still hold an answer.
// KERNEL: gate
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_gate_writes_nothing_ref(const qsa_gate_args *args) {
    (void)args;
}
