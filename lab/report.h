// SPDX-License-Identifier: Apache-2.0
//
// The report: one HTML page with its style and pictures in it, no script, nothing from elsewhere.

#ifndef QSA_LAB_REPORT_H
#define QSA_LAB_REPORT_H

#include "lab/record.h"

#include <stdio.h>

// The page of these records, in the order given. Everything from a record is escaped.
void report_page(FILE *to, json_t *const *records, size_t count);

// Text with <, >, & and quotes made harmless.
void report_text(FILE *to, const char *text);

// Pictures: the blocks of one case, and all attempts over time.
void report_blocks(FILE *to, json_t *plan_case, json_t *sample, json_t *judged);
void report_ledger(FILE *to, json_t *const *records, size_t count);

// Percent of time that a d stands for.
double report_percent(double d);
const char *report_class(const char *verdict);

#endif
