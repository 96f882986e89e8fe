// SPDX-License-Identifier: Apache-2.0
//
// The grid, the random calls, and the child that makes them.
#define _DEFAULT_SOURCE // readdir of /proc/self/task
#include "lab/prove.h"

#include "lab/process.h"
#include "num/load.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The grid -----------------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int unique(int32_t *cells, int count) {
    int kept = 0;
    qsort(cells, (size_t)count, sizeof *cells, ascending);
    for (int i = 0; i < count; i++)
        if (kept == 0 || cells[i] != cells[kept - 1])
            cells[kept++] = cells[i];
    return kept;
}

int lab_grid(int32_t cells[PROVE_MOST], bool all, uint64_t seed) {
    static const int32_t tokens[] = {1, 2, 4, 8, 31, 32, 33, 64, 65, 96, 512, 1024, 1984};
    static const int32_t pos[] = {0, 1, 3, 63, 64, 512, 1984, 1987, 2047, 2048, 2050, 2051, 2052, 8192, 30000};
    static const int32_t few[] = {1, 3, 4, 5, 64, 65, 2048, 2051, 2052, 2055, 8193};
    enum { MOST_TOKENS = 33, SAMPLE = 4, ROOM = 4096 };
    if (!all) {
        memcpy(cells, few, sizeof few);
        return sizeof few / sizeof few[0];
    }
    int32_t list[ROOM] = {0};
    int count = 0;
    rng r = rng_make(seed);
    for (size_t p = 0; p < sizeof pos / sizeof pos[0]; p++)
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            const bool every = tokens[t] <= MOST_TOKENS;
            for (int32_t i = 0; i < (every ? tokens[t] : SAMPLE) && count < ROOM; i++)
                list[count++] = pos[p] + 1 + (every ? i : rng_range(&r, 0, tokens[t] - 1));
        }
    count = unique(list, count);
    count = count < PROVE_MOST ? count : PROVE_MOST;
    memcpy(cells, list, (size_t)count * sizeof *list);
    return count;
}

// ---- Differences --------------------------------------------------------------------------------

static void print_element(case_element_kind kind, const unsigned char *at, char value[40], char bits[24]) {
    uint64_t u64 = 0;
    uint32_t u32 = 0;
    uint16_t u16 = 0;
    switch (kind) {
    case CASE_F32:
        memcpy(&u32, at, sizeof u32);
        snprintf(value, 40, "%.9g", (double)qsa_f32_of_bits(u32));
        snprintf(bits, 24, "%08x", u32);
        break;
    case CASE_F16:
    case CASE_BF16:
        memcpy(&u16, at, sizeof u16);
        snprintf(value, 40, "%.6g", (double)qsa_load(at, kind == CASE_F16 ? QSA_F16 : QSA_BF16, 0));
        snprintf(bits, 24, "%04x", u16);
        break;
    case CASE_U16:
        memcpy(&u16, at, sizeof u16);
        snprintf(value, 40, "%u", u16);
        snprintf(bits, 24, "%04x", u16);
        break;
    case CASE_I32:
        memcpy(&u32, at, sizeof u32);
        snprintf(value, 40, "%d", (int)u32);
        snprintf(bits, 24, "%08x", u32);
        break;
    case CASE_U64:
        memcpy(&u64, at, sizeof u64);
        snprintf(value, 40, "%llu", (unsigned long long)u64);
        snprintf(bits, 24, "%016llx", (unsigned long long)u64);
        break;
    case CASE_I8:
    case CASE_BYTES:
        snprintf(value, 40, "%d", kind == CASE_I8 ? (int)(int8_t)*at : (int)*at);
        snprintf(bits, 24, "%02x", *at);
        break;
    }
}

void lab_describe(const kernel_case *c, lab_difference *difference) {
    static const size_t sizes[] = {1, 4, 2, 2, 1, 2, 4, 8};
    const case_buffer *b = &c->buffer[c->difference.buffer];
    const size_t size = sizes[b->element], at = (size_t)c->difference.offset / size * size;
    snprintf(difference->field, sizeof difference->field, "%s", b->name ? b->name : "?");
    difference->element = (int64_t)(at / size);
    if (at + size > b->size)
        return;
    print_element(b->element, b->at + at, difference->got, difference->got_bits);
    print_element(b->element, b->want + at, difference->want, difference->want_bits);
}

