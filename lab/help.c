// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab help`: a page per command. docs/lab.md says the same at more length.
#include "lab/commands.h"

#include <stdio.h>
#include <string.h>

static const char overview[] = "usage: qsa-lab COMMAND [OPTION...]\n"
                               "\n"
                               "  list                   kernels, timed cases, frozen baselines, attempts\n"
                               "  freeze KERNEL[=NAME]   keeps a baseline\n"
                               "  prove KERNEL           compares every output byte of a candidate with a baseline\n"
                               "  time KERNEL            null gate, samples and interval; no record\n"
                               "  run KERNEL             freeze, prove, null, time, judge, record\n"
                               "  judge RECORD           the verdict, computed again from the record alone\n"
                               "  report [RECORD...]     one self-contained HTML page\n"
                               "  cheats                 the zoo: kernels that try to win falsely\n"
                               "  compare KERNEL         one shape: memcmp, then alternating pairs\n"
                               "  pipeline               every buffer of a whole step, each kernel timed\n"
                               "  layout NAME            which lanes and elements an instruction combines\n"
                               "  help COMMAND           options of a command\n"
                               "\n"
                               "exit code: 0 keep, 1 reject, 2 inconclusive, 3 usage, bad file, or the lab failed\n";

#define ARMS                                                                                                           \
    "  --candidate FILE         one C file against the kernel's contract header; one .cu file for a GPU (score topk\n" \
    "                           attend merge gate prep commit)\n"                                                      \
    "  --baseline SHA|NAME|ROW  a frozen baseline or a row of the table (the row that this machine picks; cuda)\n"     \
    "  --where W                instruction set of the candidate (its name's, else the baseline's)\n"                  \
    "  --frozen DIR             where baselines are (lab/frozen)\n"
#define SEED "  --seed N                 of everything random (5)\n"
#define JSON "  --json                   prints one JSON object and nothing else\n"
#define PROOF                                                                                                          \
    "  --cases N                random calls (200)\n"                                                                  \
    "  --short-grid             rows beside the budget only, not the whole grid\n"                                     \
    "  --bound                  attend: held to the bound of class fast, not to memcmp\n"
#define TIMES                                                                                                          \
    "  --processes N            processes at least (9)\n"                                                              \
    "  --pairs N                blocks of each kind in a process (12)\n"                                               \
    "  --floor PERCENT          raises the effect floor of the case file\n"                                            \
    "  --limit SECONDS          how long processes are added for the nulls to fit (60)\n"

static const struct {
    const char *command, *text;
} pages[] = {
    {"list",
     "usage: qsa-lab list [--frozen DIR] [--ledger DIR] [--json]\n\nChecks the chain of the ledger on the way.\n"},
    {"freeze", "usage: qsa-lab freeze KERNEL[=NAME] [--from FILE|ROW|cuda] [--where W] [--frozen DIR] [--json]\n\n"
               "Keeps a row of the table (the one that this machine picks), a file, or with --from cuda the row of a "
               "GPU as a baseline.\n"},
    {"prove", "usage: qsa-lab prove KERNEL --candidate FILE [OPTION...]\n\n" ARMS PROOF SEED JSON},
    {"time",
     "usage: qsa-lab time KERNEL --candidate FILE [OPTION...]\n\nProves, times and judges; keeps no record.\n\n" ARMS
         PROOF TIMES SEED JSON},
    {"run", "usage: qsa-lab run KERNEL --candidate FILE [OPTION...]\n\n" ARMS PROOF TIMES
            "  --ledger DIR             where records are kept (lab/ledger)\n" SEED JSON},
    {"judge", "usage: qsa-lab judge RECORD [--json]\n\nThe exit code is the verdict's.\n"},
    {"report", "usage: qsa-lab report [RECORD...] -o FILE.html [--ledger DIR]\n\nWithout RECORD: the whole ledger.\n"},
    {"cheats", "usage: qsa-lab cheats [--short] [OPTION...]\n\n"
               "Exit code 0 if every cheat is refused for its own reason and every honest kernel is not refused.\n\n"
               "  --short                  without live timing of the honest ones\n"
               "  --processes, --pairs, --limit  of the live timing, as for run\n" SEED JSON},
    {"compare",
     "usage: qsa-lab compare KERNEL --tokens T --pos P --baseline B --candidate FILE [OPTION...]\n\n"
     "Every row of T tokens from position P on.\n\n" ARMS TIMES
     "  --layers N               calls of a batch at least (12)\n"
     "  --edge 0|1|2             ordinary numbers, signed zeros and ties, sums that nearly cancel\n" SEED JSON},
    {"pipeline", "usage: qsa-lab pipeline --baseline B --candidate FILE --tokens N --pos P [OPTION...]\n\n"
                 "A whole step with either arm in its kernel's place; the file's name says which kernel.\n\n"
                 "  --prep-only              queries, keys and block keys only\n"
                 "  --pairs N                alternating pairs of steps (12)\n"
                 "  --edge 0|1|2             as for compare\n" SEED JSON},
    {"layout", "usage: qsa-lab layout vpdpbusd|vpmaddubsw|sdot|amx|mma|wgmma [--json]\n\n"
               "Compiles and runs a probe, where a machine or an emulator for it is there; mma and wgmma on a GPU.\n"},
};

bool lab_help(const char *command) {
    if (!command)
        return fputs(overview, stdout) >= 0;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].command, command) == 0)
            return fputs(pages[i].text, stdout) >= 0;
    return false;
}
