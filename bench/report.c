// SPDX-License-Identifier: Apache-2.0
//
// Words around the numbers of one measurement.

#include "bench/report.h"

#include <math.h>

static const char *class_name(const bench_result *r) {
    return r->options->kernel_class == QSA_CLASS_FAST ? "fast" : "strict";
}

static double per_second(double work, const bench_result *r) {
    return r->median_ms > 0 ? work / (r->median_ms * 1e-3) * 1e-9 : 0;
}

static double spread(const bench_result *r) {
    return r->median_ms > 0 ? (r->max_ms - r->min_ms) / r->median_ms : 0;
}

static void report_input(const bench_result *r) {
    const bench_options *o = r->options;
    printf("input    %d token%s at %d, %d sequence%s, %s cache, %s block keys, %s, %d thread%s\n", (int)r->tokens,
           r->tokens == 1 ? "" : "s", (int)r->pos, (int)r->seqs, r->seqs == 1 ? "" : "s", bench_type_name(o->kv),
           bench_type_name(o->block_keys), o->cold ? "cold" : "hot", (int)o->threads, o->threads == 1 ? "" : "s");
    if (!r->selects)
        return;
    printf("rows     selection %s, logits of standard deviation %.3g", bench_selection_name[r->selection], r->logits);
    if (r->union8 > 0)
        printf(", union of 8 rows %.2f", r->union8);
    if (r->union16 > 0)
        printf(", of 16 %.2f", r->union16);
    if (r->jaccard > 0)
        printf(", neighbours' Jaccard index %.2f", r->jaccard);
    printf("\n");
}

static void report_beside(const bench_result *r) {
    if (r->id == BENCH_TOPK)
        printf("score    %.4g ms in the same run; topk is %.1f %% of it\n", r->score_ms,
               100 * r->median_ms / r->score_ms);
    if (r->id == BENCH_PREP)
        printf("fused    %.4g ms in the same run, as qsa_forward does it\n", r->fused_ms);
    if (r->id == BENCH_STEP)
        printf("score    score-topk %.4g ms in the same run\n", r->score_topk_ms);
    if (r->against_pos >= 0)
        printf("against  pos %d: step %.4g ms, score-topk %.4g ms; step differs by %.4g ms, score-topk by %.4g ms\n",
               (int)r->against_pos, r->against_step_ms, r->against_score_topk_ms, r->median_ms - r->against_step_ms,
               r->score_topk_ms - r->against_score_topk_ms);
}

void report_lines(const bench_result *r) {
    printf("case     %s, class %s, kernels %s\n", bench_case_name[r->id], class_name(r), r->kernel);
    report_input(r);
    printf("time     median %.4g ms, min %.4g, max %.4g, spread %.1f %%; %d samples of %d call%s\n", r->median_ms,
           r->min_ms, r->max_ms, 100 * spread(r), (int)r->samples, (int)r->calls, r->calls == 1 ? "" : "s");
    if (r->options->backend == QSA_BACKEND_CPU)
        report_beside(r);
    printf("work     %.4g MFLOP, %.4g MB", r->work.operations * 1e-6, r->work.bytes * 1e-6);
    if (r->work.gathered > 0)
        printf(" (%.4g MB of keys and values if no row shared any)", r->work.gathered * 1e-6);
    printf("\nrate     %.4g GFLOP/s, %.4g GB/s\n", per_second(r->work.operations, r), per_second(r->work.bytes, r));
    if (r->options->backend == QSA_BACKEND_CUDA) {
        printf("roofs    copy %.4g GB/s, gather out of L2 %.4g GB/s, mma %.4g TFLOP/s (%s), between the samples\n",
               r->device_roof[0], r->device_roof[1], r->device_roof[2], r->loops);
        printf("of roof  copy %.3f, gather %.3f, mma %.3f\n", r->of_read, r->of_gather, r->of_fma);
        return;
    }
    printf("roofs    ");
    for (int roof = 0; roof < ROOFS; roof++)
        printf("%s%s %.4g %s", roof ? ", " : "", roof_name[roof], r->roof.of[roof], roof_unit[roof]);
    printf(" (%s), between the samples\n", r->loops);
    printf("of roof  %.3f of %s (fma %.3f, dot %.3f, read %.3f)\n", r->of_roof, roof_name[r->bound], r->of_fma,
           r->of_dot, r->of_read);
    printf("fit      %s: %s moved by up to %.1f %% between samples, run %d of 3; %lld involuntary switches\n",
           r->fit ? "yes" : "no", roof_name[r->bound], 100 * r->moved, r->runs, (long long)r->switches);
}

void report_table_head(void) {
    printf("%-10s %6s %7s %-6s %10s %10s %7s %9s %8s %8s  %s\n", "case", "tokens", "pos", "select", "median ms",
           "min ms", "spread", "GFLOP/s", "GB/s", "of roof", "kernels");
}

