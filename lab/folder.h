// SPDX-License-Identifier: Apache-2.0
//
// QSA_LAB_KERNELS=DIR: the command `qsa` and the tests run a folder's candidates in place of the picked rows. The library never
// asks for it.

#ifndef QSA_LAB_FOLDER_H
#define QSA_LAB_FOLDER_H

#include "bench/error.h"
#include "qsa/qsa.h"

// Compiles, lints and loads every *.c of $QSA_LAB_KERNELS, once for the process, and puts them into the context. True and nothing
// done where the variable is not set. A candidate that cannot be used is refused.
bool lab_folder_use(qsa_context *context, bench_error *error);

#endif
