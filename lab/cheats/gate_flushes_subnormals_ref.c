// SPDX-License-Identifier: Apache-2.0
//
// Writes 0 where a subnormal number is right.
// KERNEL: gate
// EXPECT: prove memcmp

#include "kernels/kernels.h"

#include <string.h>

void qsa_gate_flushes_subnormals_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    for (int32_t h = 0; args->out_type == QSA_F32 && h < args->heads; h++)
        for (int32_t d = 0; d < args->dim; d++) {
            unsigned char *at = (unsigned char *)args->out + h * args->out_stride + (int64_t)d * 4;
            uint32_t bits;
            memcpy(&bits, at, sizeof bits);
            bits &= bits << 1 < 0x01000000u ? 0x80000000u : 0xffffffffu;
            memcpy(at, &bits, sizeof bits);
        }
}
