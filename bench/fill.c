// SPDX-License-Identifier: Apache-2.0
//
// Fills the caches of a world. A small cache is filled by prep with random rows and read out: keys and values in stored
// form, whatever the format. These cells are written over and over, which costs a copy each; block keys are drawn afresh
// for every block, since equal ones would tie in the selection.

#include "bench/world.h"

#include "host/host_call.h"
#include "num/load.h"

#include <stdlib.h>

enum { POOL = 1024 }; // cells, a multiple of every ratio that the preset could have

typedef struct pool {
    qsa_cache *cache;
    qsa_cells cells;
    float *raw; // one array of normals for every input of prep
} pool;

static void pool_close(pool *p) {
    qsa_cache_destroy(p->cache);
    free(p->cells.k);
    free(p->cells.v);
    free(p->cells.k_scales);
    free(p->cells.v_scales);
    free(p->cells.block_keys);
    free(p->cells.index_keys);
    free(p->cells.positions);
    free(p->raw);
}

static bool pool_arrays(pool *p, const bench_world *w) {
    const qsa_geometry *g = &w->geometry;
    const size_t vectors = (size_t)POOL * (size_t)g->kv_heads, dim = (size_t)g->head_dim;
    const size_t groups = (dim + QSA_GROUP - 1) / QSA_GROUP, index = (size_t)POOL * (size_t)g->index_dim;
    const bool i8 = w->options->kv == QSA_I8;
    p->cells.size = sizeof p->cells;
    p->cells.k = malloc(vectors * dim * qsa_type_size(w->options->kv));
    p->cells.v = malloc(vectors * dim * qsa_type_size(w->options->kv));
    p->cells.k_scales = i8 ? malloc(vectors * groups * 2) : NULL;
    p->cells.v_scales = i8 ? malloc(vectors * groups * 2) : NULL;
    p->cells.block_keys = malloc(index / (size_t)g->ratio * qsa_type_size(w->options->block_keys));
    p->cells.index_keys = malloc(index * sizeof(float));
    p->cells.positions = malloc((size_t)POOL * 3 * sizeof(int32_t));
    p->raw = malloc(vectors * dim * 2 * sizeof(float));
    return p->cells.k && p->cells.v && (!i8 || (p->cells.k_scales && p->cells.v_scales)) && p->cells.block_keys &&
           p->cells.index_keys && p->cells.positions && p->raw;
}

// Prep of POOL rows that do not attend; their queries are all the same row, which nothing reads.
static qsa_status pool_prep(pool *p, bench_world *w) {
    static const uint8_t attend[POOL] = {0};
    static const int32_t sequences[POOL] = {0};
    const qsa_geometry *g = &w->geometry;
    const int64_t row = (int64_t)g->kv_heads * g->head_dim * 4, dim = (int64_t)g->head_dim * 4;
    int32_t positions[POOL];
    for (int32_t i = 0; i < POOL; i++)
        positions[i] = i;
    bench_normals(&w->random, p->raw, (size_t)POOL * (size_t)row / 4 * 2);
    qsa_batch batch = {
        .size = sizeof batch,
        .rows = POOL,
        .sequences = sequences,
        .positions = positions,
        .positions_per_row = 1,
        .q = {.data = p->raw, .type = QSA_F32, .head_stride = 0},
        .k = {.data = p->raw, .type = QSA_F32, .row_stride = row, .head_stride = dim},
        .v = {.data = p->raw + (size_t)POOL * (size_t)row / 4, .type = QSA_F32, .row_stride = row, .head_stride = dim},
        .index_q = {.data = p->raw, .type = QSA_F32},
        .index_k = {.data = p->raw, .type = QSA_F32, .row_stride = row},
        .attend = attend};
    const qsa_status status = host_prep(w->context, g, w->layer, p->cache, 0, &batch, NULL);
    return status == QSA_OK ? qsa_cache_commit(p->cache) : status;
}

static bool pool_open(pool *p, bench_world *w, bench_error *error) {
    qsa_cache_config config;
    qsa_cache_config_init(&config, &w->geometry, POOL);
    config.kv_type = w->options->kv;
    config.block_key_type = w->options->block_keys;
    *p = (pool){0};
    if (!pool_arrays(p, w))
        return bench_fail(error, "no memory for %d cells", POOL);
    int32_t sequence = -1;
    qsa_cells kv = p->cells;
    kv.block_keys = NULL;
    kv.index_keys = NULL;
    kv.positions = NULL;
    if (qsa_cache_create(w->context, &config, &p->cache) != QSA_OK ||
        qsa_sequence_create(p->cache, &sequence) != QSA_OK || pool_prep(p, w) != QSA_OK ||
        qsa_cache_read(p->cache, 0, sequence, 0, POOL, &kv) != QSA_OK)
        return bench_fail_library(error);
    bench_normals(&w->random, p->cells.index_keys, (size_t)POOL * (size_t)w->geometry.index_dim);
    for (int32_t i = 0; i < 3 * POOL; i++)
        p->cells.positions[i] = i / 3;
    return true;
}

// Random directions of the length that a norm with weights of 1 gives.
static void draw_block_keys(pool *p, bench_world *w, int32_t blocks) {
    const int32_t dim = w->geometry.index_dim;
    float key[QSA_MAX_HEAD_DIM];
    unsigned char *out = p->cells.block_keys;
    for (int32_t b = 0; b < blocks; b++) {
        float squares = 0;
        for (int32_t d = 0; d < dim; d++) {
            key[d] = bench_normal(&w->random);
            squares += key[d] * key[d];
        }
        const float factor = 1 / sqrtf(squares / (float)dim);
        for (int32_t d = 0; d < dim; d++)
            qsa_put(out, w->options->block_keys, b * dim + d, key[d] * factor);
    }
}

static bool fill_sequence(pool *p, bench_world *w, int32_t sequence, bench_error *error) {
    const int32_t ratio = w->geometry.ratio;
    for (int32_t done = 0; done < w->pos;) {
        const int32_t rest = w->pos - done, whole = rest - rest % ratio;
        const int32_t count = whole == 0 ? rest : whole < POOL ? whole : POOL;
        qsa_cells cells = p->cells;
        draw_block_keys(p, w, count / ratio);
        if (count % ratio == 0) {
            cells.index_keys = NULL;
            cells.positions = NULL;
        }
        if (qsa_cache_write(w->cache, 0, sequence, count, &cells) != QSA_OK || qsa_cache_commit(w->cache) != QSA_OK)
            return bench_fail_library(error);
        done += count;
    }
    return true;
}

bool world_fill(bench_world *w, bench_error *error) {
    pool p;
    bool filled = pool_open(&p, w, error);
    for (int32_t s = 0; filled && s < w->options->seqs; s++)
        filled = fill_sequence(&p, w, w->sequences[s * w->tokens], error);
    pool_close(&p);
    return filled;
}
