// SPDX-License-Identifier: Apache-2.0
//
// Histories: random programs, running one, shrinking one that fails, and printing it as a program.
#include "history.h"

#include <stdio.h>
#include <string.h>

static const char *const names[HX_KINDS] = {"CREATE",    "APPEND",  "APPEND_TO",   "APPEND_ALL", "DRAFT",
                                            "DRAFT_ALL", "DISCARD", "TRUNCATE",    "TAKE_BACK",  "FORK",
                                            "FREE",      "RESET",   "HOLD",        "ATTACH",     "RELEASE",
                                            "SAVE",      "LOAD",    "LOAD_BROKEN", "RESTART",    "NO_MEMORY"};
// How often each kind comes, of the sum.
static const uint8_t weights[HX_KINDS] = {10, 14, 14, 6, 12, 6, 4, 5, 10, 12, 9, 2, 6, 9, 2, 4, 8, 3, 2, 1};

static hx_kind pick_kind(rng *r) {
    uint32_t sum = 0;
    for (int i = 0; i < HX_KINDS; i++)
        sum += weights[i];
    uint32_t pick = rng_below(r, sum);
    int kind = 0;
    while (pick >= weights[kind])
        pick -= weights[kind++];
    return (hx_kind)kind;
}

void hx_generate(hx_program *p, uint64_t seed, int32_t count, hx_fault fault) {
    rng r = rng_make(seed ^ 0x9a0c);
    p->seed = seed;
    p->fault = fault;
    p->count = count < HX_MAX_OPS ? count : HX_MAX_OPS;
    for (int32_t i = 0; i < p->count; i++) {
        p->ops[i] = (hx_op){pick_kind(&r), rng_below(&r, 1u << 20), rng_below(&r, 1u << 20), rng_below(&r, 1u << 20)};
        if (p->ops[i].kind != HX_LOAD_BROKEN) // small numbers shrink to readable ones
            p->ops[i].a %= p->ops[i].kind == HX_SAVE ? 32 : HX_SLOTS;
    }
}

const char *hx_run(const hx_program *p, int32_t every, int32_t *at, hx_counts *counts) {
    static char failure[600];
    hx_state *h = hx_open(p->seed, p->fault);
    int32_t i = 0;
    while (i < p->count && !h->failure[0]) {
        hx_apply(h, &p->ops[i++]);
        if (!h->failure[0] && p->fault == HX_SOUND)
            hx_invariants(h);
        if (!h->failure[0] && every && i % every == 0)
            hx_check(h);
    }
    if (!h->failure[0])
        hx_check(h);
    snprintf(failure, sizeof failure, "%s", h->failure);
    for (int k = 0; counts && k < HX_KINDS; k++)
        counts->operations[k] += h->counts.operations[k];
    if (counts) {
        counts->refused += h->counts.refused;
        counts->copied += h->counts.copied;
    }
    *at = i;
    hx_close(h);
    return failure;
}

// How often programs are checked while one is shrunk: at the end, unless it fails only because of checks on the way (their
// probes append and discard).
static int32_t shrink_every;

static int fails(const hx_program *p) {
    int32_t at;
    return hx_run(p, shrink_every, &at, NULL)[0] != 0;
}

// Leaves operations out, fewer and fewer at a time. 1 if any could be.
static int drop_operations(hx_program *p, hx_program *trial) {
    int shorter = 0;
    for (int32_t size = p->count; size >= 1; size /= 2)
        for (int32_t from = 0; from < p->count;) {
            const int32_t left = p->count - from, part = size < left ? size : left;
            *trial = *p;
            memmove(trial->ops + from, trial->ops + from + part, (size_t)(left - part) * sizeof(hx_op));
            trial->count -= part;
            if (fails(trial)) {
                *p = *trial;
                shorter = 1;
            } else {
                from += part;
            }
        }
    return shorter;
}

// Makes operands 0, or half, or one less.
static int lower_operands(hx_program *p, hx_program *trial) {
    int lower = 0;
    for (int32_t i = 0; i < p->count; i++)
        for (int operand = 0; operand < 3; operand++)
            for (int way = 0; way < 3; way++) {
                *trial = *p;
                uint32_t *x = operand == 0 ? &trial->ops[i].a : operand == 1 ? &trial->ops[i].b : &trial->ops[i].c;
                if (*x == 0)
                    continue;
                *x = way == 0 ? 0 : way == 1 ? *x / 2 : *x - 1;
                if (fails(trial)) {
                    *p = *trial;
                    lower = 1;
                }
            }
    return lower;
}

const char *hx_shrink(hx_program *p) {
    static hx_program trial;
    int32_t at;
    shrink_every = 0;
    if (!fails(p))
        shrink_every = 1;
    if (hx_run(p, 1, &at, NULL)[0]) { // the first moment at which it shows
        trial = *p;
        trial.count = at;
        if (fails(&trial))
            *p = trial;
    }
    for (int round = 0; round < 20; round++) {
        const int shorter = drop_operations(p, &trial);
        const int lower = lower_operands(p, &trial);
        if (!shorter && !lower)
            break;
    }
    return hx_run(p, shrink_every, &at, NULL);
}

void hx_print(const hx_program *p) {
    printf("    static const hx_op program[] = { // seed %llu, fault %d\n", (unsigned long long)p->seed, (int)p->fault);
    for (int32_t i = 0; i < p->count; i++)
        printf("        {HX_%s, %u, %u, %u},\n", names[p->ops[i].kind], (unsigned)p->ops[i].a, (unsigned)p->ops[i].b,
               (unsigned)p->ops[i].c);
    printf("    };\n");
}