void report_table_row(const bench_result *r) {
    if (r->options->backend == QSA_BACKEND_CUDA) {
        printf("%-10s %6d %7d %-6s %10.4g %10.4g %5.1f %% %9.4g %8.4g %5.3f %-4s %s\n", bench_case_name[r->id],
               (int)r->tokens, (int)r->pos, r->selects ? bench_selection_name[r->selection] : "-", r->median_ms,
               r->min_ms, 100 * spread(r), per_second(r->work.operations, r), per_second(r->work.bytes, r), r->of_roof,
               r->of_read > r->of_fma ? "copy" : "mma", r->kernel);
        fflush(stdout);
        return;
    }
    printf("%-10s %6d %7d %-6s %10.4g %10.4g %5.1f %% %9.4g %8.4g %5.3f %-4s%s %s\n", bench_case_name[r->id],
           (int)r->tokens, (int)r->pos, r->selects ? bench_selection_name[r->selection] : "-", r->median_ms, r->min_ms,
           100 * spread(r), per_second(r->work.operations, r), per_second(r->work.bytes, r), r->of_roof,
           roof_name[r->bound], r->fit ? "" : " UNFIT", r->kernel);
    if (r->id == BENCH_TOPK || r->id == BENCH_STEP || r->id == BENCH_PREP)
        report_beside(r);
    fflush(stdout);
}

static void json_against(bench_json *json, const bench_result *r) {
    json_open(json, "against", '{');
    json_number(json, "pos", r->against_pos);
    json_number(json, "step_ms", r->against_step_ms);
    json_number(json, "score_topk_ms", r->against_score_topk_ms);
    json_close(json, '}');
}

// What is not among the keys that every reader may rely on.
static void json_detail(bench_json *json, const bench_result *r) {
    const bench_options *o = r->options;
    json_open(json, "detail", '{');
    json_number(json, "seqs", r->seqs);
    json_word(json, "block_keys", bench_type_name(o->block_keys));
    json_word(json, "caches", o->cold ? "cold" : "hot");
    if (r->selects) {
        json_word(json, "selection", bench_selection_name[r->selection]);
        json_number(json, "logits", r->logits);
    }
    if (r->union8 > 0)
        json_number(json, "union8", r->union8);
    if (r->union16 > 0)
        json_number(json, "union16", r->union16);
    if (r->jaccard > 0)
        json_number(json, "jaccard", r->jaccard);
    if (r->id == BENCH_PREP)
        json_number(json, "fused_ms", r->fused_ms);
    json_number(json, "operations", r->work.operations);
    json_number(json, "bytes", r->work.bytes);
    json_number(json, "gathered_bytes", r->work.gathered);
    json_number(json, "spread", spread(r));
    json_number(json, "samples", r->samples);
    json_number(json, "calls", r->calls);
    json_number(json, "runs", r->runs);
    json_number(json, "moved", r->moved);
    json_number(json, "switches", (double)r->switches);
    json_number(json, "of_fma", r->of_fma);
    json_number(json, "of_dot", r->of_dot);
    json_number(json, "of_read", r->of_read);
    json_word(json, "loops", r->loops);
    json_close(json, '}');
}

void report_json(bench_json *json, const bench_result *r) {
    json_open(json, NULL, '{');
    json_word(json, "case", bench_case_name[r->id]);
    json_word(json, "kernel", r->kernel);
    json_word(json, "class", class_name(r));
    json_number(json, "tokens", r->tokens);
    json_number(json, "pos", r->pos);
    json_word(json, "kv", bench_type_name(r->options->kv));
    json_number(json, "threads", r->options->threads);
    json_open(json, "ms", '{');
    json_number(json, "median", r->median_ms);
    json_number(json, "min", r->min_ms);
    json_number(json, "max", r->max_ms);
    json_close(json, '}');
    json_number(json, "gflops", per_second(r->work.operations, r));
    json_number(json, "gbps", per_second(r->work.bytes, r));
    const bool device = r->options->backend == QSA_BACKEND_CUDA;
    json_open(json, "roof", '{');
    for (int roof = 0; roof < ROOFS && !device; roof++)
        json_number(json, roof_name[roof], r->roof.of[roof]);
    if (device) {
        json_number(json, "copy", r->device_roof[0]);
        json_number(json, "gather", r->device_roof[1]);
        json_number(json, "mma", r->device_roof[2]);
    }
    json_close(json, '}');
    json_word(json, "bound", device ? r->of_read > r->of_fma ? "copy" : "mma" : roof_name[r->bound]);
    json_number(json, "of_roof", r->of_roof);
    json_truth(json, "fit", r->fit);
    if (device) {
        json_word(json, "backend", "cuda");
        json_truth(json, "graph", r->options->graph);
    }
    if (r->id == BENCH_TOPK)
        json_number(json, "score_ms", r->score_ms);
    if (r->id == BENCH_STEP)
        json_number(json, "score_topk_ms", r->score_topk_ms);
    if (r->against_pos >= 0)
        json_against(json, r);
    json_detail(json, r);
    json_close(json, '}');
}
