// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes, pairs added into 32 bits: 12 x 8 at a time (a multiplication and a pairwise addition each). The operands
// are made opaque, or the compiler would multiply before the loop and only add in it.

#include "bench/roof/roof_kernels.h"

#include <arm_neon.h>

double bench_dot_neon(int64_t rounds) {
    volatile int8_t seed = 3;
    int8x8_t a[3], b[4];
    int32x4_t sum[BENCH_ROUND];
    for (int i = 0; i < 3; i++)
        a[i] = vdup_n_s8((int8_t)(seed + i));
    for (int i = 0; i < 4; i++)
        b[i] = vdup_n_s8((int8_t)(seed - i));
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = vdupq_n_s32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < BENCH_UNROLL; u++) {
            for (int i = 0; i < 3; i++)
                BENCH_OPAQUE(a[i]);
            for (int i = 0; i < BENCH_ROUND; i++)
                sum[i] = vpadalq_s16(sum[i], vmull_s8(a[i % 3], b[i % 4]));
        }
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++)
        total += vgetq_lane_s32(sum[i], 0) + (double)vgetq_lane_s32(sum[i], 3);
    return total;
}
