// SPDX-License-Identifier: Apache-2.0
//
// What is measured: the words of the command line. A refusal names the option, the value, and what would be right.

#ifndef QSA_BENCH_OPTIONS_H
#define QSA_BENCH_OPTIONS_H

#include "bench/error.h"
#include "qsa/qsa.h"

#include <stdint.h>

typedef enum bench_id {
    BENCH_PROMPT,
    BENCH_DECODE,
    BENCH_SCORE,
    BENCH_TOPK,
    BENCH_SCORE_TOPK,
    BENCH_PREP,
    BENCH_MERGE,
    BENCH_STEP,
    BENCH_CASES,
    BENCH_ALL = BENCH_CASES, // the standard table
    BENCH_NONE,              // no case given: --plot
} bench_id;
// "prompt" ... "step", "all".
extern const char *const bench_case_name[BENCH_CASES + 1];

typedef enum bench_selection {
    BENCH_RANDOM, // each row its own
    BENCH_WALK,   // neighbouring rows share most blocks
    BENCH_RECENT, // the newest blocks
    BENCH_SCORED, // what the library selects; cases that score
} bench_selection;
extern const char *const bench_selection_name[BENCH_SCORED + 1];

enum { BENCH_MAX_KERNELS = 16 };
typedef struct bench_kernel {
    char stage[16];
    char name[48];
} bench_kernel;

typedef struct bench_options {
    bench_id id;
    int32_t tokens;  // rows of each sequence; -1: the case's own
    int32_t pos;     // cells before the first row; -1: the case's own
    int32_t against; // -1: none
    qsa_type kv;
    qsa_type block_keys;
    qsa_backend backend;
    qsa_class kernel_class; // strict on the CPU, fast on a GPU, unless given
    bool class_given;
    bool graph; // GPU: calls in a captured graph
    bench_kernel kernels[BENCH_MAX_KERNELS];
    int32_t n_kernels;
    int32_t threads;
    int32_t seqs;
    bench_selection selection;
    double logits; // standard deviation
    bool wide;     // --logits wide
    bool screen;
    bool cold;
    bool json;
    int32_t samples;
    const char *plot; // file, or NULL
} bench_options;

// The logits of --logits wide: each record of 64 cells then has many whose exponential is cut to 0 (below -80 from the
// largest, which lies at 2.4 standard deviations).
#define BENCH_WIDE_LOGITS 30.0

// may_plot: --plot is an option.
bool bench_parse(bench_options *options, int argc, char **argv, bool may_plot, bench_error *error);

// "f32", "f16", "bf16", "i8".
const char *bench_type_name(qsa_type type);

#endif
