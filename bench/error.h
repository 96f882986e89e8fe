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

void bench_say(bench_error *error, const char *format, ...) BENCH_PRINTF(2, 3);
void bench_say_library(bench_error *error);

// Writes the line. Always false: `return bench_fail(...)`, here where the analyzer sees it.
#define bench_fail(error, ...) (bench_say((error), __VA_ARGS__), false)

// The library's own message, as it is. Always false.
static inline bool bench_fail_library(bench_error *error) {
    bench_say_library(error);
    return false;
}

// `program: reason` on stderr, on one line of printable characters. Always 2, the exit code.
int bench_refuse(const char *program, const bench_error *error);

#endif
