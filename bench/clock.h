// SPDX-License-Identifier: Apache-2.0
//
// Time that only goes forward, and what disturbed the process meanwhile.

#ifndef QSA_BENCH_CLOCK_H
#define QSA_BENCH_CLOCK_H

#include <stddef.h>
#include <stdint.h>

// Seconds of CLOCK_MONOTONIC.
double bench_now(void);

// Times that a thread of this process lost its CPU without asking for it. With one thread, the calling thread's.
int64_t bench_switches(void);

// A buffer that is larger than the last-level cache; touching it all flushes what a case has in cache.
typedef struct bench_flusher {
    unsigned char *memory;
    size_t bytes;
} bench_flusher;
// memory is NULL when there is none.
bench_flusher bench_flusher_open(void);
void bench_flush(bench_flusher *flusher);
void bench_flusher_close(bench_flusher *flusher);

#endif
