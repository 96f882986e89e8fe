// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel angles.
#include "lab/cases/parts.h"

#include <stdio.h>

void case_make_angles(kernel_case *c, rng *r) {
    qsa_angles_args *args = &c->args.angles;
    args->half = c->shape ? MODEL_HALF : rng_range(r, 1, rng_below(r, 4) ? 64 : QSA_MAX_HEAD_DIM / 2);
    const size_t half = (size_t)args->half;
    int32_t position[3];
    case_add_angles(c, r, args, position);
    const int cosine = case_add(c, CASE_OUT, half * sizeof(float)), sine = case_add(c, CASE_OUT, half * sizeof(float));
    case_use(c, cosine, 0, half * sizeof(float));
    case_use(c, sine, 0, half * sizeof(float));
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    snprintf(c->what, sizeof c->what, "half %d, positions %d %d %d", args->half, position[0], position[1], position[2]);
}

const case_plan case_plan_angles = {{{"one row", 8192, false}}, 1, 3, 1};
