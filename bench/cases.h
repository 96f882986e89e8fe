// SPDX-License-Identifier: Apache-2.0
//
// The cases: what one call does, and the operations and bytes that any implementation of it has to spend.

#ifndef QSA_BENCH_CASES_H
#define QSA_BENCH_CASES_H

#include "bench/world.h"

// One call of the work, on all rows of the world.
typedef qsa_status (*bench_call)(bench_world *world);

typedef struct bench_case {
    bench_call call;
    bool appended;      // the rows are appended before a sample, and taken back after it, outside the time
    bool selects;       // attends the selection of --selection
    bool scores;        // attends what the library selects
    const char *stages; // whose kernels it runs, "attend merge"
    int32_t tokens;     // unless --tokens is given
} bench_case;
const bench_case *bench_case_of(bench_id id);

// Calls that are measured beside a case, or drawn.
qsa_status bench_call_score(bench_world *world);
qsa_status bench_call_score_topk(bench_world *world);
qsa_status bench_call_attend(bench_world *world);
qsa_status bench_call_prep_fused(bench_world *world);

// Runs once what a case takes as given (scores for topk, records for merge), and checks that results are numbers.
bool bench_case_ready(bench_world *world, bench_id id, bench_error *error);

// docs/performance.md states the formulas. Bytes: each input read once, each output written once, intermediates of the
// case not at all.
typedef struct bench_work {
    double operations; // of float32 products and sums; a multiply-add is two
    double bytes;
    double
        gathered; // bytes of the keys and values that rows select, each row's counted: what is read if nothing is shared
} bench_work;
bench_work bench_work_of(const bench_world *world, bench_id id);

#endif
