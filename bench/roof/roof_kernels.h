// SPDX-License-Identifier: Apache-2.0
//
// Loops that do one thing as fast as the machine can: multiply-adds in float32, integer dot products, reads. A file is
// named <what>_<where>.c and gets the compiler flags of its `where`, as the library's kernels do.

#ifndef QSA_BENCH_ROOF_ROOF_KERNELS_H
#define QSA_BENCH_ROOF_ROOF_KERNELS_H

#include <stddef.h>
#include <stdint.h>

// The compiler must take the value for new at this point, so that nothing moves out of a loop.
#if defined(__x86_64__)
#define BENCH_OPAQUE(vector) __asm__ volatile("" : "+x"(vector))
#elif defined(__aarch64__)
#define BENCH_OPAQUE(vector) __asm__ volatile("" : "+w"(vector))
#endif

// Multiply-adds or dot products, `rounds` times BENCH_ROUND instructions over independent accumulators; the dot products
// of vector units BENCH_UNROLL times that, or compilers that move every accumulator at the end of a round would use up the
// front end. Returns a number that depends on all of them. roof.c has the operations of a round.
enum { BENCH_ROUND = 12, BENCH_UNROLL = 4 };
typedef double (*bench_compute)(int64_t rounds);

// Reads all of memory once, `bytes` a multiple of 1024; aligned to 64. Returns a number that depends on all of it.
typedef uint64_t (*bench_read)(const void *memory, size_t bytes);

double bench_fma_ref(int64_t rounds);
double bench_fma_avx2(int64_t rounds);
double bench_fma_avx512(int64_t rounds);
double bench_fma_neon(int64_t rounds);
double bench_dot_ref(int64_t rounds);
double bench_dot_avx2(int64_t rounds);
double bench_dot_avx512(int64_t rounds);
double bench_dot_avx2_vnni(int64_t rounds);
double bench_dot_avx512_vnni(int64_t rounds);
double bench_dot_neon(int64_t rounds);
double bench_dot_neon_dot(int64_t rounds);
uint64_t bench_read_ref(const void *memory, size_t bytes);
uint64_t bench_read_avx2(const void *memory, size_t bytes);
uint64_t bench_read_avx512(const void *memory, size_t bytes);
uint64_t bench_read_neon(const void *memory, size_t bytes);

#endif
