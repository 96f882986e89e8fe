// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel candidates.
#include "lab/cases/parts.h"

#include <math.h>
#include <stdio.h>

// Bounds as screen writes them: no NaN, lower at most upper, no -0.
static void fill_bounds(rng *r, values_kind kind, int32_t blocks, float *lower, float *upper) {
    values_fill(r, kind, QSA_F32, (size_t)blocks, lower);
    const float width = rng_below(r, 4) ? (float)rng_uniform(r) : 0.0f;
    for (int32_t b = 0; b < blocks; b++) {
        lower[b] = lower[b] == lower[b] && lower[b] < qsa_infinity() ? lower[b] + 0.0f : -qsa_infinity();
        upper[b] = lower[b] > -qsa_infinity() ? lower[b] + width * fabsf(lower[b]) : qsa_infinity();
    }
}

enum { MOST = 32768 };

static void draw_geometry(kernel_case *c, rng *r) {
    qsa_candidates_args *args = &c->args.candidates;
    if (c->shape) {
        args->take = MODEL_BUDGET / MODEL_RATIO;
        args->blocks = case_blocks(c->shape->cells);
        args->take = args->take < args->blocks ? args->take : args->blocks;
        args->groups = 8 * args->take < args->blocks ? 8 * args->take : args->blocks;
        return;
    }
    args->blocks = rng_range(r, 1, rng_below(r, 4) ? 700 : 9000);
    args->groups = rng_below(r, 3) ? rng_range(r, 1, args->blocks) : args->blocks;
    args->take = rng_below(r, 2) ? rng_range(r, 1, args->groups) : 1 + args->groups / 8;
    args->take = args->take < args->groups ? args->take : args->groups;
}

void case_make_candidates(kernel_case *c, rng *r) {
    static float lower[MOST];
    static int32_t chosen[MOST], ids[MOST];
    qsa_candidates_args *args = &c->args.candidates;
    const values_kind kind = case_kind(c, r);
    draw_geometry(c, r);
    const size_t bytes = (size_t)args->blocks * sizeof(float);
    const int low = case_add(c, CASE_INOUT, bytes), high = case_add(c, CASE_IN, bytes);
    const int chosen_at = case_add(c, CASE_OUT, (size_t)args->take * sizeof(int32_t));
    const int ids_at = case_add(c, CASE_OUT, bytes), count_at = case_add(c, CASE_OUT, sizeof(int32_t));
    float *content = (float *)(void *)case_use(c, low, 0, bytes);
    float *upper = (float *)(void *)case_use(c, high, 0, bytes);
    fill_bounds(r, kind, args->blocks, content, upper);
    memcpy(lower, content, bytes);
    int32_t count = 0;
    const qsa_candidates_args try = {lower, upper, args->blocks, args->groups, args->take, chosen, ids, &count};
    qsa_candidates_ref(&try);
    case_use(c, chosen_at, 0, (size_t)args->take * sizeof(int32_t));
    case_use(c, ids_at, 0, (size_t)count * sizeof(int32_t));
    case_use(c, count_at, 0, sizeof(int32_t));
    case_point(c, &args->lower, low, 0);
    case_point(c, &args->upper, high, 0);
    case_point(c, &args->chosen, chosen_at, 0);
    case_point(c, &args->ids, ids_at, 0);
    case_point(c, &args->count, count_at, 0);
    snprintf(c->what, sizeof c->what, "%s, blocks %d, groups %d, take %d, candidates %d", values_name(kind),
             args->blocks, args->groups, args->take, count);
}

const case_plan case_plan_candidates = {{{"32768 blocks", 131072, false}}, 1, 3, 1};
