// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes, four added into 32 bits by one instruction: 12 x 32 at a time.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

double bench_dot_avx2_vnni(int64_t rounds) {
    volatile char seed = 3;
    const __m256i a = _mm256_set1_epi8(seed), b = _mm256_set1_epi8((char)(seed + 1));
    __m256i sum[BENCH_ROUND];
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = _mm256_set1_epi8((char)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < BENCH_UNROLL; u++) {
            for (int i = 0; i < BENCH_ROUND; i++)
                sum[i] = _mm256_dpbusd_avx_epi32(sum[i], a, b);
        }
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++) {
        int lane[8];
        _mm256_storeu_si256((__m256i *)lane, sum[i]);
        total += lane[0] + (double)lane[7];
    }
    return total;
}
