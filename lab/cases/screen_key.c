// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel screen_key.
#include "lab/cases/parts.h"

#include <stdio.h>

void case_make_screen_key(kernel_case *c, rng *r) {
    qsa_screen_key_args *args = &c->args.screen_key;
    const values_kind kind = case_kind(c, r);
    args->format = c->shape ? QSA_F32 : values_draw_type(r);
    args->dim = c->shape ? MODEL_INDEX_DIM : values_draw_dim(r);
    const size_t bytes = (size_t)args->dim * qsa_type_size(args->format), stride = (size_t)qsa_screen_stride(args->dim);
    const int key = case_add(c, CASE_IN, bytes), codes = case_add(c, CASE_OUT, stride);
    const int scale = case_add(c, CASE_OUT, sizeof(float)), residual = case_add(c, CASE_OUT, sizeof(float));
    case_fill_far(r, kind, args->format, (size_t)args->dim, case_use(c, key, 0, bytes));
    case_use(c, codes, 0, stride);
    case_use(c, scale, 0, sizeof(float));
    case_use(c, residual, 0, sizeof(float));
    case_element(c, key, args->format);
    case_point(c, &args->key, key, 0);
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scale, scale, 0);
    case_point(c, &args->residual, residual, 0);
    snprintf(c->what, sizeof c->what, "%s %s, dim %d", values_type_name(args->format), values_name(kind), args->dim);
}

const case_plan case_plan_screen_key = {{{"one block", 1, false}}, 1, 3, 1};
