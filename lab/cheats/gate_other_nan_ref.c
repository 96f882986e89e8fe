// SPDX-License-Identifier: Apache-2.0
//
// Keeps a NaN's sign, where the contract has one NaN.
// KERNEL: gate
// EXPECT: prove memcmp

#include "kernels/kernels.h"

#include <string.h>

void qsa_gate_other_nan_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    for (int32_t h = 0; args->out_type == QSA_F32 && h < args->heads; h++)
        for (int32_t d = 0; d < args->dim; d++) {
            unsigned char *at = (unsigned char *)args->out + h * args->out_stride + (int64_t)d * 4;
            uint32_t bits;
            memcpy(&bits, at, sizeof bits);
            bits |= (bits & 0x7fffffffu) > 0x7f800000u ? 0x80000000u : 0;
            memcpy(at, &bits, sizeof bits);
        }
}
