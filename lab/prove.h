// SPDX-License-Identifier: Apache-2.0
//
// The proof of a candidate: no clock, every output byte. It runs in a child with caps.

#ifndef QSA_LAB_PROVE_H
#define QSA_LAB_PROVE_H

#include "lab/arm.h"
#include "support/kernel_case.h"

// One element that differs: values and bits as text.
typedef struct lab_difference {
    char field[32];
    int64_t element;
    char got[40], want[40], got_bits[24], want_bits[24];
} lab_difference;

// Of the difference that a run of the case has left; the run's buffers are still in place.
void lab_describe(const kernel_case *c, lab_difference *difference);

// Rows to prove: those of `tokens` tokens from pos on, in one edge mode.
typedef struct prove_window {
    int32_t tokens, pos;
    case_edge edge;
} prove_window;

typedef struct prove_plan {
    const lab_arm *baseline, *candidate;
    uint64_t seed;
    int32_t random;             // random calls
    bool grid;                  // the whole grid; else its boundaries
    const prove_window *window; // instead of grid and random calls; NULL: none
    bool bound;                 // held to the bound of class fast instead of memcmp
    double cpu_seconds;         // cap
} prove_plan;

typedef struct prove_report {
    bool passed;
    bool baseline_failed; // it was the baseline that broke the contract
    bool cached;          // the same proof has passed before
    int32_t calls;
    double seconds;
    double used, since;  // CPU seconds of the candidate so far; since when it runs, 0 while it does not
    char what[260];      // the call that failed
    char complaint[600]; // why; empty where it passed
    bool differs;
    lab_difference difference;
    double worst[2]; // with a bound: relative l2 at logits of deviation 1 and 2
} prove_report;

// False: the lab could not do it. Arms are built.
bool lab_prove(prove_report *report, const prove_plan *plan, bench_error *error);

// The numbers of cells that the grid has, ascending, each once; `all`: else a few beside the budget. Returns how many.
enum { PROVE_MOST = 1200 };
int lab_grid(int32_t cells[PROVE_MOST], bool all, uint64_t seed);

// Relative l2 of the worst head after merging against float64, of an attend kernel over an i8 cache at logits of the deviation.
double lab_bound_error(qsa_kernel_fn kernel, double deviation, uint64_t seed);
#define LAB_BOUND 1e-4

#endif
