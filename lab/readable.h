// SPDX-License-Identifier: Apache-2.0
//
// A kernel as people read it: its file, and behind it the headers of its stage that it is made of, comments and all.

#ifndef QSA_LAB_READABLE_H
#define QSA_LAB_READABLE_H

#include "lab/lab.h"

// The text of `path` and of what it includes from src/kernels/<stage>/ (the contract itself is in every tree).
bool lab_readable(lab_text *text, const char *path, const char *stage, bench_error *error);

#endif
