// SPDX-License-Identifier: Apache-2.0
//
// One call of one kernel as data: its arguments, and for every buffer the bytes that mean something. lab/cases/*.c
// draw cases, kernel_case.c runs them. A run lays every buffer flush against a guard page, makes the inputs read-only,
// fills what means nothing (gaps between rows, rows that are not selected, outputs before the call) with a poison that
// changes from run to run, and complains about
// - an output byte that differs from the run that was learned (the reference's), so also about one that was not written:
//   the poisons of two runs of a pair differ in every byte,
// - a byte outside the outputs that has changed,
// - changed arguments, or a changed FP control word.
// Reading or writing past a buffer, or writing to an input, is a SIGSEGV.
#ifndef QSA_TESTS_KERNEL_CASE_H
#define QSA_TESTS_KERNEL_CASE_H

#include "dispatch/table.h"
#include "support/guard.h"
#include "support/rng.h"

enum { CASE_BUFFERS = 24, CASE_LINKS = 300, CASE_CAPACITY = 4 << 20 };

typedef enum { CASE_IN, CASE_OUT, CASE_INOUT } case_role;

// What a call of the first model looks like for a row that sees `cells` cells, its own included; NULL: any call.
typedef enum { CASE_ORDINARY, CASE_ZEROS, CASE_CANCEL } case_edge;
typedef struct {
    int32_t cells;
    case_edge edge; // ordinary numbers, ties and signed zeros, sums that nearly cancel
} case_shape;

// What the elements of a buffer are, for messages.
typedef enum { CASE_BYTES, CASE_F32, CASE_F16, CASE_BF16, CASE_I8, CASE_U16, CASE_I32, CASE_U64 } case_element_kind;

// The first difference of a run.
typedef struct {
    int buffer;
    int64_t offset; // in bytes; outside the buffer: it was written and is no output
    bool stray;     // no output, and was written
} case_difference;

typedef struct {
    case_role role;
    const char *name; // of the field that points to it
    case_element_kind element;
    size_t size, shift;     // shift: distance from the guard page, for unaligned data
    unsigned char *content; // [size]
    unsigned char *used;    // [size] 1: content counts, or must be written; 0: poison
    unsigned char *want;    // [size] outputs of the run that was learned
    unsigned char *at;      // place in the current run
} case_buffer;

// A pointer to be set when the buffers have their places: in the arguments (into = -1) or in a buffer.
typedef struct {
    int into, buffer;
    size_t where;
    int64_t offset; // may be negative: a base pointer before the first row that is used
} case_link;

#define CASE_ARGS_FIELD(stage, kernel) qsa_##kernel##_args kernel;
typedef struct {
    qsa_kernel_number number;
    const case_shape *shape;    // asked for before case_make; NULL: any
    char what[200];             // the geometry in words
    case_difference difference; // of the last run that complained about bytes
    union {
        QSA_KERNELS(CASE_ARGS_FIELD)
    } args;
    int buffers, links;
    case_buffer buffer[CASE_BUFFERS];
    case_link link[CASE_LINKS];
    guard arena[CASE_BUFFERS];
    uint64_t runs;
} kernel_case;
#undef CASE_ARGS_FIELD

// A case holds its memory over many makes. Both abort when there is none.
void case_open(kernel_case *c);
void case_open_of(kernel_case *c, size_t capacity); // of every buffer
void case_close(kernel_case *c);

// Draws a random case: geometry, strides, formats and values.
void case_make(kernel_case *c, qsa_kernel_number number, rng *r);

// Runs `kernel` once; odd and even runs have complementary poisons. learn: keep the outputs as what the following runs
// are compared with. NULL, or the complaint (static storage).
const char *case_run(kernel_case *c, qsa_kernel_fn kernel, guard_side side, bool learn);

// Calls `kernel` by its own type, with arguments of that type.
void case_call(qsa_kernel_number number, qsa_kernel_fn kernel, const void *args);

// Both sides, compared (or learned, then compared).
const char *case_run_both(kernel_case *c, qsa_kernel_fn kernel, bool learn);

// ---- For the makers ---------------------------------------------------------------------------

// Adds a buffer of `size` bytes, none of them used; returns its number.
int case_add(kernel_case *c, case_role role, size_t size);

// Adds `count` rows of `bytes` used bytes at a distance of `stride` bytes, which may be negative; *first is row 0's
// offset.
int case_add_rows(kernel_case *c, case_role role, int32_t count, size_t bytes, int64_t stride, int64_t *first);

// Marks bytes as used; returns where their content goes.
unsigned char *case_use(kernel_case *c, int buffer, size_t offset, size_t bytes);

// The pointer `field` of c->args will point to buffer + offset. The buffer takes the field's name and, where it says one, type.
#define case_point(c, field, buffer, offset)                                                                           \
    case_point_as((c), (field), (buffer), (offset), #field,                                                            \
                  _Generic((field), float **: CASE_F32, const float **: CASE_F32, int32_t **: CASE_I32,                \
                           int8_t **: CASE_I8, uint16_t **: CASE_U16, uint64_t **: CASE_U64, default: CASE_BYTES))
void case_point_as(kernel_case *c, void *field, int buffer, int64_t offset, const char *name,
                   case_element_kind element);
// What a buffer behind a void pointer holds.
void case_element(kernel_case *c, int buffer, qsa_type type);
// The pointer at `where` in buffer `into` will point to buffer + offset.
void case_point_in(kernel_case *c, int into, size_t where, int buffer, int64_t offset);

#define CASE_MAKER(stage, kernel) void case_make_##kernel(kernel_case *c, rng *r);
QSA_KERNELS(CASE_MAKER)
#undef CASE_MAKER

#endif
