// SPDX-License-Identifier: Apache-2.0
//
// 24 x 4 multiply-adds a round. Wide cores have four units of latency four, so sixteen sums are needed at least.

#include "bench/roof/roof_kernels.h"

#include <arm_neon.h>

double bench_fma_neon(int64_t rounds) {
    volatile float seed = 0.5f;
    const float32x4_t factor = vdupq_n_f32(seed + 0.25f), term = vdupq_n_f32(seed * 0.5f);
    float32x4_t sum[2 * BENCH_ROUND];
    for (int i = 0; i < 2 * BENCH_ROUND; i++)
        sum[i] = vdupq_n_f32(seed + (float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 2 * BENCH_ROUND; i++)
            sum[i] = vfmaq_f32(sum[i], factor, term);
    double total = 0;
    for (int i = 0; i < 2 * BENCH_ROUND; i++)
        total += (double)vaddvq_f32(sum[i]);
    return total;
}
