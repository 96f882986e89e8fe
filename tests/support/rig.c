// SPDX-License-Identifier: Apache-2.0
//
// Opening the bench, raw rows, and the cache in and out. Running batches is in rig_run.c.
#include "rig.h"
#include "candidates.h"
#include "rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rig_expect_ok(qsa_status status, const char *file, int line) {
    if (status == QSA_OK)
        return;
    printf("%s:%d: %s: %s\n", file, line, qsa_status_string(status), qsa_last_error());
    exit(1);
}

void *rig_new(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

qsa_geometry rig_geometry(const oracle_geometry *g) {
    return (qsa_geometry){.size = sizeof(qsa_geometry),
                          .heads = g->heads,
                          .kv_heads = g->kv_heads,
                          .head_dim = g->head_dim,
                          .index_heads = g->index_heads,
                          .index_dim = g->index_dim,
                          .rotary_dim = g->rotary_dim,
                          .sections = {g->sections[0], g->sections[1], g->sections[2]},
                          .ratio = g->ratio,
                          .budget = g->budget,
                          .eps = (float)g->eps,
                          .theta = g->theta};
}

oracle_format rig_format(qsa_type type) {
    return type == QSA_F32 ? ORACLE_F32 : type == QSA_F16 ? ORACLE_F16 : type == QSA_BF16 ? ORACLE_BF16 : ORACLE_I8;
}

size_t rig_element(qsa_type type) {
    return type == QSA_F32 ? 4 : type == QSA_I8 ? 1 : 2;
}

void rig_pack(qsa_type type, size_t n, const float *x, void *out) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half = type == QSA_F16 ? oracle_f16_encode(x[i]) : oracle_bf16_encode(x[i]);
        memcpy((unsigned char *)out + i * rig_element(type), type == QSA_F32 ? (const void *)&x[i] : &half,
               rig_element(type));
    }
}

static void unpack(qsa_type type, size_t n, const void *bits, double *out) {
    for (size_t i = 0; i < n; i++) {
        float x;
        uint16_t half;
        const unsigned char *at = (const unsigned char *)bits + i * rig_element(type);
        memcpy(type == QSA_F32 ? (void *)&x : &half, at, rig_element(type));
        out[i] = type == QSA_F32 ? (double)x : type == QSA_F16 ? oracle_f16_decode(half) : oracle_bf16_decode(half);
    }
}

// ---- Opening ----------------------------------------------------------------------------------

rig_config rig_defaults(const oracle_geometry *g, int32_t max_cells) {
    return (rig_config){.geometry = *g,
                        .norm_type = QSA_F32,
                        .kv_type = QSA_F32,
                        .block_key_type = QSA_F32,
                        .layers = 1,
                        .threads = 1,
                        .page_cells = 4 * g->ratio,
                        .max_sequences = 1,
                        .max_cells = max_cells,
                        .rollback = 64,
                        .seed = 1};
}

// The weights of norm i as handed over, and the factors that they mean. Random weights are multiples
// of 2^-7 below 1/2: exact in every type, and so is 1 + w.
static void *make_weights(rig *r, int i, int dim, rng *random) {
    const rig_config *c = &r->config;
    const bool centred = c->norm_form == QSA_NORM_ZERO_CENTRED;
    float *w = rig_new((size_t)dim, sizeof *w);
    double *wide = rig_new((size_t)dim, sizeof *wide);
    void *packed = rig_new((size_t)dim, sizeof *w);
    r->factor[i] = rig_new((size_t)dim, sizeof(float));
    for (int d = 0; d < dim; d++)
        w[d] = (float)(c->seed ? rng_range(random, -63, 63) : 0) / 128 + (centred ? 0.0f : 1.0f);
    if (c->weight[i])
        memcpy(packed, c->weight[i], (size_t)dim * rig_element(c->norm_type));
    else
        rig_pack(c->norm_type, (size_t)dim, w, packed);
    unpack(c->norm_type, (size_t)dim, packed, wide);
    for (int d = 0; d < dim; d++)
        r->factor[i][d] = (float)wide[d] + (centred ? 1.0f : 0.0f);
    free(w);
    free(wide);
    return packed;
}

