// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel screen_query.
#include "lab/cases/parts.h"

#include <stdio.h>

void case_make_screen_query(kernel_case *c, rng *r) {
    qsa_screen_query_args *args = &c->args.screen_query;
    const values_kind kind = case_kind(c, r);
    args->heads = c->shape ? MODEL_INDEX_HEADS : values_draw_heads(r);
    args->dim = c->shape ? MODEL_INDEX_DIM : values_draw_dim(r);
    const size_t heads = (size_t)qsa_screen_heads(args->heads), stride = (size_t)qsa_screen_stride(args->dim);
    const size_t values = (size_t)args->heads * (size_t)args->dim, bytes = values * sizeof(float);
    const int q = case_add(c, CASE_IN, bytes), codes = case_add(c, CASE_OUT, heads * stride * sizeof(int16_t));
    const int scales = case_add(c, CASE_OUT, heads * sizeof(float)), bound = case_add(c, CASE_OUT, 3 * sizeof(float));
    const int usable = case_add(c, CASE_OUT, sizeof(int32_t));
    unsigned char *content = case_use(c, q, 0, bytes);
    case_fill_far(r, kind, QSA_F32, values, content);
    if (qsa_screen_largest((const float *)(void *)content, (int32_t)values) <= QSA_SCREEN_MOST) {
        case_use(c, codes, 0, heads * stride * sizeof(int16_t));
        case_use(c, scales, 0, heads * sizeof(float));
        case_use(c, bound, 0, 3 * sizeof(float));
    }
    case_use(c, usable, 0, sizeof(int32_t));
    case_point(c, &args->index_q, q, 0);
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scales, scales, 0);
    case_point(c, &args->bound, bound, 0);
    case_point(c, &args->usable, usable, 0);
    snprintf(c->what, sizeof c->what, "%s, heads %d, dim %d", values_name(kind), args->heads, args->dim);
}

const case_plan case_plan_screen_query = {{{"one row", 1, false}}, 1, 3, 1};
