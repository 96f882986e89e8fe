// SPDX-License-Identifier: Apache-2.0
//
// Class fast in 256-bit vectors (x86-64-v3): vpmaddwd and vpaddd.

#include "kernels/attend/attend_i16.h"

void qsa_attend_avx2_i16(const qsa_attend_args *args) {
    attend_i16(args, qsa_attend_avx2);
}
