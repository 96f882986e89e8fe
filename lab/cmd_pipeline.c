// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab pipeline`: a whole step with the baseline in its kernel's place, and one with the candidate; every buffer compared, every
// kernel timed in alternating pairs. It makes no claim: that is `run`.
#include "lab/commands.h"
#include "lab/pair.h"
#include "lab/process.h"
#include "lab/prove.h"
#include "lab/record.h"
#include "lab/scratch.h"
#include "lab/stats.h"
#include "lab/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 100, SECONDS = 120, LOCK_SECONDS = 300 };

typedef struct pipeline_report {
    bool finished, differs;
    char reason[300], buffer[32];
    lab_difference difference;
    int compared;
    size_t bytes;
    int pairs;
    double seconds[2][QSA_K_COUNT][MOST_PAIRS];
    int32_t calls[QSA_K_COUNT];
} pipeline_report;

typedef struct pipeline_job {
    const lab_pair *pair;
    step_shape shape;
    int pairs;
    pipeline_report *report;
    bench_error error;
} pipeline_job;

static void pick_all(qsa_kernel_set *set, qsa_kernel_number number, qsa_kernel_fn function) {
    for (int i = 0; i < QSA_K_COUNT; i++)
        qsa_table_pick(set, qsa_table_best((qsa_kernel_number)i, QSA_CLASS_STRICT));
    const qsa_kernel_row row = {.number = number, .function = function};
    qsa_table_pick(set, &row);
}

// The first buffer that differs, described like a proof's difference.
static bool compare(pipeline_report *report, const step *a, const step *b) {
    static const size_t sizes[] = {1, 4, 2, 2, 1, 2, 4, 8};
    for (int i = 0; i < a->buffers; i++) {
        const step_buffer *x = &a->buffer[i], *y = &b->buffer[i];
        report->compared++;
        report->bytes += x->size;
        if (memcmp(x->bytes, y->bytes, x->size) == 0)
            continue;
        size_t at = 0;
        while (x->bytes[at] == y->bytes[at])
            at++;
        kernel_case c = {.buffer[0] = {.name = x->name,
                                       .element = x->element,
                                       .size = x->size / sizes[x->element] * sizes[x->element],
                                       .at = y->bytes,
                                       .want = x->bytes},
                         .difference = {0, (int64_t)at, false}};
        lab_describe(&c, &report->difference);
        report->differs = true;
        return false;
    }
    return true;
}

static void note_times(pipeline_report *report, int arm, const step *s) {
    for (int i = 0; i < QSA_K_COUNT; i++) {
        report->seconds[arm][i][report->pairs] = s->seconds[i];
        report->calls[i] = s->calls[i];
    }
}

static void child(void *arg) {
    pipeline_job *job = arg;
    pipeline_report *report = job->report;
    qsa_kernel_set sets[2];
    step *steps[2];
    bench_error error = {""};
    const lab_arm *arms[2] = {&job->pair->baseline, &job->pair->candidate};
    for (int i = 0; i < 2; i++) {
        const qsa_kernel_fn function = lab_arm_load(arms[i]->object, arms[i]->entry, &error);
        steps[i] = function ? step_open(&job->shape, &error) : NULL;
        if (!steps[i]) {
            snprintf(report->reason, sizeof report->reason, "%.290s", error.text);
            return;
        }
        pick_all(&sets[i], job->pair->number, function);
        step_run(steps[i], &sets[i]);
    }
    if (compare(report, steps[0], steps[1]))
        for (; report->pairs < job->pairs; report->pairs++)
            for (int i = 0; i < 2; i++) {
                const int arm = (i + report->pairs) % 2;
                step_run(steps[arm], &sets[arm]);
                note_times(report, arm, steps[arm]);
            }
    report->finished = true;
    step_close(steps[0]);
    step_close(steps[1]);
}

static void medians(pipeline_report *report, int kernel, double median[2], double least[2]) {
    for (int arm = 0; arm < 2; arm++) {
        const int calls = report->calls[kernel] ? report->calls[kernel] : 1;
        median[arm] = stats_median(report->seconds[arm][kernel], report->pairs) * 1e6 / calls;
        least[arm] = report->seconds[arm][kernel][0] * 1e6 / calls; // sorted by now
    }
}

static json_t *times_json(pipeline_report *report) {
    json_t *list = json_array();
    for (int i = 0; report->pairs > 0 && i < QSA_K_COUNT; i++) {
        double median[2], least[2];
        if (report->calls[i] == 0)
            continue;
        medians(report, i, median, least);
        json_array_append_new(list, json_pack("{s:s, s:i, s:[f,f], s:[f,f]}", "kernel",
                                              lab_kernel_name((qsa_kernel_number)i), "calls", (int)report->calls[i],
                                              "median_us", median[0], median[1], "min_us", least[0], least[1]));
    }
    return list;
}

