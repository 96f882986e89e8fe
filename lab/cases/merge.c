// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel merge.
#include "lab/cases/parts.h"

#include <stdbool.h>
#include <stdio.h>

// A record whose l is 0 holds nothing: its other numbers are poison.
static void fill_record(kernel_case *c, rng *r, values_kind kind, int buffer, size_t at, int32_t dim) {
    const double spread = rng_below(r, 4) ? 4 : 60;
    const float m = (float)(rng_normal(r) * spread), l = (float)(1 + 63 * rng_uniform(r));
    const bool empty = !c->shape && rng_below(r, 8) == 0;
    const float stored = empty ? (rng_below(r, 2) ? 0.0f : -0.0f) : l;
    memcpy(case_use(c, buffer, at + sizeof(float), sizeof l), &stored, sizeof l);
    if (empty)
        return;
    memcpy(case_use(c, buffer, at, sizeof m), &m, sizeof m);
    values_fill(r, kind, QSA_F32, (size_t)dim, case_use(c, buffer, at + 8, (size_t)dim * sizeof(float)));
    if (kind != VALUES_NORMAL && rng_below(r, 8) == 0)
        values_fill(r, kind, QSA_F32, 1, c->buffer[buffer].content + at);
    if (kind != VALUES_NORMAL && rng_below(r, 8) == 0)
        values_fill(r, kind, QSA_F32, 1, c->buffer[buffer].content + at + sizeof(float));
}

static void draw_geometry(kernel_case *c, rng *r) {
    qsa_merge_args *args = &c->args.merge;
    if (c->shape) {
        args->heads = MODEL_HEADS;
        args->dim = MODEL_DIM;
        args->chunks = (case_attended(c->shape->cells) + QSA_CHUNK - 1) / QSA_CHUNK;
        return;
    }
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->chunks = rng_below(r, 8) ? rng_range(r, 1, 8) : rng_below(r, 2) ? 0 : 33;
    const int32_t most = 1 + 60000 / (args->heads * args->dim);
    args->chunks = args->chunks < most ? args->chunks : most;
}

void case_make_merge(kernel_case *c, rng *r) {
    qsa_merge_args *args = &c->args.merge;
    const values_kind kind = case_kind(c, r), gate_kind = case_kind(c, r);
    draw_geometry(c, r);
    const size_t record = (size_t)(2 + args->dim) * sizeof(float), bytes = (size_t)args->heads * record;
    args->chunk_stride = (int64_t)(bytes / sizeof(float)) + (c->shape || rng_below(r, 2) ? 0 : rng_range(r, 1, 40));
    const size_t stride = (size_t)args->chunk_stride * sizeof(float);
    const int records = case_add(c, CASE_IN, args->chunks ? (size_t)(args->chunks - 1) * stride + bytes : 0);
    for (int32_t k = 0; k < args->chunks; k++)
        for (int32_t h = 0; h < args->heads; h++)
            fill_record(c, r, kind, records, (size_t)k * stride + (size_t)h * record, args->dim);
    case_point(c, &args->records, records, 0);
    int64_t first;
    if (c->shape || rng_below(r, 2)) {
        args->gate_type = c->shape ? QSA_F32 : values_draw_type(r);
        const int gate = case_add_vectors(c, r, gate_kind, CASE_IN, args->gate_type, args->heads, args->dim,
                                          &args->gate_stride, &first);
        case_point(c, &args->gate, gate, first);
    }
    args->out_type = c->shape ? QSA_F32 : values_draw_type(r);
    const int out =
        case_add_vectors(c, r, kind, CASE_OUT, args->out_type, args->heads, args->dim, &args->out_stride, &first);
    case_point(c, &args->out, out, first);
    if (!c->shape && rng_below(r, 2)) {
        const int lse = case_add(c, CASE_OUT, (size_t)args->heads * sizeof(float));
        case_use(c, lse, 0, (size_t)args->heads * sizeof(float));
        case_point(c, &args->lse, lse, 0);
    }
    snprintf(c->what, sizeof c->what, "%s, chunks %d, heads %d, dim %d, gate %s %s, out %s", values_name(kind),
             args->chunks, args->heads, args->dim, args->gate_type ? values_type_name(args->gate_type) : "none",
             values_name(gate_kind), values_type_name(args->out_type));
}

const case_plan case_plan_merge = {{{"decode at 8192", 8192, false}}, 1, 3, 1};
