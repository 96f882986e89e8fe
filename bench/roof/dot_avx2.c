// SPDX-License-Identifier: Apache-2.0
//
// Products of 16-bit integers, pairs added: 12 x 16 at a time. 2 x 3 operands and 6 sums, twice: 16 registers hold no
// more. The operands are made opaque, or the compiler would multiply before the loop and only add in it.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

enum { SUMS = BENCH_ROUND / 2 };

double bench_dot_avx2(int64_t rounds) {
    volatile short seed = 3;
    __m256i a[2], b[3], sum[SUMS];
    for (int i = 0; i < 2; i++)
        a[i] = _mm256_set1_epi16((short)(seed + i));
    for (int i = 0; i < 3; i++)
        b[i] = _mm256_set1_epi16((short)(seed - i));
    for (int i = 0; i < SUMS; i++)
        sum[i] = _mm256_set1_epi16((short)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < 2 * BENCH_UNROLL; u++) {
            BENCH_OPAQUE(a[0]);
            BENCH_OPAQUE(a[1]);
            for (int i = 0; i < SUMS; i++)
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(a[i % 2], b[i % 3]));
        }
    double total = 0;
    for (int i = 0; i < SUMS; i++) {
        int lane[8];
        _mm256_storeu_si256((__m256i *)lane, sum[i]);
        total += lane[0] + (double)lane[7];
    }
    return total;
}
