// SPDX-License-Identifier: Apache-2.0
//
// Reads 16 bytes at a time into eight accumulators.

#include "bench/roof/roof_kernels.h"

#include <arm_neon.h>

enum { WIDTH = 16, STREAMS = 8 };

uint64_t bench_read_neon(const void *memory, size_t bytes) {
    const unsigned char *p = memory;
    uint8x16_t sum[STREAMS];
    for (int k = 0; k < STREAMS; k++)
        sum[k] = vdupq_n_u8(0);
    for (size_t at = 0; at < bytes; at += (size_t)WIDTH * STREAMS)
        for (int k = 0; k < STREAMS; k++)
            sum[k] = veorq_u8(sum[k], vld1q_u8(p + at + (size_t)k * WIDTH));
    for (int k = 1; k < STREAMS; k++)
        sum[0] = veorq_u8(sum[0], sum[k]);
    uint64_t lane[WIDTH / 8], total = 0;
    vst1q_u8((uint8_t *)lane, sum[0]);
    for (int k = 0; k < WIDTH / 8; k++)
        total ^= lane[k];
    return total;
}
