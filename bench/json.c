// SPDX-License-Identifier: Apache-2.0
//
// Keys are the program's own words; values may be anything and are escaped.

#include "bench/json.h"

#include <math.h>

static void put_word(FILE *to, const char *text) {
    putc('"', to);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if ((unsigned char)*c < ' ')
            fprintf(to, "\\u%04x", (unsigned)*c);
        else
            putc(*c, to);
    }
    putc('"', to);
}

static void begin(bench_json *json, const char *key) {
    if (json->comma)
        putc(',', json->to);
    if (key) {
        put_word(json->to, key);
        putc(':', json->to);
    }
    json->comma = true;
}

void json_open(bench_json *json, const char *key, char bracket) {
    begin(json, key);
    putc(bracket, json->to);
    json->comma = false;
}

void json_close(bench_json *json, char bracket) {
    putc(bracket, json->to);
    json->comma = true;
}

void json_number(bench_json *json, const char *key, double value) {
    begin(json, key);
    if (!isfinite(value))
        fputs("null", json->to);
    else if (value == floor(value) && fabs(value) < 1e15)
        fprintf(json->to, "%.0f", value);
    else
        fprintf(json->to, "%.6g", value);
}

void json_word(bench_json *json, const char *key, const char *value) {
    begin(json, key);
    put_word(json->to, value);
}

void json_truth(bench_json *json, const char *key, bool value) {
    begin(json, key);
    fputs(value ? "true" : "false", json->to);
}
