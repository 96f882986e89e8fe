// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel norm_rope.
#include "lab/cases/parts.h"

#include <stdio.h>

void case_make_norm_rope(kernel_case *c, rng *r) {
    qsa_norm_rope_args *args = &c->args.norm_rope;
    const values_kind kind = case_kind(c, r), other = case_kind(c, r);
    args->type = c->shape ? QSA_F32 : values_draw_type(r);
    args->vectors = c->shape ? MODEL_HEADS : values_draw_heads(r);
    args->dim = c->shape ? MODEL_DIM : values_draw_dim(r);
    args->half = c->shape ? MODEL_HALF : rng_below(r, 8) ? rng_range(r, 0, args->dim / 2) : args->dim / 2;
    args->eps = c->shape ? 1e-6f : case_draw_eps(r);
    int64_t first, out_first;
    const int x = case_add_vectors(c, r, kind, CASE_IN, args->type, args->vectors, args->dim, &args->x_stride, &first);
    const int factor = case_add_floats(c, r, other, args->dim);
    const int cosine = case_add_floats(c, r, VALUES_NORMAL, args->half),
              sine = case_add_floats(c, r, other, args->half);
    const size_t bytes = (size_t)args->dim * sizeof(float);
    const int64_t stride = case_stride(c, r, bytes, sizeof(float));
    const int out = case_add_rows(c, CASE_OUT, args->vectors, bytes, stride, &out_first);
    args->out_stride = stride / (int64_t)sizeof(float);
    case_point(c, &args->x, x, first);
    case_point(c, &args->factor, factor, 0);
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    case_point(c, &args->out, out, out_first);
    snprintf(c->what, sizeof c->what, "%s %s, vectors %d, dim %d, half %d, x_stride %lld, factors %s",
             values_type_name(args->type), values_name(kind), args->vectors, args->dim, args->half,
             (long long)args->x_stride, values_name(other));
}

const case_plan case_plan_norm_rope = {{{"queries of a row", 1, false}}, 1, 3, 1};
