// SPDX-License-Identifier: Apache-2.0
//
// The reference's source compiled for AVX2 and FMA (x86-64): the same bits.

#define qsa_screen_ref qsa_screen_fma
#include "kernels/score/screen_ref.c"
