// SPDX-License-Identifier: Apache-2.0
//
// The picture of `qsa bench --plot`: time per token against context, a line per stage, both axes logarithmic.

#ifndef QSA_TOOL_BENCH_PLOT_H
#define QSA_TOOL_BENCH_PLOT_H

#include "bench/bench.h"

// Writes an SVG file. false and a line when that is not possible; nothing is left at `path` then that was not there.
bool bench_plot(const bench_sweep *sweep, const char *path, bench_error *error);

#endif
