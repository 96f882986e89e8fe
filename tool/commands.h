// SPDX-License-Identifier: Apache-2.0
//
// The commands: `argv[0]` is the command's own name, the result is the exit code. `--help` never reaches them.

#ifndef QSA_TOOL_COMMANDS_H
#define QSA_TOOL_COMMANDS_H

#include <stdio.h>

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_make_checkpoint(int argc, char **argv);
int cmd_size(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

// The help page of a command, or of all for NULL. 0 for a name that is no command, and then nothing is printed.
int help_print(const char *command, FILE *to);

#endif
