// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel pool.
#include "lab/cases/parts.h"

#include <stdio.h>

static void draw_geometry(kernel_case *c, rng *r) {
    qsa_pool_args *args = &c->args.pool;
    if (c->shape) {
        args->dim = MODEL_INDEX_DIM;
        args->half = MODEL_HALF;
        args->ratio = MODEL_RATIO;
        args->eps = 1e-6f;
        args->format = QSA_F32;
        return;
    }
    args->dim = values_draw_dim(r);
    args->half = rng_range(r, 0, args->dim / 2);
    args->ratio = rng_below(r, 32) ? rng_range(r, 1, 8) : rng_range(r, 9, QSA_MAX_RATIO);
    args->eps = case_draw_eps(r);
    args->format = values_draw_type(r);
}

void case_make_pool(kernel_case *c, rng *r) {
    qsa_pool_args *args = &c->args.pool;
    const values_kind kind = case_kind(c, r);
    draw_geometry(c, r);
    const qsa_type common = c->shape ? QSA_F32 : values_draw_type(r);
    const int mixed = !c->shape && rng_below(r, 4) == 0;
    case_add_raw_keys(c, r, kind, common, mixed, args);
    const int factor = case_add_floats(c, r, case_kind(c, r), args->dim);
    const int cosine = case_add_floats(c, r, VALUES_NORMAL, args->half),
              sine = case_add_floats(c, r, VALUES_NORMAL, args->half);
    const size_t bytes = (size_t)args->dim * qsa_type_size(args->format);
    const int out = case_add(c, CASE_OUT, bytes);
    case_use(c, out, 0, bytes);
    case_point(c, &args->factor, factor, 0);
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    case_element(c, out, args->format);
    case_point(c, &args->out, out, 0);
    case_point(c, &args->events, case_add_events(c, r), 0);
    snprintf(c->what, sizeof c->what, "%s%s %s, ratio %d, dim %d, half %d, to %s", values_type_name(common),
             mixed ? " and others" : "", values_name(kind), args->ratio, args->dim, args->half,
             values_type_name(args->format));
}

const case_plan case_plan_pool = {{{"one block", 1, false}}, 1, 3, 1};
