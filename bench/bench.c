// SPDX-License-Identifier: Apache-2.0
//
// The command: one case, the standard table, or the numbers of a picture.

#include "bench/bench.h"

#include "bench/report.h"
#include "bench/sweep.h"

#include <errno.h>
#include <string.h>

// The standard table.
static const struct {
    bench_id id;
    int32_t tokens, pos, against;
    bench_selection selection;
} standard[] = {
    {BENCH_PROMPT, 512, 30000, -1, BENCH_RANDOM}, {BENCH_PROMPT, 512, 30000, -1, BENCH_WALK},
    {BENCH_DECODE, 1, 32768, -1, BENCH_RANDOM},   {BENCH_SCORE, 1, 262144, -1, BENCH_RANDOM},
    {BENCH_TOPK, 1, 262144, -1, BENCH_RANDOM},    {BENCH_SCORE_TOPK, 1, 262144, -1, BENCH_RANDOM},
    {BENCH_PREP, 1, 30000, -1, BENCH_RANDOM},     {BENCH_PREP, 512, 30000, -1, BENCH_RANDOM},
    {BENCH_MERGE, 1, 32768, -1, BENCH_RANDOM},    {BENCH_STEP, 1, 262144, 4096, BENCH_RANDOM},
};

// What the options say replaces the table's own, so that a small machine can run it too.
static bool run_table(const bench_options *o, bench_json *json, bench_error *error) {
    if (json)
        json_open(json, NULL, '[');
    else
        report_table_head();
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        bench_options row = *o;
        bench_result result;
        row.tokens = o->tokens >= 0 ? o->tokens : standard[i].tokens;
        row.pos = o->pos >= 0 ? o->pos : standard[i].pos;
        row.against = standard[i].against;
        row.selection = standard[i].selection;
        if (!bench_measure(&result, &row, standard[i].id, error))
            return false;
        if (json)
            report_json(json, &result);
        else
            report_table_row(&result);
    }
    if (json)
        json_close(json, ']');
    return true;
}

static bool run_case(const bench_options *o, bench_json *json, bench_error *error) {
    bench_result result;
    if (!bench_measure(&result, o, o->id, error))
        return false;
    if (json)
        report_json(json, &result);
    else
        report_lines(&result);
    return true;
}

static bool run_plot(const bench_options *o, bench_draw draw, bench_error *error) {
    bench_sweep sweep;
    return draw && bench_sweep_run(&sweep, o, error) && draw(&sweep, o->plot, error);
}

int bench_main(const char *program, int argc, char **argv, bench_draw draw) {
    bench_error error = {""};
    bench_options options;
    bench_json writer = {.to = stdout}, *json = &writer;
    if (!bench_parse(&options, argc, argv, draw != NULL, &error))
        return bench_refuse(program, &error);
    json = options.json ? json : NULL;
    // A class or kernel that is not there is refused before anything is filled or printed.
    qsa_context *context = world_context(&options, &error);
    if (!context)
        return bench_refuse(program, &error);
    qsa_context_destroy(context);
    const bool done = options.plot ? run_plot(&options, draw, &error)
                                   : (options.id == BENCH_ALL ? run_table : run_case)(&options, json, &error);
    if (!done)
        return bench_refuse(program, &error);
    if (json)
        putchar('\n');
    if (fflush(stdout) != 0 || ferror(stdout)) {
        bench_say(&error, "writing to stdout: %s", strerror(errno));
        return bench_refuse(program, &error);
    }
    return 0;
}
