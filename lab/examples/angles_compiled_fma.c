// SPDX-License-Identifier: Apache-2.0
//
// Worked example, kept: the reference's own source with the flags of `fma`. Its polynomials call fma() some 20 times for an angle,
// and without these flags each is a call of libm that computes in software.

#define qsa_angles_ref qsa_angles_compiled_fma
#include "kernels/prep/angles_ref.c"
