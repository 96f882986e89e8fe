// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel angles.
#include "lab/cases/parts.h"

#include <stdio.h>

void case_make_angles(kernel_case *c, rng *r) {
    qsa_angles_args *args = &c->args.angles;
    args->half = c->shape ? MODEL_HALF : rng_range(r, 1, rng_below(r, 4) ? 64 : QSA_MAX_HEAD_DIM / 2);
    const size_t half = (size_t)args->half;
    const int frequencies = case_add(c, CASE_IN, half * sizeof(float));
    rng_fill_uniform(r, half, 1e-8, 1, (float *)(void *)case_use(c, frequencies, 0, half * sizeof(float)));
    const int axis = case_add(c, CASE_IN, half), positions = case_add(c, CASE_IN, 3 * sizeof(int32_t));
    unsigned char *axes = case_use(c, axis, 0, half);
    for (size_t i = 0; i < half; i++)
        axes[i] = (unsigned char)rng_below(r, 3);
    int32_t *position = (int32_t *)(void *)case_use(c, positions, 0, 3 * sizeof(int32_t));
    for (int i = 0; i < 3; i++)
        position[i] = c->shape ? c->shape->cells - 1 : values_draw_position(r, 30);
    const int cosine = case_add(c, CASE_OUT, half * sizeof(float)), sine = case_add(c, CASE_OUT, half * sizeof(float));
    case_use(c, cosine, 0, half * sizeof(float));
    case_use(c, sine, 0, half * sizeof(float));
    case_point(c, &args->inv_freq, frequencies, 0);
    case_point(c, &args->axis, axis, 0);
    case_point(c, &args->positions, positions, 0);
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    snprintf(c->what, sizeof c->what, "half %d, positions %d %d %d", args->half, position[0], position[1], position[2]);
}

const case_plan case_plan_angles = {{{"one row", 8192, false}}, 1, 3, 1};