static void open_layer(rig *r) {
    const oracle_geometry *g = &r->config.geometry;
    rng random = rng_make(r->config.seed);
    void *weights[4];
    for (int i = 0; i < 4; i++)
        weights[i] = make_weights(r, i, i < 2 ? g->head_dim : g->index_dim, &random);
    r->norms = (oracle_norms){r->factor[0], r->factor[1], r->factor[2], r->factor[3]};
    qsa_layer_config layer = {.size = sizeof layer,
                              .geometry = r->geometry,
                              .norm_form = r->config.norm_form,
                              .norm_type = r->config.norm_type,
                              .q_norm = weights[0],
                              .k_norm = weights[1],
                              .index_q_norm = weights[2],
                              .index_k_norm = weights[3]};
    RIG_OK(qsa_layer_create(r->context, &layer, &r->layer));
    for (int i = 0; i < 4; i++)
        free(weights[i]);
}

void rig_open(rig *r, const rig_config *config) {
    *r = (rig){.config = *config, .geometry = rig_geometry(&config->geometry)};
    qsa_context_config context;
    qsa_context_config_init(&context);
    context.threads = config->threads;
    context.allocator = config->hook;
    RIG_OK(qsa_context_create(&context, &r->context));
    use_candidates(r->context);
    if (config->where)
        rig_force(r->context, config->where);
    open_layer(r);
    qsa_cache_config cache;
    qsa_cache_config_init(&cache, &r->geometry, config->max_cells);
    cache.layers = config->layers;
    cache.kv_type = config->kv_type;
    cache.block_key_type = config->block_key_type;
    cache.page_cells = config->page_cells;
    const int32_t each = (config->max_cells + config->page_cells - 1) / config->page_cells;
    cache.pages = config->pages ? config->pages : each * config->max_sequences;
    cache.max_sequences = config->max_sequences;
    cache.rollback = config->rollback;
    RIG_OK(qsa_cache_create(r->context, &cache, &r->cache));
    for (int32_t i = 0, sequence; i < config->max_sequences; i++)
        RIG_OK(qsa_sequence_create(r->cache, &sequence));
}

void rig_close(rig *r) {
    qsa_cache_destroy(r->cache);
    qsa_layer_destroy(r->layer);
    qsa_context_destroy(r->context);
    for (int i = 0; i < 4; i++)
        free(r->factor[i]);
    free(r->memory);
    memset(r, 0, sizeof *r);
}

void *rig_workspace(rig *r, qsa_stage stage, int32_t rows, size_t *bytes) {
    RIG_OK(qsa_workspace_size(r->context, r->cache, stage, rows, bytes));
    free(r->memory);
    r->memory = malloc(*bytes + 1);
    if (!r->memory)
        abort();
    memset(r->memory, 0xff, *bytes + 1);
    return r->memory + 1;
}

// ---- Raw rows ---------------------------------------------------------------------------------

// Elements of a row of q, k, v and index.
static size_t row_size(const oracle_geometry *g, int which) {
    if (which == 0)
        return 2 * (size_t)g->heads * (size_t)g->head_dim;
    if (which == 3)
        return ((size_t)g->index_heads + 1) * (size_t)g->index_dim;
    return (size_t)g->kv_heads * (size_t)g->head_dim;
}

// n values of mean 0 and variance 1, within +-3.5: four 16-bit numbers added, for one step of the generator
// each (rng_fill_normal takes six, and rows are many).
static void fill(rng *random, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t u = rng_u64(random);
        const int32_t sum = (int32_t)((u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48));
        out[i] = (float)(sum - 131070) / 37837;
    }
}

void rig_rows_init(rig_rows *rows, const oracle_geometry *g, int32_t count, uint64_t seed) {
    rng random = rng_make(seed);
    const size_t n = (size_t)count;
    *rows = (rig_rows){.rows = count, .type = QSA_F32};
    rows->sequences = rig_new(n, sizeof *rows->sequences);
    rows->positions = rig_new(3 * n, sizeof *rows->positions);
    rows->attend = rig_new(n, 1);
    float **const arrays[4] = {&rows->q, &rows->k, &rows->v, &rows->index};
    for (int a = 0; a < 4; a++) {
        *arrays[a] = rig_new(n * row_size(g, a), sizeof(float));
        fill(&random, n * row_size(g, a), *arrays[a]);
    }
    for (int32_t i = 0; i < count; i++) {
        rows->attend[i] = 1;
        for (int axis = 0; axis < 3; axis++)
            rows->positions[3 * i + axis] = i;
    }
}

