// SPDX-License-Identifier: Apache-2.0
//
// Changes its arguments for the call after it.
// KERNEL: gate
// EXPECT: prove arguments

#include "kernels/kernels.h"

void qsa_gate_edits_arguments_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    ((qsa_gate_args *)(uintptr_t)args)->heads = args->heads > 1 ? args->heads - 1 : 1;
}
