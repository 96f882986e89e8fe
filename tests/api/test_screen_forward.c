// SPDX-License-Identifier: Apache-2.0
//
// A cache with screening gives the same bytes as one without, in every way of running, for ordinary rows and for rows with
// NaN, infinities, zeros, equal values and norms beyond what is screened; and it takes the memory that is stated. Copies of
// screened sequences are in test_state_copy.c.
// LABELS: small cross threads
// RUNNER: plain
#include "invariance.h"

static const qsa_type float_types[] = {QSA_F32, QSA_F16, QSA_BF16};

#if defined(QSA_SANITIZED) || !defined(__x86_64__)
enum { GEOMETRIES = 3, ODD_ROUNDS = 1, NORM_ROUNDS = 1, NORM_STEP = 3, BOTH_TYPES = 0 }; // it takes ten times as long
#else
enum { GEOMETRIES = 40, ODD_ROUNDS = 3, NORM_ROUNDS = 3, NORM_STEP = 1, BOTH_TYPES = 1 };
#endif

static fx_world *make_world(uint64_t seed, int32_t positions_per_row) {
    const qsa_geometry g = fx_geometry_small(); // 4 blocks are selected: rows of 64 cells and more are screened
    const int32_t lengths[] = {110, 81, 66};
    return fx_world_make(seed, &g, 2, 3, lengths, positions_per_row);
}

static void all_ways(void) {
    fx_world *world = make_world(7, 1);
    for (int rule = 0; rule < 2; rule++) {
        fx_options o = fx_options_default();
        o.rule = (qsa_rule)rule;
        fx_results *base = fx_run(world, &o);
        o.screen = 1;
        o.masked = rule;
        if (!rule)
            invariance_same(base, world, &o);
        invariance_all(world, &o);
        fx_results_free(base);
    }
    fx_world_free(world);
}

// One run without screening, then with it: as it comes, and cut, threaded and paged.
static void same_with(const fx_world *world, const fx_options *options) {
    fx_options o = *options;
    o.screen = 0;
    fx_results *base = fx_run(world, &o);
    o.screen = 1;
    invariance_same(base, world, &o);
    o.threads = 2;
    o.chunk = 7;
    o.interleave = 1;
    o.page_cells = world->geometry.ratio;
    o.shuffle_pages = 1;
    invariance_same(base, world, &o);
    o.kernels = "ref";
    o.chunk = 1;
    o.page_cells = 16 * world->geometry.ratio;
    invariance_same(base, world, &o);
    fx_results_free(base);
}

static void geometries(void) {
    rng r = rng_make(12);
    for (int round = 0; round < GEOMETRIES; round++) {
        const qsa_geometry g = fx_geometry_random(&r);
        const int32_t lengths[2] = {4 * g.budget + rng_range(&r, 0, 4 * g.budget), rng_range(&r, 0, 5 * g.budget)};
        fx_world *world = fx_world_make(rng_u64(&r), &g, 1, 2, lengths, round % 2 ? 3 : 1);
        fx_options o = fx_options_default();
        o.block_key_type = float_types[round % 3];
        o.rule = (qsa_rule)(round / 3 % 2);
        o.page_cells = 3 * g.ratio;
        same_with(world, &o);
        fx_world_free(world);
    }
}

// What a row of index queries or keys may turn into.
typedef enum oddity { ZERO, SAME, NAN_ONE, NAN_ALL, INFINITE, HUGE_ONE, TINY, ODDITIES } oddity;

static void make_odd(rng *r, oddity what, float *row, int32_t n) {
    const int32_t at = (int32_t)rng_below(r, (uint32_t)n);
    for (int32_t i = 0; i < n; i++) {
        if (what == ZERO || what == TINY)
            row[i] = what == ZERO ? 0 : row[i] * 1e-42f;
        else if (what == SAME)
            row[i] = 1;
        else if (what == NAN_ALL)
            row[i] = NAN;
    }
    if (what == NAN_ONE)
        row[at] = NAN;
    else if (what == INFINITE)
        row[at] = rng_below(r, 2) ? INFINITY : -INFINITY;
    else if (what == HUGE_ONE)
        row[at] = 3e38f;
}

