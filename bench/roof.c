// SPDX-License-Identifier: Apache-2.0
//
// Picks the loops by CPU features, sizes a try, and adds up what the threads reach each in its own time.

#include "bench/roof.h"

#include "api/memory.h"
#include "bench/roof/roof_kernels.h"
#include "dispatch/cpu_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

const char *const roof_name[ROOFS] = {"fma", "dot", "read"};
const char *const roof_unit[ROOFS] = {"GFLOP/s", "GOP/s", "GB/s"};

enum { TRIES = 3, MOST_BYTES = 512 << 20, LINE = 1024 };
static const double try_seconds = 2e-3;

typedef struct compute_loop {
    const char *where;
    bench_compute run;
    double operations; // of a round
} compute_loop;

struct roof_meter {
    bench_team *team;
    int32_t threads;
    compute_loop compute[ROOF_READ]; // fma, dot
    bench_read read;
    const char *read_where;
    bench_flusher *flusher;
    unsigned char *memory;
    size_t part;            // bytes of each thread
    int64_t repeats[ROOFS]; // rounds or passes of a try
    int roof;               // what a try measures
    double *rates;          // [threads] of the last try
    volatile double sink;   // keeps the loops' results alive
    char loops[64];
};

// What the library's dispatch does not ask for: byte dot products.
static int has_dot(uint32_t features) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    const uint32_t wide = QSA_CPU_AVX512F | QSA_CPU_AVX512BW | QSA_CPU_AVX512VL | QSA_CPU_AVX512DQ;
    if ((features & wide) == wide && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1))
        return 512;
    if ((features & QSA_CPU_AVX2) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1))
        return 256;
#elif defined(__aarch64__)
    if ((features & QSA_CPU_NEON) && (getauxval(AT_HWCAP) & 1u << 20)) // HWCAP_ASIMDDP
        return 128;
#endif
    (void)features;
    return 0;
}

static void pick_loops(roof_meter *m) {
    const uint32_t features = qsa_cpu_detect();
    m->compute[ROOF_FMA] = (compute_loop){"ref", bench_fma_ref, 2.0 * 4 * BENCH_ROUND};
    m->compute[ROOF_DOT] = (compute_loop){"ref", bench_dot_ref, 2.0 * 8 * BENCH_ROUND};
    m->read = bench_read_ref;
    m->read_where = "ref";
    const int dot = has_dot(features);
#if defined(__x86_64__)
    const uint32_t avx2 = QSA_CPU_FMA | QSA_CPU_AVX2 | QSA_CPU_F16C;
    const uint32_t avx512 = avx2 | QSA_CPU_AVX512F | QSA_CPU_AVX512BW | QSA_CPU_AVX512VL | QSA_CPU_AVX512DQ;
    if ((features & avx2) == avx2) {
        m->compute[ROOF_FMA] = (compute_loop){"avx2", bench_fma_avx2, 2.0 * 8 * BENCH_ROUND};
        m->compute[ROOF_DOT] = (compute_loop){"avx2", bench_dot_avx2, 2.0 * 16 * BENCH_ROUND * BENCH_UNROLL};
        m->read = bench_read_avx2;
        m->read_where = "avx2";
    }
    if ((features & avx512) == avx512) {
        m->compute[ROOF_FMA] = (compute_loop){"avx512", bench_fma_avx512, 2.0 * 16 * BENCH_ROUND};
        m->compute[ROOF_DOT] = (compute_loop){"avx512", bench_dot_avx512, 2.0 * 32 * BENCH_ROUND * BENCH_UNROLL};
        m->read = bench_read_avx512;
        m->read_where = "avx512";
    }
    if (dot == 256)
        m->compute[ROOF_DOT] = (compute_loop){"avx2_vnni", bench_dot_avx2_vnni, 2.0 * 32 * BENCH_ROUND * BENCH_UNROLL};
    if (dot == 512)
        m->compute[ROOF_DOT] =
            (compute_loop){"avx512_vnni", bench_dot_avx512_vnni, 2.0 * 64 * BENCH_ROUND * BENCH_UNROLL};
#elif defined(__aarch64__)
    if (features & QSA_CPU_NEON) {
        m->compute[ROOF_FMA] = (compute_loop){"neon", bench_fma_neon, 2.0 * 8 * BENCH_ROUND};
        m->compute[ROOF_DOT] = (compute_loop){"neon", bench_dot_neon, 2.0 * 8 * BENCH_ROUND * BENCH_UNROLL};
        m->read = bench_read_neon;
        m->read_where = "neon";
    }
    if (dot)
        m->compute[ROOF_DOT] = (compute_loop){"neon_dot", bench_dot_neon_dot, 2.0 * 16 * BENCH_ROUND * BENCH_UNROLL};
#endif
    (void)dot;
    snprintf(m->loops, sizeof m->loops, "%s %s %s", m->compute[ROOF_FMA].where, m->compute[ROOF_DOT].where,
             m->read_where);
}

