// SPDX-License-Identifier: Apache-2.0
//
// The two arms of an attempt, from the options: found or made, checked, compiled, linted.

#ifndef QSA_LAB_PAIR_H
#define QSA_LAB_PAIR_H

#include "lab/arm.h"
#include "lab/options.h"

typedef struct lab_pair {
    qsa_kernel_number number;
    lab_arm baseline, candidate;
    bool refused;     // the candidate was, by lint or compiler
    char reason[600]; // why
} lab_pair;

// --baseline names a frozen one or a row; without it the row that this machine picks in class strict is taken. keep: that row is
// frozen first. False: the lab cannot go on (bad names, an edited baseline). A refused candidate is not a failure.
bool lab_pair_open(lab_pair *pair, const lab_options *options, const char *kernel, bool keep, bench_error *error);
void lab_pair_close(lab_pair *pair);

// The baseline alone.
bool lab_baseline_open(lab_arm *arm, const lab_options *options, qsa_kernel_number number, bool keep,
                       bench_error *error);

#endif
