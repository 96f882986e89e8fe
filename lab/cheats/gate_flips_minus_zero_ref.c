// SPDX-License-Identifier: Apache-2.0
//
// Writes +0 where -0 is right.
// KERNEL: gate
// EXPECT: prove memcmp

#include "kernels/kernels.h"

#include <string.h>

void qsa_gate_flips_minus_zero_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    for (int32_t h = 0; args->out_type == QSA_F32 && h < args->heads; h++)
        for (int32_t d = 0; d < args->dim; d++) {
            unsigned char *at = (unsigned char *)args->out + h * args->out_stride + (int64_t)d * 4;
            float x;
            memcpy(&x, at, sizeof x);
            x = x + 0.0f;
            memcpy(at, &x, sizeof x);
        }
}
