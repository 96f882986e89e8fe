// SPDX-License-Identifier: Apache-2.0
//
// The strict class on a GPU gives the CPU's bytes: outputs, log-sum-exp, selections, scores, records' outputs and what is
// stored, over worlds of every kind: formats, rules, gates, masks, strides, pages, cuts of the prompt, ragged batches.
// LABELS: cuda
// RUNNER: plain
#include "cuda_test.h"

#include "api/invariance.h"

static void same_on_device(const fx_world *world, const fx_options *options) {
    fx_results *base = fx_run(world, options);
    fx_options o = *options;
    o.backend = QSA_BACKEND_CUDA;
    invariance_same(base, world, &o);
    o.chunk = 7;
    o.interleave = 1;
    o.shuffle_pages = 1;
    invariance_same(base, world, &o);
    fx_results_free(base);
    o = *options;
    o.stages = 1;
    base = fx_run(world, &o);
    o.backend = QSA_BACKEND_CUDA;
    invariance_same(base, world, &o);
    fx_results_free(base);
}

static void formats(void) {
    const qsa_geometry g[2] = {fx_geometry_small(), fx_geometry_wide()};
    const int32_t lengths[2][3] = {{110, 81, 30}, {230, 120, 99}};
    for (int shape = 0; shape < 2; shape++) {
        fx_world *world = fx_world_make(60 + (uint64_t)shape, &g[shape], 2, 3, lengths[shape], shape ? 3 : 1);
        for (int kv = QSA_F32; kv <= QSA_I8; kv++) {
            fx_options o = fx_options_default();
            o.kv_type = (qsa_type)kv;
            o.block_key_type = (qsa_type)(1 + kv % 3);
            o.raw_type = (qsa_type)(1 + (kv + 1) % 3);
            o.out_type = (qsa_type)(1 + (kv + 2) % 3);
            o.layout = (fx_layout)(kv % 3);
            o.rule = (qsa_rule)(kv % 2);
            o.masked = kv % 2;
            o.gate = kv != QSA_BF16;
            o.page_cells = g[shape].ratio * (kv == QSA_F16 ? 1 : 5);
            o.rollback = kv == QSA_F32 ? QSA_ROLLBACK_ALL : kv == QSA_I8 ? 0 : 64;
            same_on_device(world, &o);
        }
        fx_world_free(world);
    }
}

static void geometries(void) {
    rng r = rng_make(77);
    for (int round = 0; round < 25; round++) {
        const qsa_geometry g = fx_geometry_random(&r);
        const int32_t lengths[2] = {3 * g.budget + rng_range(&r, 0, 3 * g.budget), rng_range(&r, 0, 4 * g.budget)};
        fx_world *world = fx_world_make(rng_u64(&r), &g, 1, 2, lengths, round % 2 ? 3 : 1);
        fx_options o = fx_options_default();
        o.kv_type = (qsa_type)(1 + round % 4);
        o.block_key_type = (qsa_type)(1 + round % 3);
        o.rule = (qsa_rule)(round / 3 % 2);
        o.page_cells = g.ratio * rng_range(&r, 1, 9);
        o.layout = (fx_layout)(round % 3);
        same_on_device(world, &o);
        fx_world_free(world);
    }
}

// The preset around its budget: 2047 to 2056 cells, then more, by every cut.
static void preset(void) {
    qsa_geometry g;
    FX_OK(qsa_geometry_preset("qwen3.8-flash-next", &g));
    const int32_t lengths[1] = {2140};
    fx_world *world = fx_world_make(5, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    o.page_cells = 64;
    o.raw_type = QSA_BF16;
    fx_results *base = fx_run(world, &o);
    o.backend = QSA_BACKEND_CUDA;
    invariance_same(base, world, &o);
    o.chunk = 500;
    invariance_same(base, world, &o);
    fx_results_free(base);
    fx_world_free(world);
}

// Rows of NaN, infinities, zeros and huge values.
static void odd_values(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {90, 66};
    rng r = rng_make(9);
    for (int round = 0; round < 6; round++) {
        fx_world *world = fx_world_make(200 + (uint64_t)round, &g, 1, 2, lengths, 1);
        for (int array = 0; array < FX_ARRAYS; array++)
            for (int32_t token = 0; token < world->tokens; token++) {
                static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 3e38f, 1e-42f};
                int32_t heads, dim;
                fx_shape(&g, (fx_array)array, &heads, &dim);
                if (rng_below(&r, 4) == 0)
                    fx_values(world, 0, (fx_array)array, token)[rng_below(&r, (uint32_t)(heads * dim))] = odd[round];
            }
        fx_options o = fx_options_default();
        o.kv_type = (qsa_type)(1 + (round + 3) % 4);
        o.block_key_type = (qsa_type)(1 + round % 3);
        same_on_device(world, &o);
        fx_world_free(world);
    }
}

int main(void) {
    cuda_need();
    PLAIN_RUN(formats);
    PLAIN_RUN(geometries);
    PLAIN_RUN(odd_values);
    PLAIN_RUN(preset);
    return plain_finish();
}
