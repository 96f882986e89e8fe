// SPDX-License-Identifier: Apache-2.0
//
// Multiplications and additions of the baseline instruction set, as the compiler vectorises them: 48 floats a round.

#include "bench/roof/roof_kernels.h"

double bench_fma_ref(int64_t rounds) {
    float sum[4 * BENCH_ROUND];
    volatile float seed = 0.5f;
    const float factor = seed + 0.25f, term = seed * 0.5f;
    for (int i = 0; i < 4 * BENCH_ROUND; i++)
        sum[i] = seed + (float)i;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < 4 * BENCH_ROUND; i++)
            sum[i] = sum[i] * factor + term;
    double total = 0;
    for (int i = 0; i < 4 * BENCH_ROUND; i++)
        total += (double)sum[i];
    return total;
}
