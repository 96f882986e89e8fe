// SPDX-License-Identifier: Apache-2.0
//
// Proofs and times of CUDA arms: plans and reports of the lab become those of libqsa_cuda_lab and back.
#include "lab/device.h"

#include "lab/cases/parts.h"
#include "lab/cuda/cases.h"
#include "lab/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int number_of(qsa_kernel_number number) {
    return (int)number - LAB_CUDA;
}

// ---- Proofs -------------------------------------------------------------------------------------

typedef struct prove_job {
    const lab_device_ops *ops;
    const prove_plan *plan;
    lab_device_plan device;
    struct prove_result {
        lab_device_proof proof;
        double worst[2];
        bool bound;
        char why[300];
    } * result;
} prove_job;

static void call_bound(const void *args) {
    bench_error ignored;
    lab_device_load(&ignored)->call_attend(args);
}

// Held to the bound: the attend of lab/bound.c through host memory, at logits of deviation 1 and 2.
static void bound_child(const prove_job *j) {
    struct prove_result *r = j->result;
    r->proof.finished = j->ops->bind_attend(&j->device.arm[1], r->why, sizeof r->why);
    for (int i = 0; r->proof.finished && i < 2; i++) {
        r->worst[i] = lab_bound_error((qsa_kernel_fn)call_bound, i + 1, j->plan->seed);
        r->proof.calls += 3;
        if (r->worst[i] > LAB_BOUND || r->worst[i] != r->worst[i])
            snprintf(r->proof.complaint, sizeof r->proof.complaint,
                     "bound: relative l2 %.3g at logits of deviation %d, allowed %.3g", r->worst[i], i + 1, LAB_BOUND);
    }
    snprintf(r->proof.what, sizeof r->proof.what, "attend over an i8 cache against float64");
    r->proof.passed = r->proof.finished && !r->proof.complaint[0];
}

static void prove_child(void *arg) {
    const prove_job *j = arg;
    if (j->plan->bound)
        bound_child(j);
    else
        j->ops->prove(&j->device, &j->result->proof);
}

static void take_proof(prove_report *report, const struct prove_result *r) {
    const lab_device_proof *p = &r->proof;
    report->passed = p->passed;
    report->baseline_failed = p->baseline_failed;
    report->calls = p->calls;
    snprintf(report->what, sizeof report->what, "%s", p->what);
    snprintf(report->complaint, sizeof report->complaint, "%s", p->complaint);
    report->differs = p->differs;
    lab_difference *d = &report->difference;
    snprintf(d->field, sizeof d->field, "%s", p->field);
    d->element = p->element;
    snprintf(d->got, sizeof d->got, "%s", p->got);
    snprintf(d->want, sizeof d->want, "%s", p->want);
    snprintf(d->got_bits, sizeof d->got_bits, "%s", p->got_bits);
    snprintf(d->want_bits, sizeof d->want_bits, "%s", p->want_bits);
    report->worst[0] = r->worst[0];
    report->worst[1] = r->worst[1];
}

// A child that did not come back: the candidate's fault only if it was the candidate that ran.
static bool judge_end(prove_report *report, const lab_device_proof *p, const lab_outcome *outcome, double seconds,
                      bench_error *error) {
    char how[64];
    lab_outcome_text(outcome, how, sizeof how);
    const bool cap = outcome->how == LAB_KILLED && (outcome->value == SIGXCPU || outcome->value == SIGKILL);
    if (p->since > 0 && (cap || outcome->how == LAB_LATE))
        snprintf(report->complaint, sizeof report->complaint, "cap: a call did not end within %.0f s", seconds);
    else if (p->since > 0)
        snprintf(report->complaint, sizeof report->complaint, "killed while it was proved: %s", how);
    else
        return bench_fail(error, "the proof ended in the lab: %s", how);
    report->passed = false;
    return true;
}

