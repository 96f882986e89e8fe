// SPDX-License-Identifier: Apache-2.0
//
// A whole step of one layer over plain arrays, kernel by kernel, so that every buffer can be compared: N tokens behind P cells of
// seeded history, in the geometry of the first model.

#ifndef QSA_LAB_STEP_H
#define QSA_LAB_STEP_H

#include "lab/cases/parts.h"

#include "bench/error.h"

enum { STEP_BUFFERS = 32, STEP_TOKENS = 128, STEP_PREP_TOKENS = 2048 };

typedef struct step_shape {
    int32_t tokens, pos;
    bool prep_only; // up to block keys; nothing of the attention is allocated
    case_edge edge;
    uint64_t seed;
} step_shape;

typedef struct step_buffer {
    const char *name;
    case_element_kind element;
    unsigned char *bytes;
    size_t size;
} step_buffer;

typedef struct step {
    step_shape shape;
    step_buffer buffer[STEP_BUFFERS];
    int buffers;
    double seconds[QSA_K_COUNT]; // of the last run, per kernel
    int32_t calls[QSA_K_COUNT];
} step;

// NULL with a line when memory is out.
step *step_open(const step_shape *shape, bench_error *error);
void step_close(step *s);

// Poisons every output, makes the history again, and runs all kernels.
void step_run(step *s, const qsa_kernel_set *kernels);

#endif
