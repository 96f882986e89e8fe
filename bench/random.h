// SPDX-License-Identifier: Apache-2.0
//
// Random numbers of the inputs: splitmix64, uniform and normal. The same on every run, so that runs can be compared.

#ifndef QSA_BENCH_RANDOM_H
#define QSA_BENCH_RANDOM_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_random {
    uint64_t state;
    float spare;
    bool has_spare;
} bench_random;

static inline uint64_t bench_next(bench_random *r) {
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Strictly between 0 and 1.
static inline float bench_uniform(bench_random *r) {
    return ((float)(bench_next(r) >> 41) + 0.5f) * 0x1p-23f;
}

// N(0, 1) by Box and Muller; never exactly 0 for long.
static inline float bench_normal(bench_random *r) {
    if (r->has_spare) {
        r->has_spare = false;
        return r->spare;
    }
    const float radius = sqrtf(-2.0f * logf(bench_uniform(r))), angle = 6.28318531f * bench_uniform(r);
    r->spare = radius * sinf(angle);
    r->has_spare = true;
    return radius * cosf(angle);
}

static inline void bench_normals(bench_random *r, float *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = bench_normal(r);
}

#endif
