// SPDX-License-Identifier: Apache-2.0
//
// No cheat: the gate with a tenth of its work done twice, which a plain gate beats by 10 %.
// KERNEL: gate
// EXPECT: baseline

#include "kernels/kernels.h"

void qsa_gate_base_ten_avx2(const qsa_gate_args *args) {
    qsa_gate_args more = *args;
    qsa_gate_avx2(args);
    if (args->x == args->out)
        return; // in place: once is enough
    more.heads = args->heads / 12;
    if (more.heads > 0)
        qsa_gate_avx2(&more);
    more.heads = 1;
    more.dim = args->heads * args->dim / 10 - args->heads / 12 * args->dim;
    if (more.dim > 0 && more.dim <= args->dim)
        qsa_gate_avx2(&more);
}
