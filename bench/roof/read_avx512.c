// SPDX-License-Identifier: Apache-2.0
//
// Reads 64 bytes at a time into eight accumulators.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

enum { WIDTH = 64, STREAMS = 8 };

uint64_t bench_read_avx512(const void *memory, size_t bytes) {
    const unsigned char *p = memory;
    __m512i sum[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        sum[k] = _mm512_setzero_si512();
    for (size_t at = 0; at < bytes; at += (size_t)WIDTH * STREAMS)
        for (int k = 0; k < STREAMS; k++)
            sum[k] = _mm512_xor_si512(sum[k], _mm512_load_si512(p + at + (size_t)k * WIDTH));
    for (int k = 1; k < STREAMS; k++)
        sum[0] = _mm512_xor_si512(sum[0], sum[k]);
    uint64_t lane[WIDTH / 8], total = 0;
    _mm512_storeu_si512(lane, sum[0]);
    for (int k = 0; k < WIDTH / 8; k++)
        total ^= lane[k];
    return total;
}
