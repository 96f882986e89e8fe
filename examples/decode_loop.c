// SPDX-License-Identifier: Apache-2.0
//
// An engine's loop: two layers, two users. Their prompts of different lengths go in as one ragged batch, then both decode
// one token a step. At the end each user's last row is computed again alone from nothing and must have the same bits.

#include <qsa/qsa.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, USERS = 2, STEPS = 40, MOST = 256 };
static const int32_t prompts[USERS] = {70, 33};

typedef struct engine {
    qsa_geometry g;
    qsa_context *context;
    qsa_layer *layers[LAYERS];
    qsa_cache *cache;
    void *workspace;
    size_t bytes;
    float *raw, *out; // rows of one call
    int64_t row;      // floats per raw row: q, gate, k, v, index q, index k
} engine;

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, qsa_last_error());
    return 1;
}

// Stands for the projections: raw values that depend on user, position and layer alone.
static void project(const engine *e, float *raw, int32_t user, int32_t position, int32_t layer) {
    uint32_t state = (uint32_t)(user * 7919 + position * 104729 + layer * 1299709 + 1);
    for (int64_t i = 0; i < e->row; i++) {
        state = state * 1664525u + 1013904223u;
        raw[i] = (float)(int32_t)(state >> 16 & 255u) / 64.0f - 2.0f;
    }
}

// One step of the engine: every layer gets the same rows, then the lengths move.
static int step(engine *e, int32_t rows, const int32_t *users, const int32_t *sequences, const int32_t *positions) {
    const qsa_geometry *g = &e->g;
    const int64_t f = sizeof(float), head = g->head_dim * f, index = g->index_dim * f;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        for (int32_t i = 0; i < rows; i++)
            project(e, e->raw + i * e->row, users[i], positions[i], layer);
        const float *q = e->raw, *gate = q + g->heads * g->head_dim, *k = gate + g->heads * g->head_dim;
        const float *v = k + g->kv_heads * g->head_dim, *iq = v + g->kv_heads * g->head_dim;
        qsa_batch batch = {.size = sizeof batch,
                           .rows = rows,
                           .sequences = sequences,
                           .positions = positions,
                           .positions_per_row = 1,
                           .q = {q, QSA_F32, e->row * f, head},
                           .gate = {gate, QSA_F32, e->row * f, head},
                           .k = {k, QSA_F32, e->row * f, head},
                           .v = {v, QSA_F32, e->row * f, head},
                           .index_q = {iq, QSA_F32, e->row * f, index},
                           .index_k = {iq + g->index_heads * g->index_dim, QSA_F32, e->row * f, index}};
        qsa_rows_out out = {e->out, QSA_F32, g->heads * head, head};
        if (qsa_forward(e->context, e->layers[layer], e->cache, layer, &batch, NULL, &out, e->workspace, e->bytes))
            return failed("forward");
        // Here an engine applies o_proj, the rest of the layer, and goes on.
    }
    return qsa_cache_commit(e->cache) ? failed("commit") : 0;
}

static int open_engine(engine *e) {
    static const float zeros[QSA_MAX_HEAD_DIM];
    // A small model: 4 / 2 heads x 32, selecting 32 cells of each sequence.
    e->g = (qsa_geometry){sizeof e->g, 4, 2, 32, 2, 16, 8, {2, 1, 1}, 4, 32, 1e-6f, 1e7};
    e->row =
        2 * e->g.heads * e->g.head_dim + 2 * e->g.kv_heads * e->g.head_dim + (e->g.index_heads + 1) * e->g.index_dim;
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.threads = 2;
    if (qsa_context_create(&config, &e->context))
        return failed("context");
    qsa_layer_config layer = {sizeof layer, e->g, QSA_NORM_ZERO_CENTRED, QSA_F32, zeros, zeros, zeros, zeros};
    for (int i = 0; i < LAYERS; i++)
        if (qsa_layer_create(e->context, &layer, &e->layers[i]))
            return failed("layer");
    qsa_cache_config cache;
    qsa_cache_config_init(&cache, &e->g, MOST);
    cache.layers = LAYERS;
    cache.max_sequences = USERS + 1;
    cache.pages *= USERS + 1;
    if (qsa_cache_create(e->context, &cache, &e->cache) ||
        qsa_workspace_size(e->context, e->cache, QSA_STAGE_FORWARD, MOST, &e->bytes))
        return failed("cache");
    e->workspace = malloc(e->bytes);
    e->raw = malloc((size_t)(MOST * e->row) * sizeof(float));
    e->out = malloc((size_t)(MOST * e->g.heads * e->g.head_dim) * sizeof(float));
    return !e->workspace || !e->raw || !e->out;
}

static void close_engine(engine *e) {
    free(e->workspace), free(e->raw), free(e->out);
    qsa_cache_destroy(e->cache);
    for (int i = 0; i < LAYERS; i++)
        qsa_layer_destroy(e->layers[i]);
    qsa_context_destroy(e->context);
}

// The user's whole history at once in a sequence of its own; its last row against `expected`.
static int equals_fresh_run(engine *e, int32_t user, const float *expected) {
    const int32_t rows = prompts[user] + STEPS, width = e->g.heads * e->g.head_dim;
    int32_t sequence, users[MOST], sequences[MOST], positions[MOST];
    if (qsa_sequence_create(e->cache, &sequence))
        return failed("sequence");
    for (int32_t i = 0; i < rows; i++)
        users[i] = user, sequences[i] = sequence, positions[i] = i;
    if (step(e, rows, users, sequences, positions))
        return 1;
    int different = memcmp(expected, e->out + (int64_t)(rows - 1) * width, (size_t)width * sizeof(float)) != 0;
    printf("user %d: %d cells, %s its fresh run\n", (int)user, (int)rows, different ? "DIFFERS FROM" : "equals");
    return qsa_sequence_destroy(e->cache, sequence) || different;
}

// Prompts, decoding, and the check; 0 if every user equals its fresh run.
static int serve(engine *e, float *last) {
    int32_t sequence[USERS], users[MOST], sequences[MOST], positions[MOST], rows = 0;
    for (int32_t u = 0; u < USERS; u++)
        if (qsa_sequence_create(e->cache, &sequence[u]))
            return failed("sequence");
    for (int32_t u = 0; u < USERS; u++)
        for (int32_t p = 0; p < prompts[u]; p++, rows++)
            users[rows] = u, sequences[rows] = sequence[u], positions[rows] = p;
    if (step(e, rows, users, sequences, positions))
        return 1;
    for (int32_t s = 0; s < STEPS; s++) {
        for (int32_t u = 0; u < USERS; u++)
            users[u] = u, sequences[u] = sequence[u], positions[u] = prompts[u] + s;
        if (step(e, USERS, users, sequences, positions))
            return 1;
    }
    const size_t width = (size_t)e->g.heads * (size_t)e->g.head_dim;
    memcpy(last, e->out, USERS * width * sizeof(float));
    int different = 0;
    for (int32_t u = 0; u < USERS; u++)
        different |= equals_fresh_run(e, u, last + (size_t)u * width);
    return different;
}

int main(void) {
    engine e = {0};
    int status = open_engine(&e);
    float *last = status ? NULL : malloc((size_t)USERS * (size_t)e.g.heads * (size_t)e.g.head_dim * sizeof(float));
    if (last)
        status = serve(&e, last);
    free(last);
    close_engine(&e);
    return status || !last;
}
