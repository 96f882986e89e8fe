// SPDX-License-Identifier: Apache-2.0
//
// One measurement: samples of a case with the machine's roofs measured between them.

#ifndef QSA_BENCH_MEASURE_H
#define QSA_BENCH_MEASURE_H

#include "bench/cases.h"
#include "bench/roof.h"

typedef struct bench_result {
    bench_id id;
    const bench_options *options; // borrowed
    int32_t tokens, pos, seqs;
    bench_selection selection;
    bool selects; // the case has a selection
    char kernel[256];
    char loops[64]; // of the roofs

    double median_ms, min_ms, max_ms; // of one call
    double of_fma, of_dot, of_read;   // shares of each roof, medians over the samples
    roof_values roof;                 // medians
    int bound;                        // the nearer roof
    double of_roof;
    bool fit;
    double of_gather;      // GPU: all rows' keys and values against gathers out of L2
    double device_roof[3]; // GPU: copy and gather in GB/s, products in TFLOP/s
    double moved;          // largest change of that roof between neighbours
    bench_work work;

    double score_ms;      // topk: scoring, same run
    double fused_ms;      // prep: as forward does it, by the fused kernel, same run
    double score_topk_ms; // step: scoring and selection, same run
    int32_t against_pos;  // step --against: -1 if none
    double against_step_ms, against_score_topk_ms;

    int32_t samples, calls; // calls of a batch; a sample is one batch or more
    int32_t runs;           // 1, or more where a roof moved
    int64_t switches;       // involuntary, during the samples
    double union8, union16, jaccard, logits;
} bench_result;

// The case of the options, at their pos and tokens or its own. Prints nothing.
bool bench_measure(bench_result *result, const bench_options *options, bench_id id, bench_error *error);

// Median milliseconds of one call, `samples` samples, no roofs. appended: as in bench_case.
bool bench_time(bench_world *world, bench_call call, bool appended, int32_t samples, double *ms, bench_error *error);

#endif
