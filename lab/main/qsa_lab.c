// SPDX-License-Identifier: Apache-2.0
//
// The `qsa-lab` command: finds the command in a table, runs it, and leaves nothing behind.

#include "lab/commands.h"
#include "lab/process.h"
#include "lab/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    lab_command_fn run;
} commands[] = {
    {"list", cmd_list},       {"freeze", cmd_freeze}, {"prove", cmd_prove},       {"time", cmd_time},
    {"run", cmd_run},         {"judge", cmd_judge},   {"report", cmd_report},     {"cheats", cmd_cheats},
    {"compare", cmd_compare}, {"layout", cmd_layout}, {"pipeline", cmd_pipeline},
};

static int refuse(const bench_error *error) {
    bench_refuse("qsa-lab", error);
    return LAB_BAD;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run(lab_command_fn command, int argc, char **argv) {
    lab_options options;
    bench_error error = {""};
    if (!lab_options_read(&options, argc, argv, &error))
        return refuse(&error);
    lab_watch_interrupts();
    const int code = command(&options, &error);
    lab_scratch_remove();
    return code == LAB_BAD ? refuse(&error) : code;
}

int main(int argc, char **argv) {
    bench_error error = {""};
    const char *name = argc > 1 ? argv[1] : "";
    int code = -1;
    if (argc < 2) {
        bench_say(&error, "no command given (qsa-lab help lists them)");
        return refuse(&error);
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        code = lab_help(argc > 2 ? argv[2] : NULL) ? LAB_KEEP : LAB_BAD;
        if (code == LAB_BAD)
            bench_say(&error, "help %s: no such command (qsa-lab help lists them)", argv[2]);
    }
    for (size_t i = 0; code < 0 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0) {
            if (asks_for_help(argc - 1, argv + 1))
                code = lab_help(name) ? LAB_KEEP : LAB_BAD;
            else
                code = run(commands[i].run, argc - 1, argv + 1);
            error.text[0] = '\0';
            break;
        }
    if (code < 0)
        bench_say(&error, "unknown command %s (qsa-lab help lists them)", name);
    if (code < 0 || (code == LAB_BAD && error.text[0]))
        return refuse(&error);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        bench_say(&error, "writing to stdout: %s", strerror(errno));
        return refuse(&error);
    }
    return code;
}
