// SPDX-License-Identifier: Apache-2.0
//
// Nothing here looks at the candidate's times: processes are added by the nulls alone.
#include "lab/session.h"

#include "lab/device.h"
#include "lab/judge.h"
#include "lab/process.h"
#include "lab/scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 10000, DROP_LIMIT = 20, MOST_PROCESSES = 45, PROCESS_SECONDS = 30, LOCK_SECONDS = 300 };

int session_cases(timed_case cases[TIMED_CASES], qsa_kernel_number number, const lab_options *options) {
    if (lab_is_cuda(number))
        return lab_device_cases_of(cases, number, options->floor);
    const case_plan *plan = case_plan_of(number);
    for (int i = 0; i < plan->timings; i++) {
        cases[i] = (timed_case){.cells = {plan->timing[i].cells},
                                .rows = 1,
                                .cold = plan->timing[i].cold,
                                .least_calls = 1,
                                .effect_floor = plan->effect_floor,
                                .harm_floor = plan->harm_floor};
        snprintf(cases[i].name, sizeof cases[i].name, "%s", plan->timing[i].name);
        if (options->floor > cases[i].effect_floor)
            cases[i].effect_floor = options->floor; // a case file may be made harder to please, not easier
    }
    return plan->timings;
}

json_t *session_plan(const timed_case *cases, int count, const lab_options *options, double batch_seconds) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *cells = json_array();
        for (int k = 0; k < cases[i].rows; k++)
            json_array_append_new(cells, json_integer(cases[i].cells[k]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:b, s:i, s:i, s:f, s:f}", "name", cases[i].name, "cells",
                                              cells, "cold", cases[i].cold, "edge", (int)cases[i].edge, "least_calls",
                                              (int)cases[i].least_calls, "effect_floor", cases[i].effect_floor,
                                              "harm_floor", cases[i].harm_floor));
    }
    return json_pack("{s:I, s:i, s:i, s:i, s:f, s:f, s:i, s:o}", "seed", (json_int_t)(int64_t)options->seed, "draws",
                     DRAWS, "processes", (int)options->processes, "blocks", (int)options->pairs, "batch_ms",
                     batch_seconds * 1e3, "limit_s", options->limit, "drop_limit", DROP_LIMIT, "cases", list);
}

static json_t *blocks_json(const timed_block *blocks, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const timed_block *b = &blocks[i];
        json_int_t ps[4];
        for (int k = 0; k < 4; k++)
            ps[k] = (json_int_t)(b->ns[k] * 1e3 + 0.5);
        json_array_append_new(
            list, json_pack("[i, I, I, I, I, i]", (int)b->turned, ps[0], ps[1], ps[2], ps[3], (int)b->drop));
    }
    return list;
}

static void add_process(json_t *samples, const timed_report *report, int count) {
    for (int i = 0; i < count; i++) {
        const timed_result *r = &report->of[i];
        json_array_append_new(json_object_get(json_array_get(samples, (size_t)i), "processes"),
                              json_pack("{s:i, s:o, s:o}", "calls", (int)r->calls, "null",
                                        blocks_json(r->block[KIND_NULL], r->blocks), "pair",
                                        blocks_json(r->block[KIND_PAIR], r->blocks)));
    }
}

typedef struct job {
    const timed_plan *plan;
    timed_report *report;
} job;

static void child(void *arg) {
    const job *j = arg;
    if (lab_is_cuda(j->plan->number))
        lab_device_time(j->plan, j->report);
    else
        timed_run(j->plan, j->report);
}

