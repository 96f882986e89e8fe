// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab run`, `time`, `compare` and `judge`: the stages in their order; a stage that fails ends the attempt.
#include "lab/cache.h"
#include "lab/commands.h"
#include "lab/device.h"
#include "lab/process.h"
#include "lab/record.h"
#include "lab/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double batch_seconds = 4e-3;

typedef struct attempt {
    const lab_options *options;
    lab_pair pair;
    timed_case cases[TIMED_CASES];
    int count;
    const prove_window *window; // compare: one shape
    json_t *record;
} attempt;

// ---- Words --------------------------------------------------------------------------------------

static double number_of(json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void print_series(const char *name, json_t *series, bool times) {
    if (!json_object_get(series, "estimate"))
        return;
    printf("  %-10s %+.2f %%  (%+.2f to %+.2f %%), faster in %d of %d processes, %d of %d blocks dropped\n", name,
           expm1(number_of(series, "estimate")) * 100, expm1(number_of(series, "low")) * 100,
           expm1(number_of(series, "high")) * 100, (int)number_of(series, "faster"),
           (int)number_of(series, "processes"), (int)number_of(series, "dropped"), (int)number_of(series, "blocks"));
    if (times && json_object_get(series, "median_a"))
        printf("  %-10s median %.4g -> %.4g us, minimum %.4g -> %.4g us\n", "", number_of(series, "median_a") * 1e-6,
               number_of(series, "median_b") * 1e-6, number_of(series, "min_a") * 1e-6,
               number_of(series, "min_b") * 1e-6);
}

static void print_pairs(json_t *sample) {
    size_t p, b;
    json_t *process, *block;
    printf("  ratio of every pair of batches, candidate / baseline:");
    json_array_foreach(json_object_get(sample, "processes"), p, process) {
        printf("\n   ");
        json_array_foreach(json_object_get(process, "pair"), b, block) {
            const bool turned = json_integer_value(json_array_get(block, 0)) != 0;
            double t[4];
            for (size_t i = 0; i < 4; i++)
                t[i] = json_number_value(json_array_get(block, i + 1));
            const double ratio = sqrt(t[1] * t[2] / (t[0] * t[3]));
            printf(" %.4f%s", turned ? 1 / ratio : ratio, json_integer_value(json_array_get(block, 5)) ? "!" : "");
        }
    }
    printf("\n");
}

static void print_attempt(const attempt *a) {
    json_t *proof = json_object_get(a->record, "proof"), *judgement = json_object_get(a->record, "judgement"), *one;
    size_t i;
    printf("baseline   %s  %.12s  %s\n", a->pair.baseline.label, a->pair.baseline.id, a->pair.baseline.where);
    printf("candidate  %s  %.12s  %s\n", a->pair.candidate.label, a->pair.candidate.id, a->pair.candidate.where);
    if (!json_is_true(json_object_get(proof, "passed"))) {
        const bool differs = json_object_get(proof, "difference") != NULL;
        printf("%s FAIL\n  %s\n", differs ? "memcmp" : "proof", json_string_value(json_object_get(proof, "complaint")));
        if (json_object_get(proof, "call"))
            printf("  in call %d, %s\n", (int)number_of(proof, "calls"),
                   json_string_value(json_object_get(proof, "call")));
    } else {
        printf("%s PASS  %d calls, %s, seed %llu, %.1f s%s\n", json_string_value(json_object_get(proof, "held_to")),
               (int)number_of(proof, "calls"),
               lab_is_cuda(a->pair.number) ? "each between guards, two poisons" : "each at both guard pages",
               (unsigned long long)a->options->seed, number_of(proof, "seconds"),
               json_is_true(json_object_get(proof, "cached")) ? ", as proved before" : "");
    }
    for (int k = 0; k < LAB_DEVICE_CASES; k++)
        lab_print_resources(&a->pair.baseline, &a->pair.candidate, k);
    json_array_foreach(json_object_get(judgement, "cases"), i, one) {
        printf("%s\n", json_string_value(json_object_get(one, "name")));
        print_series("null", json_object_get(one, "null"), false);
        print_series("candidate", json_object_get(one, "pair"), true);
        if (a->window)
            print_pairs(json_array_get(json_object_get(a->record, "samples"), i));
    }
    printf("%s: %s\n", json_string_value(json_object_get(judgement, "verdict")),
           json_string_value(json_object_get(judgement, "reason")));
}

// ---- Stages -------------------------------------------------------------------------------------

static bool prove(attempt *a, bench_error *error) {
    const lab_options *o = a->options;
    const prove_plan plan = {.baseline = &a->pair.baseline,
                             .candidate = &a->pair.candidate,
                             .seed = o->seed,
                             .random = o->cases,
                             .grid = !o->short_grid,
                             .window = a->window,
                             .bound = o->bound,
                             .cpu_seconds = LAB_PROVE_SECONDS};
    prove_report report = {0};
    if (!a->pair.refused && lab_is_cuda(a->pair.number)) {
        if (!lab_prove_pair(&a->pair, &report, &plan, error))
            return false;
        json_object_set_new(json_object_get(a->record, "baseline"), "resources", lab_resources_json(&a->pair.baseline));
        json_object_set_new(json_object_get(a->record, "candidate"), "resources",
                            lab_resources_json(&a->pair.candidate));
    } else if (!a->pair.refused && !lab_cache_find(&report, &plan)) {
        if (!lab_prove(&report, &plan, error))
            return false;
        lab_cache_keep(&report, &plan);
    }
    if (!a->pair.refused && report.baseline_failed)
        return bench_fail(error, "the baseline %s breaks its contract: %s", a->pair.baseline.label, report.complaint);
    json_object_set_new(a->record, "proof", lab_proof_json(&a->pair, &report, o->seed, o->bound));
    return true;
}

static bool measure(attempt *a, bench_error *error) {
    char sha[LAB_HASH], stopped[400];
    json_t *plan = session_plan(a->cases, a->count, a->options, batch_seconds), *samples;
    lab_hash_json(sha, plan);
    json_object_set_new(a->record, "plan", plan);
    json_object_set_new(a->record, "plan_sha256", json_string(sha));
    if (!json_is_true(json_object_get(json_object_get(a->record, "proof"), "passed")))
        return true;
    fprintf(stderr, "qsa-lab: plan %.12s, effect floor %.1f %%\n", sha, a->cases[0].effect_floor);
    const double start = lab_now();
    if (!session_run(&a->pair, a->cases, a->count, plan, &samples, stopped, error))
        return false;
    json_object_set_new(a->record, "samples", samples);
    if (stopped[0])
        json_object_set_new(a->record, "stopped", json_string(stopped));
    json_object_set_new(a->record, "seconds", json_pack("{s:f}", "time", lab_now() - start));
    return true;
}

// All stages; the verdict is in a->record. False: LAB_BAD.
static bool run_stages(attempt *a, bench_error *error) {
    a->record = lab_record_begin(&a->pair, a->options, error);
    if (!a->record || !prove(a, error) || !measure(a, error))
        return false;
    json_t *judgement = judge_record(a->record, error);
    if (!judgement)
        return false;
    json_object_set_new(a->record, "judgement", judgement);
    return true;
}

static int finish(attempt *a, bool right, const char *ledger, bench_error *error) {
    char path[LAB_PATH] = "";
    int code = LAB_BAD;
    if (right && ledger)
        right = lab_ledger_append(ledger, a->record, path, error);
    if (right) {
        code = (int)json_integer_value(json_object_get(json_object_get(a->record, "judgement"), "exit"));
        if (!a->options->json)
            print_attempt(a);
        if (!a->options->json && path[0])
            printf("record     %s\n", path);
        if (a->options->json)
            lab_print_json(json_incref(a->record));
    }
    json_decref(a->record);
    lab_pair_close(&a->pair);
    return code;
}

static int attempt_run(const lab_options *o, bool record, const char *command, bench_error *error) {
    attempt a = {.options = o};
    if (!lab_one_operand(o, command, "KERNEL", error) || !lab_pair_open(&a.pair, o, o->operand[0], record, error))
        return LAB_BAD;
    a.count = session_cases(a.cases, a.pair.number, o);
    return finish(&a, run_stages(&a, error), record ? o->ledger : NULL, error);
}

int cmd_run(const lab_options *o, bench_error *error) {
    return attempt_run(o, true, "run", error);
}

int cmd_time(const lab_options *o, bench_error *error) {
    return attempt_run(o, false, "time", error);
}

int cmd_compare(const lab_options *o, bench_error *error) {
    attempt a = {.options = o};
    if (!lab_one_operand(o, "compare", "KERNEL", error))
        return LAB_BAD;
    if (!o->has_tokens || !o->has_pos || !o->baseline) {
        bench_say(error, "compare needs --%s",
                  !o->has_tokens ? "tokens T"
                  : !o->has_pos  ? "pos P"
                                 : "baseline SHA|NAME|ROW");
        return LAB_BAD;
    }
    if (o->candidate && lab_is_cuda_file(o->candidate)) {
        bench_say(error, "compare takes a C candidate; run and time take %s", o->candidate);
        return LAB_BAD;
    }
    if (!lab_pair_open(&a.pair, o, o->operand[0], false, error))
        return LAB_BAD;
    const prove_window window = {o->tokens, o->pos, (case_edge)o->edge};
    const case_plan *plan = case_plan_of(a.pair.number);
    timed_case *one = &a.cases[0];
    *one = (timed_case){.rows = o->tokens < TIMED_ROWS ? o->tokens : TIMED_ROWS,
                        .edge = (case_edge)o->edge,
                        .cold = plan->timing[0].cold,
                        .effect_floor = o->floor > plan->effect_floor ? o->floor : plan->effect_floor,
                        .harm_floor = plan->harm_floor};
    for (int i = 0; i < one->rows; i++) // spread over the window, its last row among them
        one->cells[i] = o->pos + 1 + (int32_t)((int64_t)(i + 1) * o->tokens / one->rows) - 1;
    one->least_calls = o->layers;
    snprintf(one->name, sizeof one->name, "T %d at %d", (int)o->tokens, (int)o->pos);
    a.count = 1;
    a.window = &window;
    return finish(&a, run_stages(&a, error), NULL, error);
}

// ---- judge --------------------------------------------------------------------------------------

int cmd_judge(const lab_options *o, bench_error *error) {
    if (!lab_one_operand(o, "judge", "RECORD", error))
        return LAB_BAD;
    json_t *record = lab_record_read(o->operand[0], error);
    if (!record)
        return LAB_BAD;
    const int code = lab_record_check(record, o->operand[0], error);
    json_t *judgement = json_object_get(record, "judgement");
    if (code != LAB_BAD && o->json)
        lab_print_json(json_incref(judgement));
    else if (code != LAB_BAD)
        printf("%s: %s\n", json_string_value(json_object_get(judgement, "verdict")),
               json_string_value(json_object_get(judgement, "reason")));
    json_decref(record);
    return code;
}
