// SPDX-License-Identifier: Apache-2.0
//
// Products of 16-bit integers, pairs added: 12 x 32 at a time. 3 x 4 operands, as a tile of a matrix product has them; they are
// made opaque once a round, or the compiler would multiply before the loop and only add in it.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

double bench_dot_avx512(int64_t rounds) {
    volatile short seed = 3;
    __m512i a[3], b[4], sum[BENCH_ROUND];
    for (int i = 0; i < 3; i++)
        a[i] = _mm512_set1_epi16((short)(seed + i));
    for (int i = 0; i < 4; i++)
        b[i] = _mm512_set1_epi16((short)(seed - i));
    for (int i = 0; i < BENCH_ROUND; i++)
        sum[i] = _mm512_set1_epi16((short)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int u = 0; u < BENCH_UNROLL; u++) {
            for (int i = 0; i < 3; i++)
                BENCH_OPAQUE(a[i]);
            for (int i = 0; i < BENCH_ROUND; i++)
                sum[i] = _mm512_add_epi32(sum[i], _mm512_madd_epi16(a[i % 3], b[i % 4]));
        }
    double total = 0;
    for (int i = 0; i < BENCH_ROUND; i++) {
        int lane[16];
        _mm512_storeu_si512((__m512i *)lane, sum[i]);
        total += lane[0] + (double)lane[15];
    }
    return total;
}
