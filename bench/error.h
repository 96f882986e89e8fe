// SPDX-License-Identifier: Apache-2.0
//
// A refusal: one line without a newline. Functions that can be refused return false and fill it.

#ifndef QSA_BENCH_ERROR_H
#define QSA_BENCH_ERROR_H

#include <stdbool.h>

#if defined(__GNUC__)
#define BENCH_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define BENCH_PRINTF(text, first)
#endif

typedef struct bench_error {
    char text[600];
} bench_error;

// Writes the line. Always false: `return bench_fail(...)`.
bool bench_fail(bench_error *error, const char *format, ...) BENCH_PRINTF(2, 3);

// The library's own message, as it is. Always false.
bool bench_fail_library(bench_error *error);

// `program: reason` on stderr, on one line of printable characters. Always 2, the exit code.
int bench_refuse(const char *program, const bench_error *error);

#endif
