// SPDX-License-Identifier: Apache-2.0
//
// Class fast on AMX-INT8 tiles, the rest in 512-bit vectors (x86-64-v4).

#include "kernels/attend/attend_amx.h"

void qsa_attend_amx(const qsa_attend_args *args) {
    attend_amx(args, qsa_attend_avx512);
}
