// SPDX-License-Identifier: Apache-2.0
//
// Time of one token in every stage at contexts of 2K, 4K, ... cells: the data of `--plot`.

#ifndef QSA_BENCH_SWEEP_H
#define QSA_BENCH_SWEEP_H

#include "bench/bench.h"
#include "bench/options.h"

// Up to the options' pos (1M cells by default). A line of progress per context on stderr where that is a terminal.
bool bench_sweep_run(bench_sweep *sweep, const bench_options *options, bench_error *error);

#endif
