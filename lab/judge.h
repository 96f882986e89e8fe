// SPDX-License-Identifier: Apache-2.0
//
// The verdict, from a record alone: its plan, proof and samples. No clock, no file, no kernel.

#ifndef QSA_LAB_JUDGE_H
#define QSA_LAB_JUDGE_H

#include "lab/lab.h"

#include <jansson.h>

// The judgement as docs/lab.md describes it; NULL with a line if the record lacks what it needs. The caller's reference.
json_t *judge_record(json_t *record, bench_error *error);

// Whether the nulls of all cases fit, and enough processes are there; blind to the candidate.
bool judge_fits(json_t *plan, json_t *samples);

// The number of processes that a claim needs at least.
enum { JUDGE_PROCESSES = 5 };

#endif
