// SPDX-License-Identifier: Apache-2.0
//
// Inputs and slots of a timed case. Every call of a lap has outputs of its own, poisoned before and compared after.

#ifndef QSA_LAB_SLOTS_H
#define QSA_LAB_SLOTS_H

#include "lab/timed.h"

typedef struct slots slots;

// Draws the sets of inputs and lets the baseline compute what is expected of each; of `other`, unless it is NULL, its own outputs
// are expected. NULL when memory is out.
slots *slots_open(qsa_kernel_number number, const timed_case *what, qsa_kernel_fn baseline, qsa_kernel_fn other,
                  uint64_t seed);
void slots_close(slots *s);

// Calls of one lap at most.
int32_t slots_lap(const slots *s);

// Poisons the next n slots, calls the kernel on each, and compares. Returns the seconds of the calls, or -1 with a reason. *drop
// gets the DROP_ bits of what disturbed the calls (not what is done around them).
double slots_run(slots *s, qsa_kernel_fn kernel, int32_t n, unsigned *drop, char *reason, size_t size);

#endif
