// SPDX-License-Identifier: Apache-2.0
//
// What the makers of several kernels share, and the plan of a kernel's case file. A maker draws any call its contract allows, or,
// where c->shape is set, the call that a row of the first model makes at a number of cells: the geometry is fixed then, and
// memory is laid out without gaps.

#ifndef QSA_LAB_CASES_PARTS_H
#define QSA_LAB_CASES_PARTS_H

#include "num/load.h"
#include "support/kernel_case.h"
#include "support/kernel_values.h"

// The first model's: 24 / 2 heads of 256, indexer of 4 heads of 128, 64 rotated dims, blocks of 4 cells, 2,048 cells attended.
enum {
    MODEL_HEADS = 24,
    MODEL_KV_HEADS = 2,
    MODEL_DIM = 256,
    MODEL_HALF = 32,
    MODEL_INDEX_HEADS = 4,
    MODEL_INDEX_DIM = 128,
    MODEL_RATIO = 4,
    MODEL_BUDGET = 2048,
    MODEL_PAGE_BLOCKS = 16,
};

// A shape that is timed. cold: the inputs come from memory, not from a cache.
typedef struct case_timing {
    const char *name;
    int32_t cells;
    bool cold;
} case_timing;

enum { CASE_TIMINGS = 3 };

// The first timing is the one that a claim is made of. Floors in percent.
typedef struct case_plan {
    case_timing timing[CASE_TIMINGS];
    int timings;
    double effect_floor, harm_floor;
} case_plan;

#define CASE_PLAN(stage, kernel) extern const case_plan case_plan_##kernel;
QSA_KERNELS(CASE_PLAN)
#undef CASE_PLAN

const case_plan *case_plan_of(qsa_kernel_number number);

// The kind of values: what the shape asks for, else drawn.
values_kind case_kind(const kernel_case *c, rng *r);
// A row distance: tight for a shape, else drawn.
int64_t case_stride(const kernel_case *c, rng *r, size_t bytes, size_t unit);
// Cells that a row of the model attends, and complete blocks (one at least) that it sees.
int32_t case_attended(int32_t cells);
int32_t case_blocks(int32_t cells);

// An input of n floats, aligned.
int case_add_floats(kernel_case *c, rng *r, values_kind kind, int32_t n);
// Vectors of any type, stride and alignment, filled unless they are an output only.
int case_add_vectors(kernel_case *c, rng *r, values_kind kind, case_role role, qsa_type type, int32_t vectors,
                     int32_t dim, int64_t *stride, int64_t *first);
int case_add_events(kernel_case *c, rng *r);
// What angles are made of, but for half, which is set already; position gets the three.
void case_add_angles(kernel_case *c, rng *r, qsa_angles_args *args, int32_t position[3]);
// The raw keys of a block, in any order in memory, each of its own type if mixed; dim and ratio are set already.
void case_add_raw_keys(kernel_case *c, rng *r, values_kind kind, qsa_type common, int mixed, qsa_pool_args *args);
float case_draw_eps(rng *r);
// Values of a kind, now and then all of them far from 1.
void case_fill_far(rng *r, values_kind kind, qsa_type type, size_t n, void *out);

#endif
