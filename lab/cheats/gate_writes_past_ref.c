// SPDX-License-Identifier: Apache-2.0
//
// Touches the byte behind the output, and leaves it as it was.
// KERNEL: gate
// EXPECT: prove SIGSEGV

#include "kernels/kernels.h"

void qsa_gate_writes_past_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    if (args->out_stride >= 0) {
        volatile unsigned char *end = (unsigned char *)args->out + (args->heads - 1) * args->out_stride;
        end += (size_t)args->dim * (args->out_type == QSA_F32 ? 4 : 2);
        const unsigned char same = *end;
        *end = same;
    }
}