static void print_report(const lab_pair *pair, pipeline_report *report) {
    const char *name = lab_kernel_name(pair->number);
    printf("kernel     %s\nbaseline   %s  %.12s\ncandidate  %s  %.12s\n", name, pair->baseline.label, pair->baseline.id,
           pair->candidate.label, pair->candidate.id);
    if (report->differs) {
        const lab_difference *d = &report->difference;
        printf("memcmp FAIL\n  %s[%lld] is %s (%s), not %s (%s)\n", d->field, (long long)d->element, d->got,
               d->got_bits, d->want, d->want_bits);
        return;
    }
    printf("memcmp PASS  %d buffers, %.1f MiB\nmicroseconds of a call, baseline -> candidate, %d pairs\n",
           report->compared, (double)report->bytes / (1 << 20), report->pairs);
    for (int i = 0; i < QSA_K_COUNT; i++) {
        double median[2], least[2];
        if (report->calls[i] == 0)
            continue;
        medians(report, i, median, least);
        printf("%s %-13s %6d calls  median %9.3f -> %9.3f  minimum %9.3f -> %9.3f\n",
               i == (int)pair->number ? "*" : " ", lab_kernel_name((qsa_kernel_number)i), (int)report->calls[i],
               median[0], median[1], least[0], least[1]);
    }
}

static int say_report(const lab_pair *pair, pipeline_report *report, const lab_options *o) {
    if (!o->json) {
        print_report(pair, report);
    } else {
        json_t *out = json_pack("{s:s, s:b, s:i, s:o}", "kernel", lab_kernel_name(pair->number), "passed",
                                !report->differs, "buffers", report->compared, "times", times_json(report));
        const lab_difference *d = &report->difference;
        if (report->differs)
            json_object_set_new(out, "difference",
                                json_pack("{s:s, s:I, s:s, s:s, s:s, s:s}", "field", d->field, "element",
                                          (json_int_t)d->element, "got", d->got, "got_bits", d->got_bits, "want",
                                          d->want, "want_bits", d->want_bits));
        lab_print_json(out);
    }
    return report->differs ? LAB_REJECT : LAB_KEEP;
}

static int run_step(const lab_pair *pair, const lab_options *o, bench_error *error) {
    lab_outcome outcome;
    char how[64];
    pipeline_report *report = lab_share(sizeof *report);
    if (!report) {
        bench_say(error, "no memory for a report");
        return LAB_BAD;
    }
    pipeline_job job = {.pair = pair,
                        .shape = {o->tokens, o->pos, o->prep_only, (case_edge)o->edge, o->seed},
                        .pairs = o->pairs,
                        .report = report};
    int code = LAB_BAD;
    if (lab_lock(LOCK_SECONDS, error) && lab_child(child, &job, SECONDS, &outcome, error)) {
        lab_outcome_text(&outcome, how, sizeof how);
        const bool whole = outcome.how == LAB_EXITED && outcome.value == 0 && report->finished;
        if (whole && !report->differs && report->calls[pair->number] == 0)
            bench_say(error, "pipeline: %s does not run in a step of %d tokens at %d%s", lab_kernel_name(pair->number),
                      (int)o->tokens, (int)o->pos, o->prep_only ? " with --prep-only" : "");
        else if (whole)
            code = say_report(pair, report, o);
        else if (outcome.how == LAB_EXITED)
            bench_say(error, "pipeline: %s", report->reason[0] ? report->reason : how);
        else { // a step that dies is the candidate's: the baseline's runs first
            printf("reject: %s\n", how);
            code = LAB_REJECT;
        }
    }
    lab_unlock();
    lab_unshare(report, sizeof *report);
    return code;
}

int cmd_pipeline(const lab_options *o, bench_error *error) {
    static lab_pair pair;
    const int32_t most = o->prep_only ? STEP_PREP_TOKENS : STEP_TOKENS;
    if (o->operands > 0)
        bench_say(error, "pipeline takes no operand, and there is %s", o->operand[0]);
    else if (!o->has_tokens || !o->has_pos || !o->candidate || !o->baseline)
        bench_say(error, "pipeline needs --%s",
                  !o->has_tokens ? "tokens N"
                  : !o->has_pos  ? "pos P"
                  : o->baseline  ? "candidate FILE"
                                 : "baseline SHA|NAME|ROW");
    else if (o->tokens > most)
        bench_say(error, "--tokens %d: expected at most %d%s", (int)o->tokens, (int)most,
                  o->prep_only ? "" : " without --prep-only");
    if (error->text[0])
        return LAB_BAD;
    qsa_kernel_number number = QSA_K_COUNT;
    if (!lab_kernel_of_file(o->candidate, &number)) {
        bench_say(error, "--candidate %s: its name does not begin with a kernel's", o->candidate);
        return LAB_BAD;
    }
    const char *kernel = lab_kernel_name(number);
    if (!lab_pair_open(&pair, o, kernel, false, error))
        return LAB_BAD;
    int code = LAB_REJECT;
    if (pair.refused && o->json)
        lab_print_json(json_pack("{s:s, s:b, s:s}", "kernel", kernel, "passed", 0, "complaint", pair.reason));
    else if (pair.refused)
        printf("%s\nreject\n", pair.reason);
    else
        code = run_step(&pair, o, error);
    lab_pair_close(&pair);
    return code;
}
