// SPDX-License-Identifier: Apache-2.0
//
// One folder of scratch below $TMPDIR per run of the lab, and the lock of the machine.

#ifndef QSA_LAB_SCRATCH_H
#define QSA_LAB_SCRATCH_H

#include "lab/lab.h"

// The folder; made on the first call, after removing those that killed labs have left. Removed by lab_scratch_remove.
bool lab_scratch(char path[LAB_PATH], bench_error *error);
// A new name in it, "<n>-<name>".
bool lab_scratch_name(char path[LAB_PATH], const char *name, bench_error *error);
void lab_scratch_remove(void);

// Holds the lock under which one lab measures; waits up to `seconds` for another. It ends with the process.
bool lab_lock(double seconds, bench_error *error);
void lab_unlock(void);

#endif
