// SPDX-License-Identifier: Apache-2.0
//
// The reference's source compiled for AVX2 and FMA (x86-64): the same bits, rint as an instruction.

#define qsa_screen_key_ref qsa_screen_key_fma
#include "kernels/prep/screen_key_ref.c"
