// SPDX-License-Identifier: Apache-2.0
//
// The zoo: kernels of lab/cheats that try to win falsely, and honest ones. The first lines of each say what must happen.

#ifndef QSA_LAB_ZOO_H
#define QSA_LAB_ZOO_H

#include "lab/options.h"

typedef struct zoo_note {
    char kernel[32], stage[16], words[64]; // EXPECT: stage and words of the refusal
    char bare_stage[16], bare_words[64];   // WITHOUT LINT, or empty
    char baseline[64];                     // BASELINE: a row or a file of the folder; empty: the picked row
    double seconds;                        // SECONDS: CPU time of the proof
} zoo_note;

// Reads the notes of a file.
bool zoo_read_note(zoo_note *note, const char *path, bench_error *error);

typedef struct zoo_result {
    char name[80], stage[16], said[300]; // where it was refused ("passed": nowhere) and why
    bool right;
} zoo_result;

// What becomes of a candidate. lint false: the lint looks away. live: honest ones are timed and judged.
bool zoo_try(zoo_result *result, const char *path, const zoo_note *note, bool lint, bool live,
             const lab_options *options, bench_error *error);

#endif
