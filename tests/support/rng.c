// SPDX-License-Identifier: Apache-2.0
//
// splitmix64 (Steele, Lea, Flood 2014) and floats made from its integers.
#include "rng.h"

rng rng_make(uint64_t seed) {
    return (rng){seed};
}

uint64_t rng_u64(rng *r) {
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(rng *r, uint32_t n) {
    return (uint32_t)(((rng_u64(r) >> 32) * n) >> 32);
}

int32_t rng_range(rng *r, int32_t low, int32_t high) {
    uint64_t span = (uint64_t)((int64_t)high - low) + 1;
    return (int32_t)(low + (int64_t)(((rng_u64(r) >> 32) * span) >> 32));
}

double rng_uniform(rng *r) {
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

double rng_normal(rng *r) {
    uint64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t bits = rng_u64(r);
        sum += (bits >> 32) + (bits & 0xffffffff);
    }
    // Twelve integers below 2^32: the sum has 36 bits, the difference is exact.
    return (double)sum * 0x1p-32 - 6.0;
}

void rng_fill_normal(rng *r, size_t n, double scale, float *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)(rng_normal(r) * scale);
    }
}

void rng_fill_uniform(rng *r, size_t n, double low, double high, float *out) {
    for (size_t i = 0; i < n; i++) {
        float x = (float)(low + (high - low) * rng_uniform(r));
        out[i] = x < (float)high ? x : (float)low;
    }
}

void rng_fill_bytes(rng *r, size_t n, void *out) {
    unsigned char *bytes = out;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)(rng_u64(r) >> 56);
    }
}

void rng_shuffle(rng *r, int32_t n, int32_t *out) {
    for (int32_t i = 0; i < n; i++) {
        int32_t j = (int32_t)rng_below(r, (uint32_t)i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}
