// SPDX-License-Identifier: Apache-2.0
//
// The store of baselines: <folder>/<sha12>/ with units, readable source and manifest.json.

#ifndef QSA_LAB_FROZEN_H
#define QSA_LAB_FROZEN_H

#include "lab/arm.h"

typedef struct frozen_entry {
    char id[LAB_HASH], name[64], kernel[32], where[32], kernel_class[16];
    char folder[LAB_PATH];
} frozen_entry;

typedef struct frozen_list {
    frozen_entry *entry;
    size_t count;
} frozen_list;

// All baselines by name; a folder that cannot be read is refused. A store that does not exist is empty.
bool frozen_read_list(frozen_list *list, const char *store, bench_error *error);
void frozen_free_list(frozen_list *list);

// Keeps an arm that was built, with its readable source, as `name`. An arm that is there already is found again (*made false).
bool frozen_keep(const lab_arm *arm, const char *source, const char *name, const char *store, bool *made,
                 bench_error *error);

// Finds a baseline of a kernel by name or by the beginning of its id (at least 6 digits), checks its hashes and its contract.
// *found false: no such baseline, and no line.
bool frozen_load(lab_arm *arm, qsa_kernel_number number, const char *what, const char *store, bool *found,
                 bench_error *error);

#endif
