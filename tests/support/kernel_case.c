// SPDX-License-Identifier: Apache-2.0
//
// Places, poisons, runs and compares one kernel call.
#include "kernel_case.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MARGIN = 256 }; // bytes around a buffer that are poisoned and checked

static char complaint[512];

static unsigned char *memory(size_t size) {
    unsigned char *p = calloc(size ? size : 1, 1);
    if (!p)
        abort();
    return p;
}

void case_open_of(kernel_case *c, size_t capacity) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < CASE_BUFFERS; i++)
        guard_open(&c->arena[i], capacity);
}

void case_open(kernel_case *c) {
    case_open_of(c, CASE_CAPACITY);
}

static void forget(kernel_case *c) {
    for (int i = 0; i < c->buffers; i++) {
        free(c->buffer[i].content);
        free(c->buffer[i].used);
        free(c->buffer[i].want);
    }
    c->buffers = c->links = 0;
}

void case_close(kernel_case *c) {
    forget(c);
    for (int i = 0; i < CASE_BUFFERS; i++)
        guard_close(&c->arena[i]);
}

int case_add(kernel_case *c, case_role role, size_t size) {
    if (c->buffers == CASE_BUFFERS)
        abort();
    c->buffer[c->buffers] =
        (case_buffer){.role = role, .size = size, .content = memory(size), .used = memory(size), .want = memory(size)};
    return c->buffers++;
}

int case_add_rows(kernel_case *c, case_role role, int32_t count, size_t bytes, int64_t stride, int64_t *first) {
    const size_t distance = (size_t)(stride < 0 ? -stride : stride);
    const int32_t gaps = count > 0 ? count - 1 : 0;
    const int i = case_add(c, role, count > 0 ? distance * (size_t)gaps + bytes : 0);
    for (int32_t row = 0; row < count; row++)
        case_use(c, i, distance * (size_t)row, bytes);
    *first = stride < 0 ? (int64_t)distance * gaps : 0;
    return i;
}

unsigned char *case_use(kernel_case *c, int buffer, size_t offset, size_t bytes) {
    case_buffer *b = &c->buffer[buffer];
    if (offset + bytes > b->size)
        abort();
    memset(b->used + offset, 1, bytes);
    return b->content + offset;
}

static void add_link(kernel_case *c, case_link link) {
    if (c->links == CASE_LINKS)
        abort();
    c->link[c->links++] = link;
}

void case_element(kernel_case *c, int buffer, qsa_type type) {
    static const case_element_kind kinds[] = {
        [QSA_F32] = CASE_F32, [QSA_F16] = CASE_F16, [QSA_BF16] = CASE_BF16, [QSA_I8] = CASE_I8};
    c->buffer[buffer].element = kinds[type];
}

void case_point_as(kernel_case *c, void *field, int buffer, int64_t offset, const char *name,
                   case_element_kind element) {
    const size_t where = (size_t)((unsigned char *)field - (unsigned char *)&c->args);
    case_buffer *b = &c->buffer[buffer];
    const char *member = strrchr(name, '>'); // of "&args->records"
    b->name = member ? member + 1 : name;
    b->element = element == CASE_BYTES ? b->element : element;
    add_link(c, (case_link){-1, buffer, where, offset});
}

void case_point_in(kernel_case *c, int into, size_t where, int buffer, int64_t offset) {
    add_link(c, (case_link){into, buffer, where, offset});
}

void case_make(kernel_case *c, qsa_kernel_number number, rng *r) {
    forget(c);
    c->number = number;
    c->what[0] = '\0';
    memset(&c->args, 0, sizeof c->args);
    switch (number) {
#define CASE_MAKE(stage, kernel)                                                                                       \
    case QSA_K_##kernel:                                                                                               \
        case_make_##kernel(c, r);                                                                                      \
        break;
        QSA_KERNELS(CASE_MAKE)
#undef CASE_MAKE
    case QSA_K_COUNT:
        abort();
    }
}

// ---- One run ------------------------------------------------------------------------------------

static unsigned char poison_at(uint64_t poison, size_t i) {
    return (unsigned char)(poison >> (8 * (i & 7u)));
}

// One pair of runs in two: all bits set, a NaN in every format, and then none. Drawn, so that it keeps no step with the
// number of runs that a test makes.
static uint64_t poison_of(uint64_t run) {
    rng r = rng_make(run / 2);
    const uint64_t poison = rng_u64(&r) & 1 ? UINT64_MAX : rng_u64(&r);
    return run % 2 ? ~poison : poison;
}

