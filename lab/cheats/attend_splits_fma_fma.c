// SPDX-License-Identifier: Apache-2.0
//
// Rounds a product before it is added, where the contract has one rounding.
// KERNEL: attend
// EXPECT: prove memcmp

#define fmaf(a, b, c)  ((a) * (b) + (c))
#define qsa_attend_ref qsa_attend_splits_fma_fma
#include "kernels/attend/attend_ref.c"
