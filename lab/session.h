// SPDX-License-Identifier: Apache-2.0
//
// A session of timing: the plan, declared before the first sample, and fresh processes until it is fulfilled.

#ifndef QSA_LAB_SESSION_H
#define QSA_LAB_SESSION_H

#include "lab/pair.h"
#include "lab/timed.h"

#include <jansson.h>

// The cases of the kernel's file.
int session_cases(timed_case cases[TIMED_CASES], qsa_kernel_number number, const lab_options *options);

// The plan as a record holds it.
json_t *session_plan(const timed_case *cases, int count, const lab_options *options, double batch_seconds);

// Runs it. samples: as the judge reads them. stopped: why the candidate is rejected without them (other bytes, a cap); NULL.
// False: the lab could not do it, or was interrupted.
bool session_run(const lab_pair *pair, const timed_case *cases, int count, json_t *plan, json_t **samples,
                 char stopped[400], bench_error *error);

#endif
