// SPDX-License-Identifier: Apache-2.0
//
// Failure lines, memory, time and names. Nothing here exits; only tool_report prints.

#include "common.h"

#include "io/io_util.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool tool_fail(tool_error *error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

bool tool_fail_qsa(tool_error *error, const char *what) {
    return tool_fail(error, "%s: %s", what, qsa_last_error());
}

int tool_report(const char *file, const tool_error *error) {
    // The reason may quote anything, e.g. a kernel's name as typed: no control character leaves here.
    char line[sizeof error->text];
    snprintf(line, sizeof line, "%s", error->text);
    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
    if (file) {
        fprintf(stderr, "qsa: %s: %s\n", io_quote_string(file).text, line);
    } else {
        fprintf(stderr, "qsa: %s\n", line);
    }
    return TOOL_BAD;
}

void *tool_array(size_t count, size_t size, bool clear, tool_error *error) {
    if (count == 0) {
        count = 1;
    }
    void *memory = NULL;
    if (count <= SIZE_MAX / size) {
        memory = clear ? calloc(count, size) : malloc(count * size);
    }
    if (!memory) {
        tool_fail(error, "no memory for %zu x %zu bytes", count, size);
    }
    return memory;
}

float *tool_nans(size_t count, tool_error *error) {
    float *values = tool_array(count, sizeof *values, false, error);
    for (size_t i = 0; values && i < count; i++) {
        values[i] = NAN;
    }
    return values;
}

double tool_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

const char *tool_type_name(qsa_type type) {
    switch (type) {
    case QSA_F32:
        return "f32";
    case QSA_F16:
        return "f16";
    case QSA_BF16:
        return "bf16";
    case QSA_I8:
        return "i8";
    }
    return "?";
}

const char *tool_rule_name(qsa_rule rule) {
    return rule == QSA_RULE_CUT ? "cut" : "official";
}

const char *tool_class_name(qsa_class kernel_class) {
    return kernel_class == QSA_CLASS_FAST ? "fast" : "strict";
}

const char *tool_backend_name(qsa_backend backend) {
    return backend == QSA_BACKEND_CUDA ? "cuda" : "cpu";
}
