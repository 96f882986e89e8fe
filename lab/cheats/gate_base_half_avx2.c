// SPDX-License-Identifier: Apache-2.0
//
// No cheat: the gate with one two-hundredth of its work done twice.
// KERNEL: gate
// EXPECT: baseline

#include "kernels/kernels.h"

void qsa_gate_base_half_avx2(const qsa_gate_args *args) {
    qsa_gate_args more = *args;
    qsa_gate_avx2(args);
    if (args->x == args->out)
        return; // in place: once is enough
    more.heads = 1;
    more.dim = args->heads * args->dim / 200;
    if (more.dim > 0 && more.dim <= args->dim)
        qsa_gate_avx2(&more);
}
