// SPDX-License-Identifier: Apache-2.0
//
// The output gate alone: x * sigmoid(gate), the same bits as inside merge.

#include "kernels/kernels.h"
#include "num/load.h"

void qsa_gate_ref(const qsa_gate_args *args) {
    for (int32_t h = 0; h < args->heads; h++) {
        const unsigned char *x = (const unsigned char *)args->x + h * args->x_stride;
        const unsigned char *gate = (const unsigned char *)args->gate + h * args->gate_stride;
        unsigned char *out = (unsigned char *)args->out + h * args->out_stride;
        for (int32_t d = 0; d < args->dim; d++) {
            float value = qsa_load(x, args->x_type, d) * qsa_sigmoid(qsa_load(gate, args->gate_type, d));
            qsa_put(out, args->out_type, d, value);
        }
    }
}