void rig_rows_free(rig_rows *rows) {
    free(rows->sequences);
    free(rows->positions);
    free(rows->attend);
    free(rows->q);
    free(rows->k);
    free(rows->v);
    free(rows->index);
    for (int a = 0; a < 4; a++)
        free(rows->packed[a]);
    memset(rows, 0, sizeof *rows);
}

void rig_rows_pack(rig_rows *rows, const oracle_geometry *g, qsa_type type) {
    float *const arrays[4] = {rows->q, rows->k, rows->v, rows->index};
    rows->type = type;
    for (int a = 0; a < 4; a++) {
        const size_t n = (size_t)rows->rows * row_size(g, a);
        double *wide = rig_new(n, sizeof *wide);
        free(rows->packed[a]);
        rows->packed[a] = rig_new(n, rig_element(type));
        rig_pack(type, n, arrays[a], rows->packed[a]);
        unpack(type, n, rows->packed[a], wide);
        for (size_t i = 0; i < n; i++)
            arrays[a][i] = (float)wide[i];
        free(wide);
    }
}

float *rig_q(const rig_rows *rows, const oracle_geometry *g, int32_t i) {
    return rows->q + (size_t)i * row_size(g, 0);
}
float *rig_k(const rig_rows *rows, const oracle_geometry *g, int32_t i) {
    return rows->k + (size_t)i * row_size(g, 1);
}
float *rig_v(const rig_rows *rows, const oracle_geometry *g, int32_t i) {
    return rows->v + (size_t)i * row_size(g, 2);
}
float *rig_index(const rig_rows *rows, const oracle_geometry *g, int32_t i) {
    return rows->index + (size_t)i * row_size(g, 3);
}

// `head` elements from row to row of heads, starting `skip` elements into each row of array a.
static qsa_rows part(const rig_rows *rows, const oracle_geometry *g, int a, int32_t first, size_t skip, size_t head) {
    const void *const plain[4] = {rows->q, rows->k, rows->v, rows->index};
    const size_t element = rig_element(rows->type), row = row_size(g, a) * element;
    const void *data = rows->packed[a] ? rows->packed[a] : plain[a];
    return (qsa_rows){.data = (const unsigned char *)data + (size_t)first * row + skip * element,
                      .type = rows->type,
                      .row_stride = (int64_t)row,
                      .head_stride = (int64_t)(head * element)};
}

qsa_batch rig_batch(const rig_rows *rows, const oracle_geometry *g, int32_t first, int32_t count, bool gate) {
    const size_t dim = (size_t)g->head_dim, index = (size_t)g->index_dim;
    qsa_batch batch = {.size = sizeof batch,
                       .rows = count,
                       .sequences = rows->sequences + first,
                       .positions = rows->positions + 3 * (size_t)first,
                       .positions_per_row = 3,
                       .q = part(rows, g, 0, first, 0, 2 * dim),
                       .k = part(rows, g, 1, first, 0, dim),
                       .v = part(rows, g, 2, first, 0, dim),
                       .index_q = part(rows, g, 3, first, 0, index),
                       .index_k = part(rows, g, 3, first, (size_t)g->index_heads * index, index),
                       .attend = rows->attend + first};
    if (gate)
        batch.gate = part(rows, g, 0, first, dim, 2 * dim);
    return batch;
}

// ---- The cache --------------------------------------------------------------------------------

