// SPDX-License-Identifier: Apache-2.0
//
// The machine's roofs at a number of threads: float32 multiply-adds, integer dot products, and reading a working set.
// Which loop measures each follows from the CPU; see roof/.

#ifndef QSA_BENCH_ROOF_H
#define QSA_BENCH_ROOF_H

#include "bench/clock.h"
#include "bench/error.h"
#include "bench/team.h"

enum { ROOF_FMA, ROOF_DOT, ROOF_READ, ROOFS };

// "fma", "dot", "read".
extern const char *const roof_name[ROOFS];
// "GFLOP/s", "GOP/s", "GB/s".
extern const char *const roof_unit[ROOFS];

// In 1e9 a second, all threads together.
typedef struct roof_values {
    double of[ROOFS];
} roof_values;

typedef struct roof_meter roof_meter;

// Measures reading of `bytes` in all, each thread its own part: again and again, or after a flush each time if flusher is
// given. The smallest set is 1 KiB a thread; above 512 MiB it is 512 MiB, which no cache holds.
roof_meter *roof_open(bench_team *team, int32_t threads, size_t bytes, bench_flusher *flusher, bench_error *error);
void roof_close(roof_meter *meter);
// Each roof is the best of three tries of some two milliseconds: a roof is what the machine can do.
roof_values roof_measure(roof_meter *meter);
// The names of the loops in use, e.g. "avx512 avx512_vnni avx512".
const char *roof_loops(const roof_meter *meter);

#endif
