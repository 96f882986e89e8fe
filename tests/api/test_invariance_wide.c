// SPDX-License-Identifier: Apache-2.0
//
// The ways of invariance.h on rows with two records and groups of scales, long enough for chunks of 64 rows.
// RUNNER: plain
// LABELS: small threads
#include "invariance.h"

static void all_ways(void) {
    const qsa_geometry g = fx_geometry_wide();
    const int32_t lengths[] = {120, 66, 5};
    fx_world *world = fx_world_make(8, &g, 1, 3, lengths, 3);
    fx_options o = fx_options_default();
    invariance_all(world, &o);
    o.kv_type = QSA_BF16;
    o.block_key_type = QSA_F16;
    o.rule = QSA_RULE_CUT;
    fx_results *base = fx_run(world, &o);
    invariance_cuts(base, world, &o);
    invariance_pages(base, world, &o);
    invariance_stages(base, world, &o);
    fx_results_free(base);
    fx_world_free(world);
}

// A row with more blocks than a scoring task takes, in pages of one block: tasks in the middle of a row.
static void many_blocks(void) {
    qsa_geometry g = fx_geometry_small();
    g.ratio = 1;
    g.budget = 8;
    const int32_t lengths[] = {4200, 3};
    fx_world *world = fx_world_make(9, &g, 1, 2, lengths, 1);
    for (int32_t i = 0; i < lengths[0] - 20; i++)
        world->attend[i] = 0; // the last rows only
    fx_options o = fx_options_default();
    o.masked = 1;
    o.kv_type = QSA_F16;
    fx_results *base = fx_run(world, &o);
    o.stages = 1;
    o.threads = 2;
    o.page_cells = 1;
    o.shuffle_pages = 1;
    invariance_same(base, world, &o);
    o.stages = 0;
    o.chunk = 1000;
    invariance_same(base, world, &o);
    fx_results_free(base);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(all_ways);
    PLAIN_RUN(many_blocks);
    return plain_finish();
}
