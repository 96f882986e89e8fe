// SPDX-License-Identifier: Apache-2.0
//
// The table that `qsa run` prints for people.

#include "run_report.h"

#include "io/io_util.h"
#include "kernel_list.h"

#include <stdio.h>

static const char *const stage_names[PIPELINE_STAGES] = {"project", "prep", "score", "topk", "attend", "merge"};

static void print_input(const run_report *report) {
    const pipeline *run = report->run;
    const layer_file *file = run->file;
    const qsa_geometry *g = &file->geometry;
    const pipeline_options *o = &run->options;
    printf("file       %s\n", io_quote_string(report->path).text);
    if (report->model) {
        printf("weights    layer %d of %s\n", report->layer, io_quote_string(report->model).text);
    }
    printf("geometry   %d / %d heads x %d, indexer %d x %d, rotary %d (%d %d %d), theta %g, eps %g\n", g->heads,
           g->kv_heads, g->head_dim, g->index_heads, g->index_dim, g->rotary_dim, g->sections[0], g->sections[1],
           g->sections[2], g->theta, (double)g->eps);
    printf("           budget %d, ratio %d, hidden size %d\n", g->budget, g->ratio, file->hidden);
    printf("input      %d sequence%s of %d tokens: %lld cells, %lld rows attend\n", file->batch,
           file->batch == 1 ? "" : "s", file->tokens, (long long)run->tokens, (long long)run->attending);
    printf("run        backend %s, class %s, kv %s, block keys %s, select %s, threads %d, chunk %d\n",
           tool_backend_name(o->backend), tool_class_name(o->kernel_class), tool_type_name(o->kv),
           tool_type_name(o->block_keys), tool_rule_name(o->rule), o->threads, o->chunk);
    printf("projection OpenBLAS core %s, 1 thread, blocks of %d tokens\n", projection_core(), PROJECTION_BLOCK);
}

static void print_costs(const pipeline *run) {
    printf("memory     cache %.2f MiB, workspace %.2f MiB\n", (double)run->cache_bytes / 1048576,
           (double)run->workspace_bytes / 1048576);
    qsa_cache_events events = {.size = sizeof events};
    if (qsa_cache_get_events(run->cache, &events) == QSA_OK && (events.nan || events.infinite || events.saturated)) {
        printf("changed    %llu NaN, %llu infinite, %llu saturated values went into the cache\n",
               (unsigned long long)events.nan, (unsigned long long)events.infinite,
               (unsigned long long)events.saturated);
    }
    printf("\nstage             ms  kernels\n");
    for (int i = 0; i < PIPELINE_STAGES; i++) {
        printf("%-9s %10.2f  %s\n", stage_names[i], run->ms[i],
               i == PIPELINE_PROJECT ? "sgemm" : kernel_used(run->context, run->cache, stage_names[i], " ").text);
    }
    printf("%-9s %10.2f  %.1f tokens/s\n\n", "total", run->total_ms,
           run->total_ms > 0 ? (double)run->tokens / run->total_ms * 1e3 : 0.0);
}

static void print_errors(const run_report *report) {
    const comparison *result = report->result;
    if (!result->any) {
        printf("nothing to compare: the file holds no expected tensors%s\n",
               report->run->options.rule == QSA_RULE_CUT ? " that --select cut can be compared with" : "");
        return;
    }
    printf("tensor        rel l2     max abs  against the file\n");
    for (int i = 0; i < RESULT_TENSORS; i++) {
        const compare_error *error = &result->error[i];
        const bool judged = i == RESULT_ATTN || i == RESULT_OUT;
        if (error->compared) {
            printf("%-9s %10.3g  %10.3g", result_name((result_tensor)i), error->rel_l2, error->max_abs);
            if (judged) {
                printf("  %s %g", error->rel_l2 <= report->tolerance ? "within" : "ABOVE", report->tolerance);
            }
            printf("\n");
        }
    }
    if (result->selection) {
        printf("selection  %lld equal, %lld tie, %lld near, %lld wrong\n", (long long)result->rows[COMPARE_EQUAL],
               (long long)result->rows[COMPARE_TIE], (long long)result->rows[COMPARE_NEAR],
               (long long)result->rows[COMPARE_WRONG]);
    }
}

void run_print_table(const run_report *report) {
    print_input(report);
    print_costs(report->run);
    print_errors(report);
    printf("attn       sha256 %s\n", report->attn_sha256);
    if (report->result->any) {
        printf("%s\n", report->ok ? "ok" : "DIFFERENT");
    }
}
