// SPDX-License-Identifier: Apache-2.0
//
// The row attend_amx with tiles in plain C and 256-bit vectors. Not for several threads at once.

#include "emulated/tiles.h"

#include "emulated/emulated.h"
#include "kernels/attend/attend_amx.h"

void qsa_attend_avx2_amx(const qsa_attend_args *args) {
    attend_amx(args, qsa_attend_avx2);
}
