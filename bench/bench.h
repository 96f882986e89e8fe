// SPDX-License-Identifier: Apache-2.0
//
// `qsa bench`, the part that the command and the program qsa-bench share: options in, a table or JSON on stdout, the exit
// code out. Needs libqsa, libc, libm and pthreads. Pictures are the caller's: it hands in a function that draws.

#ifndef QSA_BENCH_BENCH_H
#define QSA_BENCH_BENCH_H

#include "bench/error.h"
#include "qsa/qsa.h"

#include <stdbool.h>
#include <stdint.h>

// Time of one token in each stage at several contexts: what a picture shows.
enum { BENCH_SWEEP_STAGES = 6, BENCH_SWEEP_POINTS = 16 };
typedef struct bench_sweep {
    const char *stage[BENCH_SWEEP_STAGES]; // "prep" ... "step"
    int32_t points;
    int32_t context[BENCH_SWEEP_POINTS]; // cells
    double ms[BENCH_SWEEP_STAGES][BENCH_SWEEP_POINTS];
    char caption[160]; // threads, formats, class
} bench_sweep;
typedef bool (*bench_draw)(const bench_sweep *sweep, const char *path, bench_error *error);

// Called on every context that is made, before kernels are forced; NULL: nothing. The command `qsa` puts the candidates of
// $QSA_LAB_KERNELS in with it.
extern bool (*bench_prepare)(qsa_context *context, bench_error *error);

// The help page of both programs.
extern const char bench_help[];

// argv[0] is the command's own name. `program` stands before every refusal ("qsa"). draw NULL: no option --plot.
// 0: done; 2: refused, with one line on stderr. An unfit measurement is reported as such and is no failure.
int bench_main(const char *program, int argc, char **argv, bench_draw draw);

#endif
