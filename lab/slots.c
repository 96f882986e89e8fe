// SPDX-License-Identifier: Apache-2.0
//
// Sets hold inputs, slots hold outputs: slot i uses set i mod sets. Cold cases have so many sets that a lap's inputs do not fit the
// last cache; hot ones three, so that no call can be served by the one before.
#define _GNU_SOURCE // RUSAGE_THREAD, sched_getcpu
#include "lab/slots.h"

#include "kernels/kernels.h"
#include "lab/process.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    HOT_SETS = 3,
    MOST_SETS = 512,
    MOST_SLOTS = 2048,
    OUTPUT_BYTES = 24 << 20, // of all slots
    COLD_BYTES = 64 << 20,   // of all sets, or twice the last cache
    LINE = 64,
};

typedef struct input_set {
    kernel_case c; // its buffers' contents are the inputs
    unsigned char *input[CASE_BUFFERS];
    unsigned char *own[CASE_BUFFERS]; // what `other` gives
} input_set;

typedef struct slot {
    unsigned char *output[CASE_BUFFERS];
    unsigned char *args; // sizeof(((kernel_case *)0)->args)
} slot;

struct slots {
    qsa_kernel_number number;
    qsa_kernel_fn other;       // has bits of its own; NULL: none has
    int32_t sets, count, next; // next: the slot that the next lap starts with
    uint64_t laps;
    input_set *set;
    slot *slot;
};

static size_t cold_bytes(void) {
    size_t bytes = COLD_BYTES;
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    bytes = cache > 0 && (size_t)cache * 2 > bytes ? (size_t)cache * 2 : bytes;
#endif
    return bytes;
}

// Bytes of inputs or outputs of a case.
static size_t bytes_of(const kernel_case *c, bool inputs) {
    size_t bytes = 0;
    for (int i = 0; i < c->buffers; i++)
        bytes += (c->buffer[i].role == CASE_IN) == inputs ? c->buffer[i].size : 0;
    return bytes;
}

static unsigned char *aligned(size_t size) {
    return aligned_alloc(LINE, (size + LINE) / LINE * LINE);
}

static void make_case(kernel_case *c, qsa_kernel_number number, const timed_case *what, int32_t i, uint64_t seed) {
    const case_shape shape = {what->cells[i % what->rows], what->edge};
    rng r = rng_make(seed * 65537u + (uint64_t)i);
    memset(c, 0, sizeof *c);
    c->shape = &shape;
    case_make(c, number, &r);
    c->shape = NULL;
}

// Inputs at 64-byte boundaries, pointers in them set.
static bool place_inputs(input_set *set) {
    kernel_case *c = &set->c;
    for (int i = 0; i < c->buffers; i++) {
        if (c->buffer[i].role != CASE_IN)
            continue;
        set->input[i] = aligned(c->buffer[i].size);
        if (!set->input[i])
            return false;
        memcpy(set->input[i], c->buffer[i].content, c->buffer[i].size);
    }
    for (int i = 0; i < c->links; i++) {
        const case_link *link = &c->link[i];
        if (link->into < 0)
            continue;
        const unsigned char *to = set->input[link->buffer] + link->offset;
        memcpy(set->input[link->into] + link->where, &to, sizeof to);
    }
    return true;
}

static bool place_outputs(slot *s, const input_set *set) {
    const kernel_case *c = &set->c;
    s->args = aligned(sizeof c->args);
    if (!s->args)
        return false;
    memcpy(s->args, &c->args, sizeof c->args);
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].role != CASE_IN && !(s->output[i] = aligned(c->buffer[i].size)))
            return false;
    for (int i = 0; i < c->links; i++) {
        const case_link *link = &c->link[i];
        if (link->into >= 0)
            continue;
        unsigned char *base = s->output[link->buffer] ? s->output[link->buffer] : set->input[link->buffer];
        const unsigned char *to = base + link->offset;
        memcpy(s->args + link->where, &to, sizeof to);
    }
    return true;
}

// Outputs as they are before a call: another poison every time, or the content of what is read and written.
static void reset(const slot *one, const kernel_case *c, uint64_t turn) {
    rng r = rng_make(turn);
    const int byte = rng_below(&r, 3) ? (int)rng_below(&r, 256) : 0xff;
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].role == CASE_OUT)
            memset(one->output[i], byte, c->buffer[i].size);
        else if (c->buffer[i].role == CASE_INOUT)
            memcpy(one->output[i], c->buffer[i].content, c->buffer[i].size);
}

static bool same(const slot *one, const input_set *set, bool own, char *reason, size_t size) {
    const kernel_case *c = &set->c;
    for (int i = 0; i < c->buffers; i++) {
        const case_buffer *b = &c->buffer[i];
        const unsigned char *want = own ? set->own[i] : b->want;
        if (b->role == CASE_IN || memcmp(one->output[i], want, b->size) == 0)
            continue;
        for (size_t k = 0; k < b->size; k++)
            if (b->used[k] && one->output[i][k] != want[k]) {
                snprintf(reason, size, "a timed call gave other bytes: %s, byte %zu is %02x, not %02x; %.120s",
                         b->name ? b->name : "?", k, one->output[i][k], want[k], c->what);
                return false;
            }
    }
    return true;
}

