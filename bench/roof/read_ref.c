// SPDX-License-Identifier: Apache-2.0
//
// Reads 8 bytes at a time, as the compiler vectorises it for the baseline.

#include "bench/roof/roof_kernels.h"

uint64_t bench_read_ref(const void *memory, size_t bytes) {
    const uint64_t *word = memory;
    uint64_t sum[16] = {0};
    for (size_t i = 0; i < bytes / 8; i += 16)
        for (size_t k = 0; k < 16; k++)
            sum[k] ^= word[i + k];
    uint64_t total = 0;
    for (int k = 0; k < 16; k++)
        total ^= sum[k];
    return total;
}
