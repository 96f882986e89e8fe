// SPDX-License-Identifier: Apache-2.0
//
// Takes the higher block of two with one score.
// KERNEL: topk
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_topk_reverses_ties_ref(const qsa_topk_args *args) {
    qsa_topk_ref(args);
    const int32_t last = *args->last, block = args->ids[last];
    const int32_t end = last + 1 < args->take ? args->ids[last + 1] : args->blocks;
    for (int32_t b = block + 1; b < end; b++)
        if (args->scores[b] == args->scores[block])
            args->ids[last] = b;
}
