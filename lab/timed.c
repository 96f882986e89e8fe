// SPDX-License-Identifier: Apache-2.0
//
// Blocks of batches, and what disturbed them.
#define _GNU_SOURCE // sched_setaffinity
#include "lab/timed.h"

#include "lab/process.h"
#include "lab/slots.h"

#include <alloca.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct process_state {
    const timed_plan *plan;
    timed_report *report;
    qsa_kernel_fn arm[ARMS];
    rng r;
    int cpu;
} process_state;

// Steal time of this CPU in the system's ticks; 0 where it is not told.
static long steal_now(void) {
    char line[256], name[16];
    long found = 0;
    FILE *file = fopen("/proc/stat", "r");
    const int length = snprintf(name, sizeof name, "cpu%d ", sched_getcpu());
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, (size_t)length) != 0)
            continue;
        char *at = line + length;
        for (int field = 0; field < 8; field++)
            found = strtol(at, &at, 10); // the eighth is steal
        break;
    }
    if (file)
        fclose(file);
    return found;
}

// Nanoseconds of one call over `calls` calls, in laps; -1: other bytes.
static double run_batch(process_state *p, slots *s, int arm, int32_t calls, unsigned *drop) {
    double seconds = 0;
    const int32_t lap = slots_lap(s);
    const long steal = steal_now();
    for (int32_t done = 0; done < calls;) {
        const int32_t n = calls - done < lap ? calls - done : lap;
        p->report->since = arm == ARM_B ? lab_cpu_now() : 0;
        const double some = slots_run(s, p->arm[arm], n, drop, p->report->reason, sizeof p->report->reason);
        p->report->used += arm == ARM_B ? lab_cpu_now() - p->report->since : 0;
        p->report->since = 0;
        if (some < 0) {
            p->report->wrong_arm = arm;
            return -1;
        }
        seconds += some;
        done += n;
    }
    *drop |= steal_now() > steal ? DROP_STEAL : 0;
    return seconds * 1e9 / calls;
}

// Calls of a batch: found with the baseline, the same for all arms.
static int32_t size_batch(process_state *p, slots *s, const timed_case *what) {
    unsigned ignored = 0;
    double best = -1;
    int32_t calls = 1;
    for (int i = 0; i < 12; i++) {
        const double ns = run_batch(p, s, ARM_A, calls, &ignored);
        if (ns < 0)
            return -1;
        best = best < 0 || ns < best ? ns : best;
        if (ns * calls > p->plan->batch_seconds * 1e9 / 4)
            break;
        calls *= 2;
    }
    const double wanted = p->plan->batch_seconds * 1e9 / (best > 1 ? best : 1);
    calls = wanted < 1 ? 1 : wanted > 1e6 ? 1000000 : (int32_t)wanted + 1;
    return calls > what->least_calls ? calls : what->least_calls;
}

static bool run_block(process_state *p, slots *s, int32_t calls, int other, timed_block *block) {
    static const int straight[] = {0, 1, 1, 0};
    for (int i = 0; i < 4; i++) {
        const int arm = straight[i] != (block->turned ? 1 : 0) ? other : ARM_A;
        block->ns[i] = run_batch(p, s, arm, calls, &block->drop);
        if (block->ns[i] < 0)
            return false;
    }
    return true;
}

static bool run_case(process_state *p, int number) {
    const timed_case *what = &p->plan->cases[number];
    timed_result *result = &p->report->of[number];
    unsigned ignored = 0;
    slots *s =
        slots_open(p->plan->number, what, p->arm[ARM_A], p->plan->own_bits ? p->arm[ARM_B] : NULL, rng_u64(&p->r));
    if (!s) {
        snprintf(p->report->reason, sizeof p->report->reason, "no memory for the inputs of %s", what->name);
        return false;
    }
    result->calls = size_batch(p, s, what);
    bool right = result->calls > 0;
    for (int arm = 0; right && arm < ARMS; arm++) // a common warm-up
        right = run_batch(p, s, arm, result->calls, &ignored) > 0;
    int32_t order[TIMED_BLOCKS];
    bool turned[KINDS][TIMED_BLOCKS];
    for (int kind = 0; kind < KINDS; kind++) {
        rng_shuffle(&p->r, p->plan->blocks, order);
        for (int b = 0; b < p->plan->blocks; b++)
            turned[kind][b] = order[b] % 2; // one half of them, whichever
    }
    for (int b = 0; right && b < p->plan->blocks; b++) {
        const int first = (int)rng_below(&p->r, 2);
        for (int k = 0; right && k < KINDS; k++) {
            const int kind = k == first ? KIND_NULL : KIND_PAIR;
            timed_block *block = &result->block[kind][b];
            *block = (timed_block){.turned = turned[kind][b]};
            right = run_block(p, s, result->calls, kind == KIND_NULL ? ARM_NULL : ARM_B, block);
        }
        result->blocks += right;
    }
    slots_close(s);
    return right;
}

// One of the CPUs that this process may use, for all of its life.
static void pin(process_state *p) {
    cpu_set_t allowed, one;
    CPU_ZERO(&allowed);
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        return;
    int wanted = (int)rng_below(&p->r, (uint32_t)CPU_COUNT(&allowed));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

// Loads the arms in a random order, with a random number of pages before each.
static bool load(process_state *p) {
    int32_t order[ARMS];
    rng_shuffle(&p->r, ARMS, order);
    for (int i = 0; i < ARMS; i++) {
        bench_error error = {""};
        const int arm = order[i];
        const size_t pages = 1 + rng_below(&p->r, 64);
        if (mmap(NULL, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return false;
        p->arm[arm] = lab_arm_load(p->plan->object[arm], p->plan->entry[arm], &error);
        if (!p->arm[arm]) {
            snprintf(p->report->reason, sizeof p->report->reason, "%.290s", error.text);
            return false;
        }
    }
    return true;
}

static bool run_cases(process_state *p) {
    for (int i = 0; i < p->plan->n_cases; i++)
        if (!run_case(p, i))
            return false;
    return true;
}

void timed_run(const timed_plan *plan, timed_report *report) {
    process_state p = {.plan = plan, .report = report, .r = rng_make(plan->seed)};
    report->wrong_arm = -1;
    pin(&p);
    // The stack, and what malloc gives, start elsewhere in every process.
    // cppcheck-suppress allocaCalled
    volatile unsigned char *stack = alloca(64 * (1 + rng_below(&p.r, 64)));
    *stack = 0;
    void *heap = malloc(64 * (1 + rng_below(&p.r, 512)));
    report->finished = load(&p) && run_cases(&p);
    free(heap);
}
