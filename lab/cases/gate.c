// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel gate.
#include "lab/cases/parts.h"

#include <stdbool.h>
#include <stdio.h>

void case_make_gate(kernel_case *c, rng *r) {
    qsa_gate_args *args = &c->args.gate;
    const values_kind kind = case_kind(c, r), gate_kind = case_kind(c, r);
    const bool in_place = !c->shape && rng_below(r, 4) == 0;
    args->heads = c->shape ? MODEL_HEADS : values_draw_heads(r);
    args->dim = c->shape ? MODEL_DIM : values_draw_dim(r);
    args->x_type = c->shape ? QSA_F32 : values_draw_type(r);
    args->gate_type = c->shape ? QSA_F32 : values_draw_type(r);
    args->out_type = in_place ? args->x_type : c->shape ? QSA_F32 : values_draw_type(r);
    int64_t first, gate_first, out_first;
    const int x = case_add_vectors(c, r, kind, in_place ? CASE_INOUT : CASE_IN, args->x_type, args->heads, args->dim,
                                   &args->x_stride, &first);
    const int gate = case_add_vectors(c, r, gate_kind, CASE_IN, args->gate_type, args->heads, args->dim,
                                      &args->gate_stride, &gate_first);
    int out = x;
    args->out_stride = args->x_stride;
    out_first = first;
    if (!in_place)
        out = case_add_vectors(c, r, kind, CASE_OUT, args->out_type, args->heads, args->dim, &args->out_stride,
                               &out_first);
    case_point(c, &args->x, x, first);
    case_point(c, &args->gate, gate, gate_first);
    case_point(c, &args->out, out, out_first);
    snprintf(c->what, sizeof c->what, "x %s %s%s, gate %s %s, out %s, heads %d, dim %d", values_type_name(args->x_type),
             values_name(kind), in_place ? " in place" : "", values_type_name(args->gate_type), values_name(gate_kind),
             values_type_name(args->out_type), args->heads, args->dim);
}

const case_plan case_plan_gate = {{{"one row", 1, false}}, 1, 3, 1};
