// SPDX-License-Identifier: Apache-2.0
//
// Lines that say why not.

#include "bench/error.h"
#include "qsa/qsa.h"

#include <stdarg.h>
#include <stdio.h>

void bench_say(bench_error *error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
}

void bench_say_library(bench_error *error) {
    bench_say(error, "%s", qsa_last_error());
}

int bench_refuse(const char *program, const bench_error *error) {
    bench_error line = *error;
    for (char *c = line.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?'; // the reason may quote anything that was typed
    fprintf(stderr, "%s: %s\n", program, line.text);
    return 2;
}
