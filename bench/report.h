// SPDX-License-Identifier: Apache-2.0
//
// A result on stdout: a few lines, a row of a table, or JSON.

#ifndef QSA_BENCH_REPORT_H
#define QSA_BENCH_REPORT_H

#include "bench/json.h"
#include "bench/measure.h"

void report_lines(const bench_result *result);
void report_table_head(void);
void report_table_row(const bench_result *result);
// One object.
void report_json(bench_json *json, const bench_result *result);

#endif
