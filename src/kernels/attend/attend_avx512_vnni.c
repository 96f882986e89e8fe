// SPDX-License-Identifier: Apache-2.0
//
// Class fast in 512-bit vectors with AVX512-VNNI: vpdpwssd adds in the same instruction.

#include "kernels/attend/attend_i16.h"

void qsa_attend_avx512_vnni(const qsa_attend_args *args) {
    attend_i16(args, qsa_attend_avx512);
}