// What a child that did not come back means: the candidate's fault, in `stopped`, or nothing about it. Always false.
static bool judge_end(const timed_report *report, const lab_outcome *outcome, char stopped[400], bench_error *error) {
    char how[64];
    lab_outcome_text(outcome, how, sizeof how);
    if (report->device.since > 0) { // a call that does not end keeps the CPU waiting
        snprintf(stopped, 400, "cap: a timed call did not end within %d s: %.60s", PROCESS_SECONDS, how);
        return false;
    }
    if (outcome->how == LAB_LATE)
        return bench_fail(error, "a process of timing took %s: this machine is too busy for it", how);
    if (report->used == 0 && report->since == 0)
        return bench_fail(error, "a process of timing ended before the candidate ran: %s", how);
    const double used = report->used + (report->since > 0 ? PROCESS_SECONDS - report->since : 0);
    const bool cap = outcome->how == LAB_KILLED && outcome->value == SIGXCPU;
    if (cap && used < PROCESS_SECONDS / 2.0)
        return bench_fail(error, "a process of timing needs more than %d s of CPU time, and not for the candidate",
                          PROCESS_SECONDS);
    if (cap)
        snprintf(stopped, 400, "cap: more than %d s of CPU time while it was timed", PROCESS_SECONDS);
    else
        snprintf(stopped, 400, "killed while it was timed: %s", how);
    return false;
}

// One process. False: the session is over, by `stopped` or by an error.
static bool one_process(const timed_plan *plan, timed_report *report, json_t *samples, char stopped[400],
                        bench_error *error) {
    lab_outcome outcome;
    job j = {plan, report};
    memset(report, 0, sizeof *report);
    const bool cuda = lab_is_cuda(plan->number);
    const bool started = cuda ? lab_child_wide(child, &j, PROCESS_SECONDS, &outcome, error)
                              : lab_child(child, &j, PROCESS_SECONDS, &outcome, error);
    if (!started)
        return false;
    if (cuda)
        lab_device_take(plan, report);
    if (report->wrong_arm == ARM_B) {
        snprintf(stopped, 400, "%s", report->reason);
        return false;
    }
    if (report->wrong_arm > 0 || (outcome.how == LAB_EXITED && !report->finished))
        return bench_fail(error, "timing failed: %s", report->reason);
    if (outcome.how != LAB_EXITED || outcome.value != 0)
        return judge_end(report, &outcome, stopped, error);
    add_process(samples, report, plan->n_cases);
    return true;
}

static bool run_processes(timed_plan *plan, timed_report *report, json_t *wanted, json_t *samples, char stopped[400],
                          bench_error *error) {
    const double start = lab_now(), limit = json_number_value(json_object_get(wanted, "limit_s"));
    const int processes = (int)json_integer_value(json_object_get(wanted, "processes"));
    const uint64_t seed = plan->seed;
    for (int p = 0; p < processes || p < MOST_PROCESSES; p++) {
        if (p >= processes && (judge_fits(wanted, samples) || lab_now() - start > limit))
            return true;
        if (p >= JUDGE_PROCESSES && lab_now() - start > 2 * limit)
            return true;
        plan->seed = seed * 1009u + (uint64_t)p;
        if (!one_process(plan, report, samples, stopped, error))
            return stopped[0] != '\0';
    }
    return true;
}

bool session_run(const lab_pair *pair, const timed_case *cases, int count, json_t *plan, json_t **samples,
                 char stopped[400], bench_error *error) {
    char null[LAB_PATH];
    timed_plan timed = {.number = pair->number,
                        .object = {pair->baseline.object, pair->candidate.object, null},
                        .entry = {pair->baseline.entry, pair->candidate.entry, pair->baseline.entry},
                        .n_cases = count,
                        .blocks = (int)json_integer_value(json_object_get(plan, "blocks")),
                        .batch_seconds = json_number_value(json_object_get(plan, "batch_ms")) * 1e-3,
                        .seed = (uint64_t)json_integer_value(json_object_get(plan, "seed")),
                        .own_bits = pair->candidate.fast};
    memcpy(timed.cases, cases, (size_t)count * sizeof *cases);
    stopped[0] = '\0';
    *samples = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(*samples, json_pack("{s:s, s:[]}", "name", cases[i].name, "processes"));
    timed_report *report = lab_share(sizeof *report);
    bool right = report || bench_fail(error, "no memory for samples");
    right = right && lab_arm_copy_object(&pair->baseline, null, error) && lab_lock(LOCK_SECONDS, error);
    if (right) {
        right = run_processes(&timed, report, plan, *samples, stopped, error);
        lab_unlock();
    }
    lab_unshare(report, sizeof *report);
    if (right)
        return true;
    json_decref(*samples);
    *samples = NULL;
    return false;
}
