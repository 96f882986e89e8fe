// SPDX-License-Identifier: Apache-2.0
//
// Candidates in vectors: folding to groups leaves the radix select a fraction of the bounds (a threshold that is a little
// lower costs fewer candidates than selecting among all blocks costs time), and most blocks fail the scan sixteen at a time.

#ifndef QSA_KERNELS_TOPK_CANDIDATES_SIMD_H
#define QSA_KERNELS_TOPK_CANDIDATES_SIMD_H

#include "kernels/topk/topk_simd.h"

QSA_INLINE void fold_groups(const qsa_candidates_args *args) {
    for (int32_t start = args->groups; start < args->blocks; start += args->groups) {
        const int32_t rest = args->blocks - start, n = rest < args->groups ? rest : args->groups;
        const float *from = args->lower + start;
        int32_t i = 0;
        for (; i + 16 <= n; i += 16)
            v16_store(args->lower + i, v16_max(v16_load(from + i), v16_load(args->lower + i)));
        for (; i < n; i++)
            args->lower[i] = from[i] > args->lower[i] ? from[i] : args->lower[i];
        if (rest <= args->groups)
            break; // start + groups may not fit
    }
}

QSA_INLINE void candidates_simd(const qsa_candidates_args *args) {
    fold_groups(args);
    int32_t last = 0;
    const qsa_topk_args best = {args->lower, args->groups, args->take, args->chosen, &last};
    topk_simd(&best);
    const float bar = qsa_candidate_bar(args->lower[args->chosen[last]]);
    int32_t count = 0, b = 0;
    for (; b + 16 <= args->blocks; b += 16) // no NaN: at least the bar is not below it
        for (uint32_t mask = v16_at_least(v16_load(args->upper + b), v16_set(bar)); mask; mask &= mask - 1)
            args->ids[count++] = b + __builtin_ctz(mask);
    for (; b < args->blocks; b++)
        if (!(args->upper[b] < bar))
            args->ids[count++] = b;
    *args->count = count;
}

#endif
