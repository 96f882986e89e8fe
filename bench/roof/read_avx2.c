// SPDX-License-Identifier: Apache-2.0
//
// Reads 32 bytes at a time into eight accumulators.

#include "bench/roof/roof_kernels.h"

#include <immintrin.h>

enum { WIDTH = 32, STREAMS = 8 };

uint64_t bench_read_avx2(const void *memory, size_t bytes) {
    const unsigned char *p = memory;
    __m256i sum[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        sum[k] = _mm256_setzero_si256();
    for (size_t at = 0; at < bytes; at += (size_t)WIDTH * STREAMS)
        for (int k = 0; k < STREAMS; k++)
            sum[k] = _mm256_xor_si256(sum[k], _mm256_load_si256((const __m256i *)(p + at + (size_t)k * WIDTH)));
    for (int k = 1; k < STREAMS; k++)
        sum[0] = _mm256_xor_si256(sum[0], sum[k]);
    uint64_t lane[WIDTH / 8], total = 0;
    _mm256_storeu_si256((__m256i *)lane, sum[0]);
    for (int k = 0; k < WIDTH / 8; k++)
        total ^= lane[k];
    return total;
}
