// SPDX-License-Identifier: Apache-2.0
//
// `qsa bench`: the room bench/ does it; pictures are drawn here.

#include "bench_plot.h"
#include "commands.h"
#include "lab/folder.h"

int cmd_bench(int argc, char **argv) {
    bench_prepare = lab_folder_use;
    return bench_main("qsa", argc, argv, bench_plot);
}
