// SPDX-License-Identifier: Apache-2.0
//
// The two forms of prep leave the same bytes: qsa_prep, which calls the separate kernels, and what forward calls, the fused one in
// waves; queries of the rows that attend, keys, values and block keys of all, and the counts of events. In chunks, so that blocks
// are made of kept raw keys too; over formats, geometries, row types, threads, attention masks and values that are no numbers.
// LABELS: small cross threads
// RUNNER: plain
#include "api/forward.h"
#include "support/plain_runner.h"
#include "support/rig.h"
#include "support/rng.h"

#include <math.h>

static const oracle_geometry geometries[] = {
    {4, 2, 24, 8, 2, 16, 4, 16, {2, 1, 1}, 10000.0, 1e-6},
    {6, 1, 80, 32, 3, 48, 4, 96, {6, 5, 5}, 1000000.0, 1e-6},
    {3, 3, 64, 64, 1, 64, 2, 8, {12, 10, 10}, 10000.0, 1e-5},
    {8, 2, 256, 64, 4, 128, 8, 64, {11, 11, 10}, 10000000.0, 1e-6},
    {2, 1, 17, 2, 1, 5, 1, 4, {1, 0, 0}, 100.0, 1e-6},
};
enum { GEOMETRIES = sizeof geometries / sizeof geometries[0], CELLS = 90 };

static rig_config config_of(const oracle_geometry *g, rng *r) {
    rig_config config = rig_defaults(g, CELLS);
    config.kv_type = (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    config.block_key_type = (qsa_type)rng_range(r, QSA_F32, QSA_BF16);
    config.threads = rng_range(r, 1, 3);
    config.rollback = rng_below(r, 2) ? 64 : 0;
    return config;
}

static void make_rows(rig_rows *rows, const oracle_geometry *g, rng *r) {
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, 1e-42f, -0.0f};
    rig_rows_init(rows, g, CELLS, rng_u64(r));
    for (int32_t i = 0; i < CELLS; i++) {
        rows->attend[i] = rng_below(r, 3) != 0;
        for (int a = 0; a < 3; a++)
            rows->positions[3 * i + a] = rng_range(r, 0, 1 << 20);
        float *some[] = {rig_q(rows, g, i), rig_k(rows, g, i), rig_v(rows, g, i), rig_index(rows, g, i)};
        if (rng_below(r, 4) == 0)
            some[rng_below(r, 4)][rng_below(r, (uint32_t)g->index_dim)] = odd[rng_below(r, 6)];
    }
    if (rng_below(r, 2))
        rig_rows_pack(rows, g, rng_below(r, 2) ? QSA_F16 : QSA_BF16);
}

// A batch through both; the results start as the same pattern, so rows that do not attend compare equal.
static void both(rig *a, rig *b, const qsa_batch *batch, rig_result *x, rig_result *y) {
    const oracle_geometry *g = &a->config.geometry;
    const size_t q = (size_t)batch->rows * (size_t)(g->heads * g->head_dim) * sizeof(float);
    const size_t index_q = (size_t)batch->rows * (size_t)(g->index_heads * g->index_dim) * sizeof(float);
    const qsa_prep_out out = {.size = sizeof out, .q = x->q, .index_q = x->index_q};
    size_t bytes;
    memset(x->q, 0xa5, q);
    memset(y->q, 0xa5, q);
    memset(x->index_q, 0xa5, index_q);
    memset(y->index_q, 0xa5, index_q);
    void *workspace = rig_workspace(a, QSA_STAGE_PREP, batch->rows, &bytes);
    RIG_OK(qsa_prep(a->context, a->layer, a->cache, 0, batch, &out, workspace, bytes));
    workspace = rig_workspace(b, QSA_STAGE_PREP, batch->rows, &bytes);
    qsa_prep_fused(b->context, b->layer, b->cache, 0, batch, y->q, y->index_q, workspace);
    PLAIN_CHECK(memcmp(x->q, y->q, q) == 0);
    PLAIN_CHECK(memcmp(x->index_q, y->index_q, index_q) == 0);
    RIG_OK(qsa_cache_commit(a->cache));
    RIG_OK(qsa_cache_commit(b->cache));
}

static void same_caches(const rig *a, const rig *b) {
    const oracle_geometry *g = &a->config.geometry;
    const size_t vectors = (size_t)CELLS * (size_t)g->kv_heads, dim = (size_t)g->head_dim;
    const size_t kv = vectors * dim * rig_element(a->config.kv_type);
    const size_t keys = (size_t)(CELLS / g->ratio) * (size_t)g->index_dim * rig_element(a->config.block_key_type);
    rig_stored x, y;
    rig_read(a, 0, 0, &x);
    rig_read(b, 0, 0, &y);
    PLAIN_CHECK(memcmp(x.k_bits, y.k_bits, kv) == 0);
    PLAIN_CHECK(memcmp(x.v_bits, y.v_bits, kv) == 0);
    PLAIN_CHECK(memcmp(x.key_bits, y.key_bits, keys) == 0);
    if (a->config.kv_type == QSA_I8) {
        const size_t scales = vectors * ((dim + QSA_GROUP - 1) / QSA_GROUP) * 2;
        PLAIN_CHECK(memcmp(x.k_scales, y.k_scales, scales) == 0);
        PLAIN_CHECK(memcmp(x.v_scales, y.v_scales, scales) == 0);
    }
    qsa_cache_events e = {.size = sizeof e}, f = {.size = sizeof f};
    RIG_OK(qsa_cache_get_events(a->cache, &e));
    RIG_OK(qsa_cache_get_events(b->cache, &f));
    PLAIN_CHECK(memcmp(&e, &f, sizeof e) == 0);
    rig_stored_free(&x);
    rig_stored_free(&y);
}

static void same_bytes(void) {
    for (int round = 0; round < 8 * GEOMETRIES; round++) {
        rng r = rng_make((uint64_t)round);
        const oracle_geometry *g = &geometries[round % GEOMETRIES];
        const rig_config config = config_of(g, &r);
        rig a, b;
        rig_rows rows;
        rig_result x, y;
        rig_open(&a, &config);
        rig_open(&b, &config);
        make_rows(&rows, g, &r);
        rig_result_init(&x, &a, CELLS);
        rig_result_init(&y, &b, CELLS);
        for (int32_t first = 0, count; first < CELLS; first += count) {
            count = rng_below(&r, 3) ? rng_range(&r, 1, 9) : rng_range(&r, 1, CELLS);
            count = count < CELLS - first ? count : CELLS - first;
            const qsa_batch batch = rig_batch(&rows, g, first, count, false);
            both(&a, &b, &batch, &x, &y);
        }
        same_caches(&a, &b);
        rig_result_free(&x);
        rig_result_free(&y);
        rig_rows_free(&rows);
        rig_close(&a);
        rig_close(&b);
    }
}

int main(void) {
    PLAIN_RUN(same_bytes);
    return plain_finish();
}
