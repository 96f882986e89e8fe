// SPDX-License-Identifier: Apache-2.0
//
// What the commands of the tool share: failure lines, memory, time and the tool's exit codes.

#ifndef QSA_TOOL_COMMON_H
#define QSA_TOOL_COMMON_H

#include "qsa/qsa.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TOOL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TOOL_PRINTF(text, first)
#endif

enum {
    TOOL_OK = 0,        // done, and nothing that was compared differs
    TOOL_DIFFERENT = 1, // compared, and different
    TOOL_BAD = 2,       // bad input or usage
};

// One line without a newline that says what is wrong; the path of the file is not in it.
typedef struct tool_error {
    char text[1024];
} tool_error;

// Writes the line. Always returns false: `return tool_fail(...)`.
bool tool_fail(tool_error *error, const char *format, ...) TOOL_PRINTF(2, 3);

// The same from qsa_last_error(), with `what` and a colon in front of it.
bool tool_fail_qsa(tool_error *error, const char *what);

// Prints `qsa: FILE: reason` (or `qsa: reason` for a null file) to stderr, on one line of printable characters whatever
// the name holds. Always returns TOOL_BAD.
int tool_report(const char *file, const tool_error *error);

// Room for count elements, cleared when `clear`. NULL and a line when there is none; never NULL for count 0.
void *tool_array(size_t count, size_t size, bool clear, tool_error *error);

// count floats that are all NaN, what the results hold where there is no value.
float *tool_nans(size_t count, tool_error *error);

// Milliseconds of a clock that only goes forward.
double tool_now_ms(void);

// "f32", "f16", "bf16", "i8"; "official", "cut"; "strict", "fast"; "cpu", "cuda".
const char *tool_type_name(qsa_type type);
const char *tool_rule_name(qsa_rule rule);
const char *tool_class_name(qsa_class kernel_class);
const char *tool_backend_name(qsa_backend backend);

#endif
