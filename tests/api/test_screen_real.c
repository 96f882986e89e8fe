// SPDX-License-Identifier: Apache-2.0
//
// Screening at the real indexer's shape, 65,536 blocks and a budget of 512: how many blocks are scored exactly when keys and
// queries are random and normed, and when the best ones lie side by side; the selections are those of the stage calls.
// RUNNER: plain
#include "api/forward.h"
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

enum { BLOCKS = 65536, RATIO = 4, DIM = 128, HEADS = 4, TAKE = 512, ROWS = 6 };

static qsa_geometry make_geometry(void) {
    return (qsa_geometry){.size = sizeof(qsa_geometry),
                          .heads = 1,
                          .kv_heads = 1,
                          .head_dim = 2,
                          .index_heads = HEADS,
                          .index_dim = DIM,
                          .rotary_dim = 2,
                          .sections = {1, 0, 0},
                          .ratio = RATIO,
                          .budget = TAKE * RATIO,
                          .eps = 1e-6f,
                          .theta = 1e7};
}

// Normal numbers of length sqrt(DIM), with a part of `towards` (of the same length) in them.
static void fill_normed(rng *r, float *x, const float *towards, float part) {
    double squares = 0;
    for (int32_t d = 0; d < DIM; d++) {
        x[d] =
            (float)((rng_uniform(r) + rng_uniform(r) + rng_uniform(r) - 1.5) * 2) + (towards ? part * towards[d] : 0);
        squares += (double)x[d] * (double)x[d];
    }
    const float factor = (float)sqrt(DIM / squares);
    for (int32_t d = 0; d < DIM; d++)
        x[d] *= factor;
}

static void store_keys(qsa_cache *cache, int32_t sequence, float *keys) {
    const size_t cells = (size_t)BLOCKS * RATIO;
    float *kv = fx_alloc(cells * 2 * sizeof *kv);
    memset(kv, 0, cells * 2 * sizeof *kv);
    const qsa_cells stored = {.size = sizeof stored, .k = kv, .v = kv, .block_keys = keys};
    FX_OK(qsa_cache_write(cache, 0, sequence, BLOCKS * RATIO, &stored));
    FX_OK(qsa_cache_commit(cache));
    free(kv);
}

// Mean candidates of ROWS rows; checks their selections.
static double candidates_of(const float *q, float *keys) {
    const qsa_geometry g = make_geometry();
    qsa_context *context;
    qsa_cache *cache;
    qsa_cache_config config;
    int32_t sequence, sequences[ROWS], cells[ROWS], count[ROWS] = {0}, want_count[ROWS] = {0}, candidates[ROWS] = {0};
    FX_OK(qsa_context_create(NULL, &context));
    qsa_cache_config_init(&config, &g, BLOCKS * RATIO);
    config.kv_type = QSA_F32;
    config.screen = 1;
    FX_OK(qsa_cache_create(context, &config, &cache));
    FX_OK(qsa_sequence_create(cache, &sequence));
    store_keys(cache, sequence, keys);
    for (int i = 0; i < ROWS; i++) {
        sequences[i] = sequence;
        cells[i] = BLOCKS * RATIO;
    }
    const qsa_row_set rows = {sizeof rows, ROWS, sequences, cells};
    size_t bytes;
    FX_OK(qsa_workspace_size(context, cache, QSA_STAGE_FORWARD, ROWS, &bytes));
    void *workspace = fx_alloc(bytes);
    int32_t *ids = fx_alloc((size_t)ROWS * TAKE * 4), *want = fx_alloc((size_t)ROWS * TAKE * 4);
    float *scores = fx_alloc((size_t)ROWS * BLOCKS * 4);
    qsa_selection got = {.size = sizeof got, .ids = ids, .stride = TAKE, .count = count};
    qsa_selection plainly = {.size = sizeof plainly, .ids = want, .stride = TAKE, .count = want_count};
    qsa_choose(context, cache, 0, &rows, q, QSA_RULE_OFFICIAL, &got, candidates, workspace);
    FX_OK(qsa_score(context, cache, 0, &rows, q, scores, BLOCKS, workspace, bytes));
    FX_OK(qsa_topk(context, &g, QSA_RULE_OFFICIAL, ROWS, cells, scores, BLOCKS, &plainly));
    PLAIN_CHECK_BYTES(ids, want, (size_t)ROWS * TAKE * 4);
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        PLAIN_CHECK(count[i] == TAKE && want_count[i] == TAKE && candidates[i] >= TAKE);
        sum += candidates[i];
    }
    free(workspace);
    free(ids);
    free(want);
    free(scores);
    qsa_cache_destroy(cache);
    qsa_context_destroy(context);
    return sum / ROWS;
}

static void random_keys(void) {
    rng r = rng_make(2);
    float *q = fx_alloc((size_t)ROWS * HEADS * DIM * 4), *keys = fx_alloc((size_t)BLOCKS * DIM * 4);
    for (int i = 0; i < ROWS * HEADS; i++)
        fill_normed(&r, q + i * DIM, NULL, 0);
    for (int32_t b = 0; b < BLOCKS; b++)
        fill_normed(&r, keys + b * DIM, NULL, 0);
    const double mean = candidates_of(q, keys);
    printf("  random keys: %.0f of %d blocks are scored, for %d\n", mean, BLOCKS, TAKE);
    PLAIN_CHECK(mean < 1500);
    // The best 700 in one run, where groups of neighbours would have hidden them from the threshold.
    for (int32_t b = 30000; b < 30700; b++)
        fill_normed(&r, keys + b * DIM, q, 0.8f);
    for (int i = 1; i < ROWS; i++)
        memcpy(q + i * HEADS * DIM, q, (size_t)HEADS * DIM * 4);
    const double beside = candidates_of(q, keys);
    printf("  700 good ones in a run: %.0f\n", beside);
    PLAIN_CHECK(beside < 1500);
    free(q);
    free(keys);
}

int main(void) {
    PLAIN_RUN(random_keys);
    return plain_finish();
}