bool lab_device_prove(prove_report *report, const prove_plan *plan, lab_device_resources resources[2][LAB_DEVICE_CASES],
                      bench_error *error) {
    char launches[2][LAB_PATH + 8];
    lab_outcome outcome;
    const lab_arm *arms[2] = {plan->baseline, plan->candidate};
    prove_job j = {.ops = lab_device_load(error), .plan = plan, .result = lab_share(sizeof *j.result)};
    j.device = (lab_device_plan){.kernel = number_of(plan->candidate->number),
                                 .seed = plan->seed,
                                 .calls = plan->random,
                                 .boundaries = plan->grid};
    for (int i = 0; i < 2; i++) {
        snprintf(launches[i], sizeof launches[i], "%s.launch", arms[i]->object);
        j.device.arm[i] = (lab_device_arm){arms[i]->object, launches[i]};
    }
    bool right = j.ops && (j.result || bench_fail(error, "no memory for a proof")) && lab_device_need(error);
    right = right && lab_child_wide(prove_child, &j, plan->cpu_seconds, &outcome, error);
    if (right) {
        take_proof(report, j.result);
        report->seconds = outcome.seconds;
        memcpy(resources, j.result->proof.resources, sizeof j.result->proof.resources);
        if (outcome.how != LAB_EXITED || outcome.value != 0)
            right = judge_end(report, &j.result->proof, &outcome, plan->cpu_seconds, error);
        else if (!j.result->proof.finished)
            right = bench_fail(error, "the proof failed: %.500s",
                               j.result->why[0] ? j.result->why : j.result->proof.complaint);
    }
    lab_unshare(j.result, sizeof *j.result);
    return right;
}

bool lab_prove_pair(lab_pair *pair, prove_report *report, const prove_plan *plan, bench_error *error) {
    lab_device_resources resources[2][LAB_DEVICE_CASES];
    memset(resources, 0, sizeof resources);
    if (!lab_device_prove(report, plan, resources, error))
        return false;
    memcpy(pair->baseline.resources, resources[0], sizeof resources[0]);
    memcpy(pair->candidate.resources, resources[1], sizeof resources[1]);
    return true;
}

void lab_print_resources(const lab_arm *baseline, const lab_arm *candidate, int i) {
    const lab_device_resources *a = &baseline->resources[i], *b = &candidate->resources[i];
    if (!a->kernel[0] || !b->kernel[0])
        return;
    printf("%s: registers %d -> %d, spilled bytes %d -> %d, shared %d+%d -> %d+%d, threads %d -> %d, blocks per SM "
           "%d (%s) -> %d (%s)\n",
           a->at, a->registers, b->registers, a->spill_bytes, b->spill_bytes, a->shared_static, a->shared_dynamic,
           b->shared_static, b->shared_dynamic, a->threads, b->threads, a->blocks_per_sm, a->limited_by,
           b->blocks_per_sm, b->limited_by);
}

// ---- Times --------------------------------------------------------------------------------------

int lab_device_cases_of(timed_case cases[TIMED_CASES], qsa_kernel_number number, double floor) {
    const lab_device_case *list = lab_device_cases[number_of(number)];
    int count = 0;
    for (; count < LAB_DEVICE_CASES && list[count].name; count++) {
        cases[count] = (timed_case){.cells = {list[count].cells},
                                    .rows = list[count].rows,
                                    .cold = list[count].cold,
                                    .least_calls = 1,
                                    .effect_floor = floor > 3 ? floor : 3,
                                    .harm_floor = 1};
        snprintf(cases[count].name, sizeof cases[count].name, "%s", list[count].name);
    }
    return count;
}

void lab_device_take(const timed_plan *plan, timed_report *report) {
    const lab_device_samples *samples = &report->device;
    report->used = samples->used;
    report->since = samples->since > 0 ? samples->since : 0;
    report->finished = samples->finished;
    report->wrong_arm = samples->wrong_arm;
    snprintf(report->reason, sizeof report->reason, "%s", samples->reason);
    for (int i = 0; i < plan->n_cases; i++) {
        const lab_device_result *from = &samples->of[i];
        timed_result *to = &report->of[i];
        to->calls = from->calls;
        to->blocks = from->blocks;
        for (int kind = 0; kind < KINDS; kind++)
            for (int b = 0; b < from->blocks; b++) {
                const lab_device_block *block = &from->block[kind][b];
                to->block[kind][b] = (timed_block){.turned = block->turned, .drop = block->drop};
                memcpy(to->block[kind][b].ns, block->ns, sizeof block->ns);
            }
    }
}

void lab_device_time(const timed_plan *plan, timed_report *report) {
    char launches[ARMS][LAB_PATH + 8];
    bench_error error;
    const int kernel = number_of(plan->number);
    lab_device_times times = {.kernel = kernel,
                              .count = plan->n_cases,
                              .blocks = plan->blocks,
                              .batch_seconds = plan->batch_seconds,
                              .seed = plan->seed,
                              .own_bits = plan->own_bits};
    for (int i = 0; i < ARMS; i++) {
        snprintf(launches[i], sizeof launches[i], "%s.launch", plan->object[i]);
        times.arm[i] = (lab_device_arm){plan->object[i], launches[i]};
    }
    for (int i = 0; i < plan->n_cases; i++)
        times.cases[i] = lab_device_cases[kernel][i];
    lab_device_load(&error)->time(&times, &report->device);
}
