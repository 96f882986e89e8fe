// SPDX-License-Identifier: Apache-2.0
//
// Is right only where its input is aligned.
// KERNEL: gate
// EXPECT: prove SIGSEGV

#include "kernels/kernels.h"

#include <immintrin.h>

void qsa_gate_wants_alignment_fma(const qsa_gate_args *args) {
    qsa_gate_fma(args);
    for (int32_t h = 0; args->dim >= 8 && args->x_type == QSA_F32 && h < args->heads; h++) {
        volatile __m256 x = _mm256_load_ps((const float *)(const void *)((const char *)args->x + h * args->x_stride));
        (void)x;
    }
}
