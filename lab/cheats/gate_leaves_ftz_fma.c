// SPDX-License-Identifier: Apache-2.0
//
// Leaves flush-to-zero on.
// KERNEL: gate
// EXPECT: prove FP control word

#include "kernels/kernels.h"

#include <immintrin.h>

void qsa_gate_leaves_ftz_fma(const qsa_gate_args *args) {
    qsa_gate_fma(args);
    _mm_setcsr(_mm_getcsr() | 0x8000);
}
