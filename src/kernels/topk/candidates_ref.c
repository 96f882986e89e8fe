// SPDX-License-Identifier: Apache-2.0
//
// Candidates: the groups' largest lower bounds, the take-th best of them, and every block whose upper bound may reach it.

#include "kernels/kernels.h"

#include <assert.h>

void qsa_candidates_ref(const qsa_candidates_args *args) {
    assert(args->take >= 1 && args->take <= args->groups && args->groups <= args->blocks);
    for (int32_t b = args->groups; b < args->blocks; b++) {
        float *largest = &args->lower[b % args->groups];
        *largest = args->lower[b] > *largest ? args->lower[b] : *largest;
    }
    int32_t last;
    const qsa_topk_args best = {args->lower, args->groups, args->take, args->chosen, &last};
    qsa_topk_ref(&best);
    const float bar = qsa_candidate_bar(args->lower[args->chosen[last]]);
    int32_t count = 0;
    for (int32_t b = 0; b < args->blocks; b++)
        if (!(args->upper[b] < bar))
            args->ids[count++] = b;
    *args->count = count;
}
