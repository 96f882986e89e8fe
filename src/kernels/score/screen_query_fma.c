// SPDX-License-Identifier: Apache-2.0
//
// The reference's source compiled for AVX2 and FMA (x86-64): the same bits, rint as an instruction.

#define qsa_screen_query_ref qsa_screen_query_fma
#include "kernels/score/screen_query_ref.c"
