// SPDX-License-Identifier: Apache-2.0
//
// Options of the commands: getopt_long's loop and the values that several commands take. A refusal is one line that
// names the option and the value, and lists what would be right.

#ifndef QSA_TOOL_ARGS_H
#define QSA_TOOL_ARGS_H

#include "pipeline.h"

#include <getopt.h>

// The next option as getopt_long gives it (-1 at the end), -2 and a line for one that is unknown, ambiguous, or lacks
// its value. The table's `val`s are above 255. args_start goes before the first; argv[0] is the command's name.
void args_start(void);
int args_next(int argc, char **argv, const char *short_options, const struct option *options, tool_error *error);

// Takes exactly one operand ("FILE") from argv[optind]; a missing or further one is refused.
bool args_one_file(int argc, char **argv, const char **file, tool_error *error);

// Values. `option` is the name for the message, "--chunk".
bool args_count(const char *option, const char *text, int32_t least, int32_t most, int32_t *value, tool_error *error);
bool args_real(const char *option, const char *text, double *value, tool_error *error);

// Options of a pipeline: codes for a `struct option` table and the function that stores one. Options that a command
// does not list cannot occur.
enum {
    ARGS_KV = 1000,
    ARGS_BLOCK_KEYS,
    ARGS_SELECT,
    ARGS_CLASS,
    ARGS_BACKEND,
    ARGS_KERNEL,
    ARGS_THREADS,
    ARGS_CHUNK,
    ARGS_ALL_ROWS,
    ARGS_OWN = 2000, // a command's own codes start here
};
// clang-format off
#define ARGS_PIPELINE_OPTIONS                                                                                          \
    {"kv", required_argument, NULL, ARGS_KV}, {"block-keys", required_argument, NULL, ARGS_BLOCK_KEYS},                \
    {"select", required_argument, NULL, ARGS_SELECT}, {"class", required_argument, NULL, ARGS_CLASS},                  \
    {"backend", required_argument, NULL, ARGS_BACKEND}, {"kernel", required_argument, NULL, ARGS_KERNEL},              \
    {"threads", required_argument, NULL, ARGS_THREADS}, {"chunk", required_argument, NULL, ARGS_CHUNK},                \
    {"all-rows", no_argument, NULL, ARGS_ALL_ROWS}
// clang-format on
bool args_pipeline(int code, const char *value, pipeline_options *options, tool_error *error);

#endif
