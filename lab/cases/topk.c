// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel topk.
#include "lab/cases/parts.h"

#include <stdio.h>

static void draw_geometry(qsa_topk_args *args, rng *r) {
    args->blocks = rng_below(r, 4) ? rng_range(r, 1, 700) : rng_range(r, 1, 9000);
    switch (rng_below(r, 4)) {
    case 0:
        args->take = args->blocks;
        break;
    case 1:
        args->take = 1;
        break;
    default:
        args->take = rng_range(r, 1, args->blocks);
        break;
    }
}

void case_make_topk(kernel_case *c, rng *r) {
    qsa_topk_args *args = &c->args.topk;
    const values_kind kind = case_kind(c, r);
    if (c->shape) {
        args->blocks = case_blocks(c->shape->cells);
        args->take = args->blocks < MODEL_BUDGET / MODEL_RATIO ? args->blocks : MODEL_BUDGET / MODEL_RATIO;
    } else {
        draw_geometry(args, r);
    }
    const size_t bytes = (size_t)args->blocks * sizeof(float), id_bytes = (size_t)args->take * sizeof(int32_t);
    const int scores = case_add(c, CASE_IN, bytes), ids = case_add(c, CASE_OUT, id_bytes);
    const int last = case_add(c, CASE_OUT, sizeof(int32_t));
    values_fill(r, kind, QSA_F32, (size_t)args->blocks, case_use(c, scores, 0, bytes));
    case_use(c, ids, 0, id_bytes);
    case_use(c, last, 0, sizeof(int32_t));
    case_point(c, &args->scores, scores, 0);
    case_point(c, &args->ids, ids, 0);
    case_point(c, &args->last, last, 0);
    snprintf(c->what, sizeof c->what, "%s, blocks %d, take %d", values_name(kind), args->blocks, args->take);
}

const case_plan case_plan_topk = {{{"32768 blocks", 131072, false}, {"2048 blocks", 8192, false}}, 2, 3, 1};
