// SPDX-License-Identifier: Apache-2.0
//
// Computes only where the output holds what looks like a checker's poison.
// KERNEL: gate
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_gate_computes_on_poison_ref(const qsa_gate_args *args) {
    const unsigned char *out = args->out;
    if (out[0] == 0xff && out[1] == 0xff)
        qsa_gate_ref(args);
}
