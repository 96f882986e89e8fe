// SPDX-License-Identifier: Apache-2.0
//
// Multiplies a cell that is not selected by zero: right until its memory holds a NaN.
// KERNEL: attend
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_attend_uses_unselected_ref(const qsa_attend_args *args) {
    qsa_attend_ref(args);
    if (args->format != QSA_F32)
        return;
    int32_t low = args->cells[0], high = low;
    for (int32_t i = 0; i < args->count; i++) {
        low = args->cells[i] < low ? args->cells[i] : low;
        high = args->cells[i] > high ? args->cells[i] : high;
    }
    for (int32_t row = low; row < high; row++) {
        int selected = 0;
        for (int32_t i = 0; i < args->count; i++)
            selected |= args->cells[i] == row;
        for (int32_t d = 0; !selected && d < args->dim; d++)
            args->records[2 + d] += 0.0f * ((const float *)args->v)[(int64_t)row * args->dim + d];
    }
}
