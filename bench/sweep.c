// SPDX-License-Identifier: Apache-2.0
//
// One world per context serves every stage: a cache of 1M cells is 1.2 GB in i8, and one at a time is enough.

#include "bench/sweep.h"

#include "bench/cases.h"
#include "bench/measure.h"

#include <stdio.h>
#include <unistd.h>

enum { LEAST_CONTEXT = 2048, MOST_CONTEXT = 1 << 20 };

typedef struct sweep_stage {
    const char *name;
    bench_id id;     // whose call
    bench_call call; // or this one
    bool appended;
} sweep_stage;

// In the order of the step: each finds what the one before left (scores for topk, records for merge).
static const sweep_stage stages[BENCH_SWEEP_STAGES] = {
    {"prep", BENCH_PREP, NULL, false},  {"score", BENCH_SCORE, NULL, true},
    {"topk", BENCH_TOPK, NULL, true},   {"attend", BENCH_ALL, bench_call_attend, true},
    {"merge", BENCH_MERGE, NULL, true}, {"step", BENCH_STEP, NULL, false},
};

static bool time_stages(bench_sweep *sweep, bench_world *world, bench_error *error) {
    bool right = world_select(world, world->options->selection, error);
    for (int s = 0; right && s < BENCH_SWEEP_STAGES; s++) {
        const bench_call call = stages[s].call ? stages[s].call : bench_case_of(stages[s].id)->call;
        double *ms = &sweep->ms[s][sweep->points];
        right = bench_time(world, call, stages[s].appended, world->options->samples, ms, error);
        *ms /= world->rows;
    }
    return right;
}

bool bench_sweep_run(bench_sweep *sweep, const bench_options *o, bench_error *error) {
    const int32_t most = o->pos >= 0 ? o->pos : MOST_CONTEXT, tokens = o->tokens >= 0 ? o->tokens : 1;
    *sweep = (bench_sweep){.points = 0};
    if (most < 2 * LEAST_CONTEXT || most > MOST_CONTEXT)
        return bench_fail(error, "--pos %d: the largest context of a picture is %d to %d", (int)most, 2 * LEAST_CONTEXT,
                          MOST_CONTEXT);
    snprintf(sweep->caption, sizeof sweep->caption,
             "qsa %s, class %s, %s cache, %s block keys, %d thread%s, %d row%s at a time", qsa_version_string(),
             o->kernel_class == QSA_CLASS_FAST ? "fast" : "strict", bench_type_name(o->kv),
             bench_type_name(o->block_keys), (int)o->threads, o->threads == 1 ? "" : "s", (int)tokens * (int)o->seqs,
             tokens * o->seqs == 1 ? "" : "s");
    for (int s = 0; s < BENCH_SWEEP_STAGES; s++)
        sweep->stage[s] = stages[s].name;
    qsa_context *context = world_context(o, error);
    bool right = context != NULL;
    for (int32_t cells = LEAST_CONTEXT; right && cells <= most; cells *= 2) {
        bench_world world = {0};
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "%d cells\n", (int)cells);
        right = world_open(&world, o, context, BENCH_ALL, cells, tokens, error) && time_stages(sweep, &world, error);
        sweep->context[sweep->points++] = cells;
        world_close(&world);
    }
    qsa_context_destroy(context);
    return right;
}
