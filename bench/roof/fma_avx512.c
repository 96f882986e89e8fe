// SPDX-License-Identifier: Apache-2.0
//
// 12 x 16 multiply-adds a round. Twelve independent sums: two units of latency four need eight.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

double bench_fma_avx512(int64_t rounds) {
    volatile float seed = 0.5f;
    const __m512 factor = _mm512_set1_ps(seed + 0.25f), term = _mm512_set1_ps(seed * 0.5f);
    __m512 sum[BENCH_ROUND];
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = _mm512_set1_ps(seed + (float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < BENCH_ROUND; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], factor, term);
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++) {
        float lane[16];
        _mm512_storeu_ps(lane, sum[i]);
        total += (double)lane[0] + (double)lane[16 - 1];
    }
    return total;
}
