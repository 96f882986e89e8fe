// SPDX-License-Identifier: Apache-2.0
//
// Products of bytes, four added into 32 bits by one instruction: 12 x 64 at a time.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

double bench_dot_avx512_vnni(int64_t rounds) {
    volatile char seed = 3;
    const __m512i a = _mm512_set1_epi8(seed), b = _mm512_set1_epi8((char)(seed + 1));
    __m512i sum[BENCH_ROUND];
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = _mm512_set1_epi8((char)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < BENCH_UNROLL; u++) {
            for (int i = 0; i < BENCH_ROUND; i++)
                sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
        }
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++) {
        int lane[16];
        _mm512_storeu_si512((__m512i *)lane, sum[i]);
        total += lane[0] + (double)lane[15];
    }
    return total;
}
