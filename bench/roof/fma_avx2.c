// SPDX-License-Identifier: Apache-2.0
//
// 12 x 8 multiply-adds a round. Twelve independent sums: two units of latency four need eight.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

double bench_fma_avx2(int64_t rounds) {
    volatile float seed = 0.5f;
    const __m256 factor = _mm256_set1_ps(seed + 0.25f), term = _mm256_set1_ps(seed * 0.5f);
    __m256 sum[BENCH_ROUND];
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = _mm256_set1_ps(seed + (float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < BENCH_ROUND; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], factor, term);
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++) {
        float lane[8];
        _mm256_storeu_ps(lane, sum[i]);
        total += (double)lane[0] + (double)lane[8 - 1];
    }
    return total;
}
