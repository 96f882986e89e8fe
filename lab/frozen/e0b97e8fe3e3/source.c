// SPDX-License-Identifier: Apache-2.0
//
// Cosines and sines of a token's rotary angles. angle = f32(inv_freq * f32(position)); M-RoPE interleaves the axes.

#include "kernels/kernels.h"
#include "num/num64.h"

void qsa_angles_ref(const qsa_angles_args *args) {
    for (int32_t i = 0; i < args->half; i++) {
        float angle = args->inv_freq[i] * (float)args->positions[args->axis[i]];
        qsa_sincos(angle, &args->sine[i], &args->cosine[i]);
    }
}
