// SPDX-License-Identifier: Apache-2.0
//
// Products of 16-bit integers added in 32 bits, as the compiler vectorises them for the baseline: 96 at a time.

#include "bench/roof/roof_kernels.h"

enum { TERMS = 8 * BENCH_ROUND };

double bench_dot_ref(int64_t rounds) {
    int16_t a[TERMS] = {0}, b[TERMS] = {0};
    uint32_t sum[TERMS / 2] = {0};
    volatile int16_t seed = 3;
    for (int i = 0; i < TERMS; i++) {
        a[i] = (int16_t)(seed + i);
        b[i] = (int16_t)(seed - i);
    }
    for (int64_t r = 0; r < rounds; r++) {
        a[r % TERMS] = (int16_t)(a[r % TERMS] ^ 1); // products of one round are no products of the next
        for (int i = 0; i < TERMS / 2; i++)
            sum[i] += (uint32_t)(a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1]);
    }
    uint32_t total = 0;
    for (int i = 0; i < TERMS / 2; i++)
        total += sum[i];
    return total;
}
