// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON to a stream: objects, arrays, numbers, words. Commas come by themselves. Numbers that JSON cannot hold are
// null.

#ifndef QSA_BENCH_JSON_H
#define QSA_BENCH_JSON_H

#include <stdbool.h>
#include <stdio.h>

typedef struct bench_json {
    FILE *to;
    bool comma; // the next value is not the first of its object or array
} bench_json;

// key NULL: an element of an array, or the whole.
void json_open(bench_json *json, const char *key, char bracket);
void json_close(bench_json *json, char bracket);
void json_number(bench_json *json, const char *key, double value);
void json_word(bench_json *json, const char *key, const char *value);
void json_truth(bench_json *json, const char *key, bool value);

#endif
