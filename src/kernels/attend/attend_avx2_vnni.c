// SPDX-License-Identifier: Apache-2.0
//
// Class fast in 256-bit vectors with AVX-VNNI: vpdpwssd adds in the same instruction.

#include "kernels/attend/attend_i16.h"

void qsa_attend_avx2_vnni(const qsa_attend_args *args) {
    attend_i16(args, qsa_attend_avx2);
}
