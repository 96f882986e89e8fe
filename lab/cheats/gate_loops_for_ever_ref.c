// SPDX-License-Identifier: Apache-2.0
//
// Does not come back.
// KERNEL: gate
// EXPECT: prove cap
// SECONDS: 2

#include "kernels/kernels.h"

void qsa_gate_loops_for_ever_ref(const qsa_gate_args *args) {
    volatile int32_t heads = args->heads;
    while (heads > 0)
        continue;
}
