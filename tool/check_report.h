// SPDX-License-Identifier: Apache-2.0
//
// What `qsa check` says: a table of the tensors and a paragraph for people, or one JSON object.

#ifndef QSA_TOOL_CHECK_REPORT_H
#define QSA_TOOL_CHECK_REPORT_H

#include "check_stage.h"

typedef struct check_report {
    const char *dump_path;
    const char *against;
    const pipeline *run;
    const check_result *result;
} check_report;

void check_print_table(const check_report *report);
bool check_print_json(const check_report *report, tool_error *error);

#endif
