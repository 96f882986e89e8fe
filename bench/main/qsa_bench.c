// SPDX-License-Identifier: Apache-2.0
//
// qsa-bench: `qsa bench` for builds without the tool. The same cases, options and JSON; no pictures.

#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(bench_help, stdout);
            return fflush(stdout) != 0;
        }
    }
    return bench_main("qsa-bench", argc, argv, NULL);
}
