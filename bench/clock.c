// SPDX-License-Identifier: Apache-2.0
//
// Clock, counters of the operating system, and the flush for --cold.

#include "bench/clock.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t bench_switches(void) {
    // The whole process: the pool's threads count too, and threads that sleep are not switched involuntarily.
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

bench_flusher bench_flusher_open(void) {
    size_t bytes = (size_t)64 << 20;
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (cache > 0 && (size_t)cache * 2 > bytes)
        bytes = (size_t)cache * 2;
#endif
    return (bench_flusher){.memory = calloc(bytes, 1), .bytes = bytes};
}

void bench_flush(bench_flusher *flusher) {
    for (size_t i = 0; i < flusher->bytes; i += 64)
        flusher->memory[i]++;
}

void bench_flusher_close(bench_flusher *flusher) {
    free(flusher->memory);
    flusher->memory = NULL;
}
