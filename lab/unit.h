// SPDX-License-Identifier: Apache-2.0
//
// One translation unit of an arm: a kernel's source with every header of the project in its place, macros expanded, and the
// system's headers as #include lines. It needs nothing of the tree it came from.

#ifndef QSA_LAB_UNIT_H
#define QSA_LAB_UNIT_H

#include "lab/lab.h"

typedef struct lab_unit {
    char file[64];  // as it is called, e.g. attend_avx2.c
    char where[32]; // whose flags it is compiled with
    lab_text text;
    char sha[LAB_HASH];
} lab_unit;

// The `where` that a file's name says, as in cmake/kernels.cmake: <kernel>_<where>[_<idea>].c. False: none.
bool lab_where_of(const char *path, char where[32]);
// The compiler flags of a `where` on this architecture; NULL if it does not exist here.
const char *lab_where_flags(const char *where, char *flags, size_t size);

// Whether this machine runs it; `what` is who asks, for the line.
bool lab_where_runs(const char *where, const char *what, bench_error *error);

// Preprocesses a file; where "cuda": a .cu file, without its launchers and with its LAUNCH lines (lab/launch.h). Refused: system headers that kernels do not use, what the compiler refuses.
bool lab_unit_make(lab_unit *unit, const char *path, const char *where, bench_error *error);
// From text that was kept.
void lab_unit_of(lab_unit *unit, const char *file, const char *where, lab_text text);
void lab_unit_free(lab_unit *unit);

// Takes the launchers out of a preprocessed .cu file, since NVRTC compiles device code only, and puts the LAUNCH lines of its
// source before it.
bool lab_cuda_unit(lab_text *text, const char *path, bench_error *error);

// What a unit's text may not contain: asm, clocks, looking at the caller. False and a line if it does.
bool lab_unit_lint(const lab_unit *unit, bench_error *error);

// SHA-256 of the layout of a kernel's arguments in the unit: the text of its struct and of every project type in it. False if
// the unit does not contain the struct.
bool lab_unit_layout(const lab_unit *unit, qsa_kernel_number number, char sha[LAB_HASH], bench_error *error);

#endif