// ---- The child ----------------------------------------------------------------------------------

typedef struct prover {
    const prove_plan *plan;
    prove_report *report; // shared with the lab
    kernel_case c;
    qsa_kernel_fn baseline, candidate;
} prover;

// One run of an arm; complaints about bytes are described while the bytes are in place.
static bool run_once(prover *p, bool candidate, guard_side side, bool learn) {
    prove_report *report = p->report;
    report->since = candidate ? lab_cpu_now() : 0;
    const char *complaint = case_run(&p->c, candidate ? p->candidate : p->baseline, side, learn);
    report->used += candidate ? lab_cpu_now() - report->since : 0;
    report->since = 0;
    if (!complaint)
        return true;
    report->baseline_failed = !candidate;
    snprintf(report->complaint, sizeof report->complaint, "%s", complaint);
    if (strncmp(complaint, "buffer", 6) == 0) {
        lab_describe(&p->c, &report->difference);
        report->differs = !p->c.difference.stray;
        if (report->differs)
            snprintf(report->complaint, sizeof report->complaint, "memcmp: %s[%lld] is %s (%s), not %s (%s)",
                     report->difference.field, (long long)report->difference.element, report->difference.got,
                     report->difference.got_bits, report->difference.want, report->difference.want_bits);
        else
            snprintf(report->complaint, sizeof report->complaint, "memory around the output was written: %s, byte %lld",
                     report->difference.field, (long long)p->c.difference.offset);
    }
    return false;
}

// At both guard pages, and the candidate once more where it was: what it remembers by pointer must not serve it.
static bool run_places(prover *p, bool candidate, bool learn) {
    p->c.runs += p->c.runs % 2; // so that the first two runs have complementary poisons
    return run_once(p, candidate, GUARD_END, learn) && run_once(p, candidate, GUARD_START, false) &&
           (!candidate || run_once(p, candidate, GUARD_START, false));
}

// The candidate against the baseline, in either order. What the other order finds is said as this one says it.
static bool run_call(prover *p, bool candidate_first) {
    prove_report *report = p->report;
    snprintf(report->what, sizeof report->what, "%s", p->c.what);
    report->calls++;
    if (p->plan->bound) // its bits are its own: they must be the same again, and memory must be kept
        return run_places(p, true, true);
    if (candidate_first && run_places(p, true, true) && run_places(p, false, false))
        return true;
    if (!candidate_first && run_places(p, false, true) && run_places(p, true, false))
        return true;
    if (candidate_first) {
        const prove_report other = *report;
        if (run_places(p, false, true) && run_places(p, true, false)) { // only in that order
            *report = other;
            report->baseline_failed = false;
        }
    }
    return false;
}

static bool run_shape(prover *p, const case_shape *shape, uint64_t seed) {
    rng r = rng_make(seed);
    p->c.shape = shape;
    case_make(&p->c, p->plan->baseline->number, &r);
    char what[200];
    snprintf(what, sizeof what, "%s", p->c.what);
    snprintf(p->c.what, sizeof p->c.what, "row of %d cells: %.150s", (int)shape->cells, what);
    const bool right = run_call(p, p->report->calls % 2);
    p->c.shape = NULL;
    return right;
}

static bool run_grid(prover *p) {
    static int32_t cells[PROVE_MOST];
    const int count = lab_grid(cells, p->plan->grid, p->plan->seed);
    for (int i = 0; i < count; i++) {
        const case_shape shape = {cells[i], p->plan->grid ? (case_edge)(i % 3) : (case_edge)(i % 2 ? CASE_CANCEL : 0)};
        if (!run_shape(p, &shape, p->plan->seed * 1000003u + (uint64_t)cells[i]))
            return false;
    }
    return true;
}

static bool run_random(prover *p) {
    for (int32_t i = 0; i < p->plan->random; i++) {
        rng r = rng_make(p->plan->seed * 7919u + (uint64_t)i);
        case_make(&p->c, p->plan->baseline->number, &r);
        if (!run_call(p, i % 2))
            return false;
    }
    return true;
}

