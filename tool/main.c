// SPDX-License-Identifier: Apache-2.0
//
// The `qsa` command: finds the command in a table and runs it.

#include "commands.h"
#include "common.h"

#include <errno.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"run", cmd_run},
    {"check", cmd_check},
    {"inspect", cmd_inspect},
    {"bench", cmd_bench},
    {"make-checkpoint", cmd_make_checkpoint},
    {"size", cmd_size},
    {"info", cmd_info},
    {"version", cmd_version},
    {"help", cmd_help},
};

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int dispatch(int argc, char **argv) {
    tool_error error = {""};
    const char *name = argv[0];
    if (strcmp(name, "--version") == 0) {
        name = "version";
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            if (asks_for_help(argc, argv)) {
                help_print(name, stdout);
                return TOOL_OK;
            }
            return commands[i].run(argc, argv);
        }
    }
    tool_fail(&error, "unknown command %s (qsa help lists them)", name);
    return tool_report(NULL, &error);
}

int main(int argc, char **argv) {
    tool_error error = {""};
    if (argc < 2) {
        tool_fail(&error, "no command given (qsa help lists them)");
        return tool_report(NULL, &error);
    }
    const int code = dispatch(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        tool_fail(&error, "writing to stdout: %s", strerror(errno));
        return tool_report(NULL, &error);
    }
    return code;
}
