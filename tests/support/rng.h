// SPDX-License-Identifier: Apache-2.0
//
// Deterministic random numbers for tests: splitmix64, so every seed is fine and a state is one
// word. The floats are made from integers with exact arithmetic only (no libm): the same seed gives
// the same bits on every machine.
#ifndef QSA_TESTS_RNG_H
#define QSA_TESTS_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t state;
} rng;

rng rng_make(uint64_t seed);

// 64 random bits.
uint64_t rng_u64(rng *r);

// An integer in 0 .. n-1 (n > 0); the bias is below n / 2^32.
uint32_t rng_below(rng *r, uint32_t n);

// An integer in low .. high, both included.
int32_t rng_range(rng *r, int32_t low, int32_t high);

// A multiple of 2^-53 in [0, 1).
double rng_uniform(rng *r);

// Mean 0, variance 1, bell-shaped, within +-6: twelve uniforms of 32 bits added, less 6.
double rng_normal(rng *r);

// n floats, rng_normal * scale rounded once.
void rng_fill_normal(rng *r, size_t n, double scale, float *out);

// n floats, uniform in [low, high).
void rng_fill_uniform(rng *r, size_t n, double low, double high, float *out);

// n random bytes: poison for memory that must not be read.
void rng_fill_bytes(rng *r, size_t n, void *out);

// A random order of 0 .. n-1.
void rng_shuffle(rng *r, int32_t n, int32_t *out);

#endif