// The part of the arena around a buffer that is poisoned: MARGIN bytes on both sides, as far as the arena goes.
static void margins(const case_buffer *b, const guard *arena, size_t *before, size_t *after) {
    const size_t front = (size_t)(b->at - arena->base), back = arena->capacity - front - b->size;
    *before = front < MARGIN ? front : MARGIN;
    *after = back < MARGIN ? back : MARGIN;
}

static void place(case_buffer *b, const guard *arena, guard_side side, uint64_t poison) {
    b->at = guard_place(arena, b->size, side, b->shift);
    size_t before, after;
    margins(b, arena, &before, &after);
    unsigned char *p = b->at - before;
    for (size_t i = 0; i < before + b->size + after; i++)
        p[i] = poison_at(poison, i);
    if (b->role != CASE_OUT)
        for (size_t i = 0; i < b->size; i++)
            if (b->used[i])
                b->at[i] = b->content[i];
}

static void set_links(kernel_case *c) {
    for (int i = 0; i < c->links; i++) {
        const case_link *link = &c->link[i];
        void *pointer = c->buffer[link->buffer].at + link->offset;
        unsigned char *into = link->into < 0 ? (unsigned char *)&c->args : c->buffer[link->into].at;
        memcpy(into + link->where, &pointer, sizeof pointer);
    }
}

void case_call(qsa_kernel_number number, qsa_kernel_fn kernel, const void *args) {
    switch (number) {
#define CASE_CALL(stage, kernel_)                                                                                      \
    case QSA_K_##kernel_:                                                                                              \
        ((qsa_##kernel_##_fn)kernel)(args);                                                                            \
        break;
        QSA_KERNELS(CASE_CALL)
#undef CASE_CALL
    case QSA_K_COUNT:
        abort();
    }
}

static const char *check_output(case_buffer *b, int number, const guard *arena, uint64_t poison, bool learn,
                                case_difference *difference) {
    size_t before, after;
    margins(b, arena, &before, &after);
    const unsigned char *p = b->at - before;
    for (size_t i = 0; i < before + b->size + after; i++) {
        const bool outside = i < before || i >= before + b->size;
        if (!outside && b->used[i - before]) {
            if (learn)
                b->want[i - before] = p[i];
            else if (p[i] != b->want[i - before]) {
                snprintf(complaint, sizeof complaint, "buffer %d, byte %zu of %zu: %02x, not %02x", number, i - before,
                         b->size, p[i], b->want[i - before]);
                *difference = (case_difference){number, (int64_t)i - (int64_t)before, false};
                return complaint;
            }
        } else if (p[i] != poison_at(poison, i)) {
            snprintf(complaint, sizeof complaint, "buffer %d, byte %td of %zu is no output and was written", number,
                     (ptrdiff_t)i - (ptrdiff_t)before, b->size);
            *difference = (case_difference){number, (int64_t)i - (int64_t)before, true};
            return complaint;
        }
    }
    return NULL;
}

const char *case_run(kernel_case *c, qsa_kernel_fn kernel, guard_side side, bool learn) {
    const uint64_t poison = poison_of(c->runs++);
    const char *result = NULL;
    for (int i = 0; i < c->buffers; i++)
        place(&c->buffer[i], &c->arena[i], side, poison);
    set_links(c);
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].role == CASE_IN)
            guard_protect(&c->arena[i], true);
    const unsigned long control = fp_control();
    unsigned char before[sizeof c->args], *args = (unsigned char *)&c->args;
    memcpy(before, args, sizeof before);
    case_call(c->number, kernel, &c->args);
    if (memcmp(before, args, sizeof before) != 0) {
        memcpy(args, before, sizeof before);
        result = "the arguments were changed";
    }
    if (fp_control() != control) {
        fp_control_set(control);
        result = "the FP control word was changed";
    }
    for (int i = 0; i < c->buffers; i++) {
        if (c->buffer[i].role == CASE_IN)
            guard_protect(&c->arena[i], false);
        else if (!result)
            result = check_output(&c->buffer[i], i, &c->arena[i], poison, learn, &c->difference);
    }
    return result;
}

const char *case_run_both(kernel_case *c, qsa_kernel_fn kernel, bool learn) {
    c->runs += c->runs % 2;
    const char *first = case_run(c, kernel, GUARD_END, learn), *second = case_run(c, kernel, GUARD_START, false);
    return first ? first : second;
}
