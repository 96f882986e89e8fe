// SPDX-License-Identifier: Apache-2.0
//
// A row's bytes are the same however the work is cut, ordered, paged and mixed, for all cache formats and both rules, on
// small shapes. With a control for each kind of output: results that must differ are seen to differ.
// LABELS: small cross threads
// RUNNER: plain
#include "invariance.h"

static const qsa_type kv_types[] = {QSA_F32, QSA_F16, QSA_BF16, QSA_I8};
static const qsa_type float_types[] = {QSA_F32, QSA_F16, QSA_BF16};

static fx_world *small_world(int32_t positions_per_row) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {70, 33, 0, 1};
    return fx_world_make(7, &g, 2, 4, lengths, positions_per_row);
}

static void all_ways(void) {
    fx_world *world = small_world(1);
    fx_options o = fx_options_default();
    invariance_all(world, &o);
    o.rule = QSA_RULE_CUT;
    o.gate = 0;
    o.kv_type = QSA_F32;
    o.masked = 1;
    invariance_all(world, &o);
    fx_world_free(world);
}

// Every pair of formats, both rules, three positions: the cuts and orders once each.
static void formats(void) {
    fx_world *world = small_world(3);
    for (size_t kv = 0; kv < 4; kv++)
        for (size_t bk = 0; bk < 3; bk++) {
            fx_options o = fx_options_default();
            o.kv_type = kv_types[kv];
            o.block_key_type = float_types[bk];
            o.rule = (qsa_rule)((kv + bk) % 2);
            o.gate = (int)(kv % 2);
            fx_results *base = fx_run(world, &o);
            fx_options other = o;
            other.threads = 2;
            other.chunk = 7;
            other.interleave = 1;
            other.page_cells = 4;
            other.shuffle_pages = 1;
            invariance_same(base, world, &other);
            other.chunk = 1;
            other.stages = 1;
            other.page_cells = 64;
            invariance_same(base, world, &other);
            fx_results_free(base);
        }
    fx_world_free(world);
}

static void random_geometries(void) {
    rng r = rng_make(11);
    for (int round = 0; round < 12; round++) {
        const qsa_geometry g = fx_geometry_random(&r);
        int32_t lengths[3];
        for (int i = 0; i < 3; i++)
            lengths[i] = rng_range(&r, 0, g.budget + 2 * g.ratio);
        fx_world *world = fx_world_make(rng_u64(&r), &g, 1, 3, lengths, round % 2 ? 3 : 1);
        fx_options o = fx_options_default();
        o.kv_type = kv_types[round % 4];
        o.block_key_type = float_types[round % 3];
        o.rule = (qsa_rule)(round / 2 % 2);
        o.page_cells = 4 * g.ratio;
        fx_results *base = fx_run(world, &o);
        invariance_pages(base, world, &o);
        invariance_stages(base, world, &o);
        invariance_alone(base, world, &o);
        o.chunk = 1;
        o.interleave = 1;
        o.rollback = 0;
        o.threads = 2;
        invariance_same(base, world, &o);
        fx_results_free(base);
        fx_world_free(world);
    }
}

// What runs differently is found: a comparison that finds nothing would prove nothing.
static void controls(void) {
    fx_world *world = small_world(1), *other = small_world(1);
    fx_options o = fx_options_default();
    o.stages = 1;
    fx_results *base = fx_run(world, &o);
    PLAIN_CHECK(!fx_difference(base, base));
    fx_options changed[4] = {o, o, o, o};
    changed[0].gate = 0;
    changed[1].kv_type = QSA_F16;
    changed[2].block_key_type = QSA_BF16;
    changed[3].rule = QSA_RULE_CUT;
    for (size_t i = 0; i < 4; i++) {
        fx_results *r = fx_run(world, &changed[i]);
        PLAIN_CHECK(fx_difference(r, base) != NULL);
        fx_results_free(r);
    }
    for (int array = 0; array < FX_ARRAYS; array++) {
        float *x = fx_values(other, 0, (fx_array)array, 0);
        const float kept = *x;
        *x = kept + 0.5f;
        fx_results *r = fx_run(other, &o);
        PLAIN_CHECK(fx_difference(r, base) != NULL);
        fx_results_free(r);
        *x = kept;
    }
    // The last section of the last token.
    fx_results *r = fx_run(world, &o);
    FX_SAME(r, base);
    fx_at(r, 1, FX_PREP_V, world->tokens - 1)[r->row[FX_PREP_V] - 1] ^= 1;
    PLAIN_CHECK(fx_difference(r, base) != NULL);
    fx_results_free(r);
    fx_results_free(base);
    fx_world_free(world);
    fx_world_free(other);
}

int main(void) {
    PLAIN_RUN(controls);
    PLAIN_RUN(all_ways);
    PLAIN_RUN(formats);
    PLAIN_RUN(random_geometries);
    return plain_finish();
}
