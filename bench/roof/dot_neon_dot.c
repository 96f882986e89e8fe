// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes, four added into 32 bits by one instruction (the extension dotprod): 12 x 16 at a time.

#include "bench/roof/roof_kernels.h"

#include <arm_neon.h>

double bench_dot_neon_dot(int64_t rounds) {
    volatile int8_t seed = 3;
    const int8x16_t a = vdupq_n_s8(seed), b = vdupq_n_s8((int8_t)(seed + 1));
    int32x4_t sum[BENCH_ROUND];
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = vdupq_n_s32(i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < BENCH_UNROLL; u++) {
            for (int i = 0; i < BENCH_ROUND; i++)
                sum[i] = vdotq_s32(sum[i], a, b);
        }
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++)
        total += vgetq_lane_s32(sum[i], 0) + (double)vgetq_lane_s32(sum[i], 3);
    return total;
}