// One thread's try; its rate is its own work over its own time.
static void try_task(void *arg, int32_t thread) {
    roof_meter *m = arg;
    const int64_t repeats = m->repeats[m->roof];
    double work, sink = 0;
    const double start = bench_now();
    if (m->roof == ROOF_READ) {
        for (int64_t i = 0; i < repeats; i++)
            sink += (double)m->read(m->memory + (size_t)thread * m->part, m->part);
        work = (double)repeats * (double)m->part;
    } else {
        sink = m->compute[m->roof].run(repeats);
        work = (double)repeats * m->compute[m->roof].operations;
    }
    const double seconds = bench_now() - start;
    m->rates[thread] = work / (seconds > 1e-9 ? seconds : 1e-9) * 1e-9;
    if (thread == 0)
        m->sink = m->sink + sink;
    else if (sink == 0.1234567)
        m->rates[thread] = 0; // never; the loop's result is used
}

static double one_try(roof_meter *m, int roof) {
    m->roof = roof;
    if (roof == ROOF_READ && m->flusher)
        bench_flush(m->flusher);
    bench_team_run(m->team, try_task, m);
    double sum = 0;
    for (int32_t t = 0; t < m->threads; t++)
        sum += m->rates[t];
    return sum;
}

// Enough rounds or passes for the length of a try, by the least of a few tries: a moment's disturbance must not make all
// later ones too short. After a flush it is one pass, since the second would be warm.
static void size_tries(roof_meter *m) {
    for (int roof = 0; roof < ROOFS; roof++) {
        m->repeats[roof] = 1;
        while (!(roof == ROOF_READ && m->flusher)) {
            double least = try_seconds;
            for (int i = 0; i < TRIES; i++) {
                const double start = bench_now();
                one_try(m, roof);
                const double seconds = bench_now() - start;
                least = seconds < least ? seconds : least;
            }
            if (least >= 0.8 * try_seconds)
                break;
            const double factor = try_seconds / (least > try_seconds / 16 ? least : try_seconds / 16);
            m->repeats[roof] = (int64_t)((double)m->repeats[roof] * factor) + 1;
        }
    }
}

roof_meter *roof_open(bench_team *team, int32_t threads, size_t bytes, bench_flusher *flusher, bench_error *error) {
    roof_meter *m = calloc(1, sizeof *m);
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    const size_t part = (bytes / (size_t)threads + LINE - 1) / LINE * LINE;
    if (m) {
        m->part = part ? part : LINE;
        m->rates = calloc((size_t)threads, sizeof *m->rates);
        m->memory = qsa_default_alloc(m->part * (size_t)threads, LINE); // pages as the cache's
    }
    if (!m || !m->rates || !m->memory) {
        bench_say(error, "no memory for the %zu bytes that the read roof reads", part * (size_t)threads);
        roof_close(m);
        return NULL;
    }
    m->team = team;
    m->threads = threads;
    m->flusher = flusher;
    uint64_t x = 5;
    for (size_t i = 0; i < m->part * (size_t)threads; i += sizeof x) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy(m->memory + i, &x, sizeof x);
    }
    pick_loops(m);
    size_tries(m);
    return m;
}

void roof_close(roof_meter *meter) {
    if (!meter)
        return;
    free(meter->rates);
    free(meter->memory);
    free(meter);
}

roof_values roof_measure(roof_meter *meter) {
    roof_values best = {{0}};
    for (int i = 0; i < TRIES; i++)
        for (int roof = 0; roof < ROOFS; roof++) {
            const double value = one_try(meter, roof);
            best.of[roof] = value > best.of[roof] ? value : best.of[roof];
        }
    return best;
}

const char *roof_loops(const roof_meter *meter) {
    return meter->loops;
}
