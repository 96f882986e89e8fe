// SPDX-License-Identifier: Apache-2.0
//
// What was typed. Every command takes its own options; a refusal names the option and the value.

#ifndef QSA_LAB_OPTIONS_H
#define QSA_LAB_OPTIONS_H

#include "lab/lab.h"

enum { LAB_OPERANDS = 64 };

typedef struct lab_options {
    const char *operand[LAB_OPERANDS];
    int operands;
    const char *candidate, *baseline, *from, *where, *out;
    char frozen[LAB_PATH], ledger[LAB_PATH];
    uint64_t seed;
    int32_t cases, processes, pairs, tokens, pos, layers, edge;
    double floor, limit; // percent (0: the case file's); seconds of timing
    bool json, brief, bound, prep_only, short_grid;
    bool has_tokens, has_pos;
} lab_options;

// argv[0] is the command. False with a line.
bool lab_options_read(lab_options *options, int argc, char **argv, bench_error *error);

// Takes exactly one operand; `what` is its name in the message.
bool lab_one_operand(const lab_options *options, const char *command, const char *what, bench_error *error);

#endif