static bool run_window(prover *p, const prove_window *w) {
    for (int32_t t = 0; t < w->tokens; t++) {
        const case_shape shape = {w->pos + t + 1, w->edge};
        if (!run_shape(p, &shape, p->plan->seed * 1000003u + (uint64_t)shape.cells))
            return false;
    }
    return true;
}

static int threads_now(void) {
    int count = 0;
    DIR *list = opendir("/proc/self/task");
    for (const struct dirent *entry; list && (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
}

static bool within_bound(prover *p) {
    prove_report *report = p->report;
    for (int i = 0; i < 2; i++) {
        snprintf(report->what, sizeof report->what, "attention over an i8 cache, logits of deviation %d", i + 1);
        report->worst[i] = lab_bound_error(p->candidate, i + 1, p->plan->seed);
        if (!(report->worst[i] <= LAB_BOUND)) {
            snprintf(report->complaint, sizeof report->complaint,
                     "bound: relative l2 of the worst head is %.3g, above %.3g", report->worst[i], LAB_BOUND);
            return false;
        }
    }
    return true;
}

static void child(void *arg) {
    prover *p = arg;
    prove_report *report = p->report;
    bench_error error = {""};
    p->baseline = lab_arm_load(p->plan->baseline->object, p->plan->baseline->entry, &error);
    report->baseline_failed = !p->baseline;
    p->candidate = p->baseline ? lab_arm_load(p->plan->candidate->object, p->plan->candidate->entry, &error) : NULL;
    if (!p->candidate) {
        snprintf(report->complaint, sizeof report->complaint, "%s", error.text);
        return;
    }
    case_open(&p->c);
    const int threads = threads_now();
    bool right = p->plan->window ? run_window(p, p->plan->window) : run_grid(p) && run_random(p);
    if (right && threads_now() != threads) {
        snprintf(report->complaint, sizeof report->complaint, "a thread was started and is still there");
        right = false;
    }
    report->passed = right && (!p->plan->bound || within_bound(p));
}

// What a child that did not come back means. False: nothing about the candidate.
static bool judge_end(prove_report *report, const prove_plan *plan, const lab_outcome *outcome, bench_error *error) {
    char how[64];
    lab_outcome_text(outcome, how, sizeof how);
    report->passed = false;
    if (outcome->how == LAB_LATE)
        return bench_fail(error, "the proof took %s: this machine is too busy for it", how);
    const bool cap = outcome->how == LAB_KILLED && outcome->value == SIGXCPU;
    if (report->used == 0 && report->since == 0)
        return bench_fail(error, "the baseline %s ended the proof before the candidate ran: %s", plan->baseline->label,
                          how);
    report->used += report->since > 0 ? plan->cpu_seconds - report->since : 0;
    if (cap && report->used < plan->cpu_seconds / 2)
        return bench_fail(error,
                          "the proof needs more than %.0f s of CPU time, and not for the candidate: try --short-grid",
                          plan->cpu_seconds);
    if (cap)
        snprintf(report->complaint, sizeof report->complaint, "cap: more than %.0f s of CPU time", plan->cpu_seconds);
    else
        snprintf(report->complaint, sizeof report->complaint, "killed: %s", how);
    return true;
}

bool lab_prove(prove_report *report, const prove_plan *plan, bench_error *error) {
    lab_outcome outcome;
    prover *p = calloc(1, sizeof *p);
    prove_report *shared = lab_share(sizeof *shared);
    bool right = p && shared;
    if (right) {
        p->plan = plan;
        p->report = shared;
        right = lab_child(child, p, plan->cpu_seconds, &outcome, error);
    } else {
        bench_say(error, "no memory for a proof");
    }
    if (right) {
        *report = *shared;
        report->seconds = outcome.seconds;
        if (outcome.how != LAB_EXITED || outcome.value != 0)
            right = judge_end(report, plan, &outcome, error);
    }
    lab_unshare(shared, sizeof *shared);
    free(p);
    return right;
}
