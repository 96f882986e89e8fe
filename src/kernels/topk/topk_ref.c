// SPDX-License-Identifier: Apache-2.0
//
// Radix select: four passes of eight bits find the key of the `take`-th best score and how many scores above it there
// are; then one ascending pass takes those above and the lowest blocks of equal key. Any number of ties is exact.

#include "kernels/kernels.h"
#include "kernels/topk/key.h"

#include <assert.h>

void qsa_topk_ref(const qsa_topk_args *args) {
    assert(args->take >= 1 && args->take <= args->blocks);
    uint32_t prefix = 0;
    int32_t wanted = args->take; // blocks still to be taken among those whose key starts with prefix
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t histogram[256] = {0};
        for (int32_t b = 0; b < args->blocks; b++) {
            uint32_t key = qsa_score_key(args->scores[b]);
            if (((uint64_t)(key ^ prefix) >> (shift + 8)) == 0)
                histogram[key >> shift & 255u]++;
        }
        uint32_t digit = 255;
        while (histogram[digit] < wanted)
            wanted -= histogram[digit--];
        prefix |= digit << shift;
    }
    int32_t taken = 0;
    for (int32_t b = 0; b < args->blocks && taken < args->take; b++) {
        uint32_t key = qsa_score_key(args->scores[b]);
        if (key < prefix || (key == prefix && wanted == 0))
            continue;
        if (key == prefix) {
            wanted--;
            *args->last = taken; // the highest block of the lowest key so far
        }
        args->ids[taken++] = b;
    }
}
