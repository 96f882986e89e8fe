// SPDX-License-Identifier: Apache-2.0
//
// The commands. Each returns the exit code, and prints to stdout; a refusal goes to `error` and gives LAB_BAD.

#ifndef QSA_LAB_COMMANDS_H
#define QSA_LAB_COMMANDS_H

#include "lab/options.h"

typedef int (*lab_command_fn)(const lab_options *options, bench_error *error);

int cmd_list(const lab_options *options, bench_error *error);
int cmd_freeze(const lab_options *options, bench_error *error);
int cmd_prove(const lab_options *options, bench_error *error);
int cmd_time(const lab_options *options, bench_error *error);
int cmd_run(const lab_options *options, bench_error *error);
int cmd_judge(const lab_options *options, bench_error *error);
int cmd_report(const lab_options *options, bench_error *error);
int cmd_cheats(const lab_options *options, bench_error *error);
int cmd_compare(const lab_options *options, bench_error *error);
int cmd_pipeline(const lab_options *options, bench_error *error);
int cmd_layout(const lab_options *options, bench_error *error);

// The page of a command, or the overview.
bool lab_help(const char *command);

#endif
