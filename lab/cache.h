// SPDX-License-Identifier: Apache-2.0
//
// Proofs that passed, by content: lab, both objects, seed and extent, and what the CPU can do. `prove` always proves; time, run and
// compare take what is here. In $XDG_CACHE_HOME/qsa-lab, or ~/.cache/qsa-lab; without a home nothing is kept.

#ifndef QSA_LAB_CACHE_H
#define QSA_LAB_CACHE_H

#include "lab/prove.h"

// Whether this proof has passed before: then the report is what it said.
bool lab_cache_find(prove_report *report, const prove_plan *plan);
// Keeps one that passed. What cannot be kept is not: a cache is no promise.
void lab_cache_keep(const prove_report *report, const prove_plan *plan);

#endif