static void odd_rows(void) {
    rng r = rng_make(5);
    for (int round = 0; round < ODD_ROUNDS * ODDITIES; round++) {
        fx_world *world = make_world(rng_u64(&r), 1);
        const int often = round / ODDITIES + 1; // one row in 2, 3, 4; then all kinds at once
        for (int32_t layer = 0; layer < world->layers; layer++)
            for (int array = FX_INDEX_Q; array <= FX_INDEX_K; array++)
                for (int32_t token = 0; token < world->tokens; token++) {
                    int32_t heads, dim;
                    fx_shape(&world->geometry, (fx_array)array, &heads, &dim);
                    if (rng_below(&r, (uint32_t)often + 1) == 0)
                        make_odd(&r, (oddity)(often < 3 ? round % ODDITIES : (int)rng_below(&r, ODDITIES)),
                                 fx_values(world, layer, (fx_array)array, token), heads * dim);
                }
        fx_options o = fx_options_default();
        o.rule = (qsa_rule)(round % 2);
        if (BOTH_TYPES)
            same_with(world, &o);
        o.block_key_type = BOTH_TYPES || round % 2 ? QSA_BF16 : QSA_F32;
        same_with(world, &o);
        fx_world_free(world);
    }
}

// Norm weights make the norms of index queries and keys anything at all.
static void norms(void) {
    static const float factors[] = {1e-44f, 1e-38f, 1e-20f, 1e-15f, 1e10f, 1e15f, 1e16f, 1e20f, 3e37f};
    enum { FACTORS = sizeof factors / sizeof *factors };
    for (int round = 0; round < NORM_ROUNDS * FACTORS; round += NORM_STEP) {
        fx_world *world = make_world(30 + (uint64_t)round, 1);
        for (int i = 2; i < 4; i++)
            if (round / FACTORS != i - 2)
                for (int32_t d = 0; d < world->geometry.index_dim; d++)
                    world->norms[0][i][d] = world->norms[0][i][d] * factors[round % FACTORS] - 1; // zero-centred
        fx_options o = fx_options_default();
        o.block_key_type = float_types[round % 3];
        same_with(world, &o);
        fx_world_free(world);
    }
}

// Control: forward does read the copy. With bounds that are wrong it selects something else.
static void read_by_forward(void) {
    fx_world *world = make_world(41, 1);
    fx_options o = fx_options_default();
    o.screen = 1;
    fx_results *results[2];
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        fx_session s = fx_open(world, &o);
        const int32_t first[FX_MAX_SEQUENCES] = {80, 70, 40}, next[FX_MAX_SEQUENCES] = {20, 10, 7};
        fx_step(&s, first, NULL);
        const size_t blocks = (size_t)s.config.pages * (size_t)s.cache->page_blocks;
        for (size_t i = 0; spoiled && i < blocks; i++) {
            qsa_cache_screen_scales(s.cache, 0)[i] = i % 2 ? 0.0f : 1.0f;
            qsa_cache_screen_residuals(s.cache, 0)[i] = 0;
        }
        results[spoiled] = fx_results_make(&s);
        fx_step(&s, next, results[spoiled]);
        fx_close(&s);
    }
    PLAIN_CHECK(fx_layer_difference(results[1], 0, results[0], 0) != NULL);
    PLAIN_CHECK(fx_layer_difference(results[1], 1, results[0], 1) == NULL);
    fx_results_free(results[0]);
    fx_results_free(results[1]);
    fx_world_free(world);
}

// What the header says that it takes: per block and layer the codes and two floats; and in the workspace, per row in flight,
// 4 bytes per block of max_cells beside a few for the row's queries.
static void memory(void) {
    qsa_geometry g;
    FX_OK(qsa_geometry_preset("qwen3.8-flash-next", &g));
    qsa_cache_config c;
    qsa_cache_config_init(&c, &g, 65536);
    PLAIN_CHECK_INT(c.screen, 0);
    c.layers = 2;
    size_t without, with, rows[2];
    FX_OK(qsa_cache_size(&c, &without));
    c.screen = 1;
    FX_OK(qsa_cache_size(&c, &with));
    PLAIN_CHECK_INT(with - without, 2 * (65536 / 4) * (128 + 8));
    qsa_context *context;
    FX_OK(qsa_context_create(NULL, &context));
    c.layers = 1;
    for (c.screen = 0; c.screen < 2; c.screen++) {
        qsa_cache *cache;
        FX_OK(qsa_cache_create(context, &c, &cache));
        FX_OK(qsa_workspace_size(context, cache, QSA_STAGE_FORWARD, 100, &rows[c.screen]));
        qsa_cache_destroy(cache);
    }
    qsa_context_destroy(context);
    PLAIN_CHECK_INT(rows[1] - rows[0], 2 * (65536 / 4 * 4 + 4 * 128 * 2 + 64));
}

int main(void) {
    PLAIN_RUN(all_ways);
    PLAIN_RUN(geometries);
    PLAIN_RUN(odd_rows);
    PLAIN_RUN(norms);
    PLAIN_RUN(read_by_forward);
    PLAIN_RUN(memory);
    return plain_finish();
}
