// SPDX-License-Identifier: Apache-2.0
//
// Leaves the last head out.
// KERNEL: attend
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_attend_skips_last_head_ref(const qsa_attend_args *args) {
    qsa_attend_args less = *args;
    less.heads--;
    if (less.heads > 0)
        qsa_attend_ref(&less);
}