// What is expected of every set: the first outputs of a kernel.
static bool learn(slots *s, qsa_kernel_fn kernel, bool own) {
    for (int32_t k = 0; k < s->sets; k++) {
        input_set *set = &s->set[k];
        const slot *one = &s->slot[k];
        reset(one, &set->c, 1);
        case_call(s->number, kernel, one->args);
        for (int i = 0; i < set->c.buffers; i++) {
            case_buffer *b = &set->c.buffer[i];
            if (b->role == CASE_IN)
                continue;
            if (own && !(set->own[i] = aligned(b->size)))
                return false;
            memcpy(own ? set->own[i] : b->want, one->output[i], b->size);
        }
    }
    return true;
}

static bool open_all(slots *s, const timed_case *what, uint64_t seed) {
    s->set = calloc((size_t)s->sets, sizeof *s->set);
    s->slot = calloc((size_t)s->count, sizeof *s->slot);
    if (!s->set || !s->slot)
        return false;
    for (int32_t i = 0; i < s->sets; i++) {
        make_case(&s->set[i].c, s->number, what, i, seed);
        if (!place_inputs(&s->set[i]))
            return false;
    }
    for (int32_t i = 0; i < s->count; i++)
        if (!place_outputs(&s->slot[i], &s->set[i % s->sets]))
            return false;
    return true;
}

slots *slots_open(qsa_kernel_number number, const timed_case *what, qsa_kernel_fn baseline, qsa_kernel_fn other,
                  uint64_t seed) {
    slots *s = calloc(1, sizeof *s);
    kernel_case *first = calloc(1, sizeof *first);
    bool right = s && first;
    if (right) {
        make_case(first, number, what, 0, seed);
        const size_t in = bytes_of(first, true) + 1, out = bytes_of(first, false) + 1;
        const size_t wanted = what->cold ? cold_bytes() / in + 1 : HOT_SETS;
        s->number = number;
        s->other = other;
        s->sets = wanted < MOST_SETS ? (int32_t)wanted : MOST_SETS;
        s->sets = (s->sets + what->rows - 1) / what->rows * what->rows; // every row in every round
        s->count = OUTPUT_BYTES / out < MOST_SLOTS ? (int32_t)(OUTPUT_BYTES / out) : MOST_SLOTS;
        s->count = (s->count / s->sets + 1) * s->sets;
        for (int i = 0; i < first->buffers; i++) {
            free(first->buffer[i].content);
            free(first->buffer[i].used);
            free(first->buffer[i].want);
        }
        right = open_all(s, what, seed);
    }
    free(first);
    if (right && learn(s, baseline, false) && (!other || learn(s, other, true)))
        return s;
    slots_close(s);
    return NULL;
}

void slots_close(slots *s) {
    if (!s)
        return;
    for (int32_t i = 0; s->set && i < s->sets; i++)
        for (int k = 0; k < CASE_BUFFERS; k++) {
            free(s->set[i].input[k]);
            free(s->set[i].own[k]);
            free(s->set[i].c.buffer[k].content);
            free(s->set[i].c.buffer[k].used);
            free(s->set[i].c.buffer[k].want);
        }
    for (int32_t i = 0; s->slot && i < s->count; i++) {
        free(s->slot[i].args);
        for (int k = 0; k < CASE_BUFFERS; k++)
            free(s->slot[i].output[k]);
    }
    free(s->set);
    free(s->slot);
    free(s);
}

int32_t slots_lap(const slots *s) {
    return s->count;
}

// The calls, each through the contract's pointer type.
#define CALLS(stage, kernel)                                                                                           \
    static void calls_##kernel(const slots *s, qsa_kernel_fn function, int32_t first, int32_t n) {                     \
        qsa_##kernel##_fn volatile call = (qsa_##kernel##_fn)function;                                                 \
        for (int32_t i = 0, k = first; i < n; i++, k = k + 1 < s->count ? k + 1 : 0)                                   \
            call((const qsa_##kernel##_args *)(const void *)s->slot[k].args);                                          \
    }
QSA_KERNELS(CALLS)
#undef CALLS

static void (*const calls[])(const slots *, qsa_kernel_fn, int32_t, int32_t) = {
#define CALLS_OF(stage, kernel) calls_##kernel,
    QSA_KERNELS(CALLS_OF)
#undef CALLS_OF
};

typedef struct counters {
    long switches, faults;
    int cpu;
} counters;

static counters count_now(void) {
    struct rusage usage = {0};
    getrusage(RUSAGE_THREAD, &usage);
    return (counters){usage.ru_nivcsw, usage.ru_majflt, sched_getcpu()};
}

static unsigned disturbed(const counters *before, const counters *after) {
    return (after->switches > before->switches ? DROP_SWITCH : 0) | (after->cpu != before->cpu ? DROP_MOVED : 0) |
           (after->faults > before->faults ? DROP_FAULT : 0);
}

double slots_run(slots *s, qsa_kernel_fn kernel, int32_t n, unsigned *drop, char *reason, size_t size) {
    const int32_t first = s->next;
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = (first + i) % s->count;
        reset(&s->slot[k], &s->set[k % s->sets].c, s->laps * 4096 + (uint64_t)i);
    }
    const unsigned long control = fp_control();
    const counters before = count_now();
    const double start = lab_now();
    calls[s->number](s, kernel, first, n);
    const double seconds = lab_now() - start;
    const counters after = count_now();
    *drop |= disturbed(&before, &after);
    s->next = (first + n) % s->count;
    s->laps++;
    if (fp_control() != control) {
        fp_control_set(control);
        snprintf(reason, size, "the FP control word was changed by a timed call");
        return -1;
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = (first + i) % s->count;
        if (!same(&s->slot[k], &s->set[k % s->sets], kernel == s->other, reason, size))
            return -1;
    }
    return seconds;
}
