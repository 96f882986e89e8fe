// SPDX-License-Identifier: Apache-2.0
//
// What an object of an arm may be made of: code and constants. Reads the ELF file itself.

#ifndef QSA_LAB_LINT_H
#define QSA_LAB_LINT_H

#include "lab/lab.h"

typedef struct lab_object {
    char entry[128];    // the one global function
    char needs[8][128]; // functions of the project that it calls
    int n_needs;
} lab_object;

// Reads an object file (not yet linked). lint: also refuses writable data, constructors, further global symbols, and imports
// that kernels do not need.
bool lab_object_read(lab_object *object, const char *path, const char *name, bool lint, bench_error *error);

// Refuses CUDA machine code that keeps anything between calls: variables of the module in global memory.
bool lab_cubin_lint(const char *path, const char *name, bench_error *error);

#endif