void rig_read(const rig *r, int32_t layer, int32_t sequence, rig_stored *s) {
    const oracle_geometry *g = &r->config.geometry;
    *s = (rig_stored){0};
    RIG_OK(qsa_sequence_length(r->cache, sequence, &s->cells));
    const size_t vectors = (size_t)s->cells * (size_t)g->kv_heads, dim = (size_t)g->head_dim;
    const size_t groups = (size_t)oracle_i8_groups(g->head_dim);
    const size_t keys = (size_t)(s->cells / g->ratio) * (size_t)g->index_dim;
    const bool i8 = r->config.kv_type == QSA_I8;
    s->k_bits = rig_new(vectors * dim, rig_element(r->config.kv_type));
    s->v_bits = rig_new(vectors * dim, rig_element(r->config.kv_type));
    s->key_bits = rig_new(keys, rig_element(r->config.block_key_type));
    s->k_scales = i8 ? rig_new(vectors * groups, 2) : NULL;
    s->v_scales = i8 ? rig_new(vectors * groups, 2) : NULL;
    s->k = rig_new(vectors * dim, sizeof *s->k);
    s->v = rig_new(vectors * dim, sizeof *s->v);
    s->block_keys = rig_new(keys, sizeof *s->block_keys);
    qsa_cells cells = {.size = sizeof cells,
                       .k = s->k_bits,
                       .v = s->v_bits,
                       .k_scales = s->k_scales,
                       .v_scales = s->v_scales,
                       .block_keys = s->key_bits};
    RIG_OK(qsa_cache_read(r->cache, layer, sequence, 0, s->cells, &cells));
    unpack(r->config.block_key_type, keys, s->key_bits, s->block_keys);
    if (!i8) {
        unpack(r->config.kv_type, vectors * dim, s->k_bits, s->k);
        unpack(r->config.kv_type, vectors * dim, s->v_bits, s->v);
        return;
    }
    for (size_t i = 0; i < vectors; i++) {
        oracle_i8_decode(g->head_dim, (int8_t *)s->k_bits + i * dim, s->k_scales + i * groups, s->k + i * dim);
        oracle_i8_decode(g->head_dim, (int8_t *)s->v_bits + i * dim, s->v_scales + i * groups, s->v + i * dim);
    }
}

void rig_stored_free(rig_stored *s) {
    free(s->k_bits);
    free(s->v_bits);
    free(s->key_bits);
    free(s->k_scales);
    free(s->v_scales);
    free(s->k);
    free(s->v);
    free(s->block_keys);
    memset(s, 0, sizeof *s);
}

// Vectors of dim floats in a cache type; scales are made for i8.
static void *encode(qsa_type type, size_t vectors, int dim, const float *x, uint16_t *scales) {
    const size_t n = (size_t)dim, groups = (size_t)oracle_i8_groups(dim);
    void *bits = rig_new(vectors * n, rig_element(type));
    double *wide = rig_new(n, sizeof *wide);
    if (type != QSA_I8)
        rig_pack(type, vectors * n, x, bits);
    for (size_t i = 0; type == QSA_I8 && i < vectors; i++) {
        oracle_widen(n, x + i * n, wide);
        oracle_i8_encode(dim, wide, (int8_t *)bits + i * n, scales + i * groups, NULL);
    }
    free(wide);
    return bits;
}

void rig_write(rig *r, int32_t layer, int32_t sequence, int32_t count, const float *k, const float *v,
               const float *block_keys) {
    const oracle_geometry *g = &r->config.geometry;
    int32_t length;
    RIG_OK(qsa_sequence_length(r->cache, sequence, &length));
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, groups = (size_t)oracle_i8_groups(g->head_dim);
    const size_t keys = (size_t)((length + count) / g->ratio - length / g->ratio) * (size_t)g->index_dim;
    const bool i8 = r->config.kv_type == QSA_I8;
    qsa_cells cells = {.size = sizeof cells};
    cells.k_scales = i8 ? rig_new(vectors * groups, 2) : NULL;
    cells.v_scales = i8 ? rig_new(vectors * groups, 2) : NULL;
    cells.k = encode(r->config.kv_type, vectors, g->head_dim, k, cells.k_scales);
    cells.v = encode(r->config.kv_type, vectors, g->head_dim, v, cells.v_scales);
    cells.block_keys = rig_new(keys, rig_element(r->config.block_key_type));
    rig_pack(r->config.block_key_type, keys, block_keys, cells.block_keys);
    RIG_OK(qsa_cache_write(r->cache, layer, sequence, count, &cells));
    free(cells.k);
    free(cells.v);
    free(cells.k_scales);
    free(cells.v_scales);
    free(cells.block_keys);
}
