// SPDX-License-Identifier: Apache-2.0
//
// Builds and frees a world. The norm weights set the spread of the logits: keys and queries leave their norms with length
// sqrt(D) times the weight, so with key weights of 1 and query weights of s the logits of unrelated vectors have standard
// deviation s.

#include "bench/world.h"

#include "bench/bench.h"
#include "bench/device.h"
#include "num/load.h"

#include <stdlib.h>
#include <string.h>

bool (*bench_prepare)(qsa_context *context, bench_error *error);

qsa_context *world_context(const bench_options *options, bench_error *error) {
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.threads = options->threads;
    config.backend = options->backend;
    config.kernel_class = options->kernel_class;
    qsa_context *context = NULL;
    qsa_status status = qsa_context_create(&config, &context);
    if (status == QSA_OK && bench_prepare && !bench_prepare(context, error)) {
        qsa_context_destroy(context);
        return NULL;
    }
    for (int32_t i = 0; status == QSA_OK && i < options->n_kernels; i++)
        status = qsa_context_set_kernel(context, options->kernels[i].stage, options->kernels[i].name);
    if (status == QSA_OK)
        return context;
    bench_fail_library(error);
    qsa_context_destroy(context);
    return NULL;
}

void *world_array(bench_world *w, size_t count, size_t size, bench_error *error) {
    const size_t bytes = (count * size + 63) / 64 * 64 + 64;
    void *memory = w->n_buffers < WORLD_BUFFERS && count < SIZE_MAX / 2 / size ? aligned_alloc(64, bytes) : NULL;
    if (!memory) {
        bench_say(error, "no memory for %zu x %zu bytes", count, size);
        return NULL;
    }
    w->buffers[w->n_buffers++].memory = memory;
    return memory;
}

static bool make_layer(bench_world *w, bench_error *error) {
    float factor[QSA_MAX_HEAD_DIM], ones[QSA_MAX_HEAD_DIM];
    for (int i = 0; i < QSA_MAX_HEAD_DIM; i++) {
        factor[i] = (float)w->options->logits;
        ones[i] = 1;
    }
    const qsa_layer_config config = {.size = sizeof config,
                                     .geometry = w->geometry,
                                     .norm_form = QSA_NORM_FACTOR,
                                     .norm_type = QSA_F32,
                                     .q_norm = factor,
                                     .k_norm = ones,
                                     .index_q_norm = ones,
                                     .index_k_norm = ones};
    return qsa_layer_create(w->context, &config, &w->layer) == QSA_OK || bench_fail_library(error);
}

static bool make_cache(bench_world *w, bench_error *error) {
    const bench_options *o = w->options;
    qsa_cache_config config;
    qsa_cache_config_init(&config, &w->geometry, w->pos + w->tokens);
    config.kv_type = o->kv;
    config.block_key_type = o->block_keys;
    config.max_sequences = o->seqs;
    if (config.pages > INT32_MAX / o->seqs)
        return bench_fail(error, "--pos %d x --seqs %d: more cells than a cache can have", (int)w->pos, (int)o->seqs);
    config.pages *= o->seqs;
    config.screen = o->screen;
    if (qsa_cache_create(w->context, &config, &w->cache) != QSA_OK)
        return bench_fail_library(error);
    for (int32_t s = 0; s < o->seqs; s++) {
        int32_t number = -1;
        if (qsa_sequence_create(w->cache, &number) != QSA_OK)
            return bench_fail_library(error);
        for (int32_t t = 0; t < w->tokens; t++) {
            w->sequences[s * w->tokens + t] = number;
            w->positions[s * w->tokens + t] = w->pos + t;
            w->cells[s * w->tokens + t] = w->pos + t + 1;
        }
    }
    return true;
}

static bool normal_rows(bench_world *w, qsa_rows *rows, int32_t heads, int32_t dim, bench_error *error) {
    const size_t vector = (size_t)heads * (size_t)dim;
    float *data = world_array(w, (size_t)w->rows * vector, sizeof *data, error);
    if (!data)
        return false;
    bench_normals(&w->random, data, (size_t)w->rows * vector);
    *rows =
        (qsa_rows){.data = data, .type = QSA_F32, .row_stride = (int64_t)vector * 4, .head_stride = (int64_t)dim * 4};
    return true;
}

static bool make_batch(bench_world *w, bench_error *error) {
    const qsa_geometry *g = &w->geometry;
    w->batch = (qsa_batch){.size = sizeof w->batch,
                           .rows = w->rows,
                           .sequences = w->sequences,
                           .positions = w->positions,
                           .positions_per_row = 1};
    return normal_rows(w, &w->batch.q, g->heads, g->head_dim, error) &&
           normal_rows(w, &w->batch.k, g->kv_heads, g->head_dim, error) &&
           normal_rows(w, &w->batch.v, g->kv_heads, g->head_dim, error) &&
           normal_rows(w, &w->batch.index_q, g->index_heads, g->index_dim, error) &&
           normal_rows(w, &w->batch.index_k, 1, g->index_dim, error) &&
           normal_rows(w, &w->batch.gate, g->heads, g->head_dim, error);
}

static bool make_selection(bench_world *w, qsa_selection *selection, bench_error *error) {
    const size_t stride = (size_t)qsa_selection_stride(&w->geometry, QSA_RULE_OFFICIAL), rows = (size_t)w->rows;
    *selection = (qsa_selection){.size = sizeof *selection, .stride = (int64_t)stride};
    selection->ids = world_array(w, rows * stride, sizeof(int32_t), error);
    selection->count = selection->ids ? world_array(w, rows, sizeof(int32_t), error) : NULL;
    if (!selection->count)
        return false;
    memset(selection->ids, 0, rows * stride * sizeof(int32_t));
    memset(selection->count, 0, rows * sizeof(int32_t));
    return true;
}

static bool make_workspace(bench_world *w, bench_error *error) {
    for (int stage = QSA_STAGE_FORWARD; stage <= QSA_STAGE_MERGE; stage++) {
        size_t bytes = 0;
        if (qsa_workspace_size(w->context, w->cache, (qsa_stage)stage, w->rows, &bytes) != QSA_OK)
            return bench_fail_library(error);
        w->workspace_bytes = bytes > w->workspace_bytes ? bytes : w->workspace_bytes;
    }
    if (w->options->backend == QSA_BACKEND_CUDA)
        return true; // device_move makes it
    w->workspace = world_array(w, w->workspace_bytes, 1, error);
    return w->workspace != NULL;
}

// Results: the large ones only where the case writes them.
static bool make_results(bench_world *w, bench_id id, bench_error *error) {
    const qsa_geometry *g = &w->geometry;
    const size_t rows = (size_t)w->rows, vector = (size_t)g->heads * (size_t)g->head_dim;
    w->q = world_array(w, rows * vector, sizeof(float), error);
    w->index_q = w->q ? world_array(w, rows * (size_t)g->index_heads * (size_t)g->index_dim, 4, error) : NULL;
    float *out = w->index_q ? world_array(w, rows * vector, sizeof(float), error) : NULL;
    if (!out)
        return false;
    w->out = (qsa_rows_out){
        .data = out, .type = QSA_F32, .row_stride = (int64_t)vector * 4, .head_stride = (int64_t)g->head_dim * 4};
    w->score_stride = (w->pos + w->tokens) / g->ratio + 1;
    const bool all = id == BENCH_ALL;
    if (all || id == BENCH_SCORE || id == BENCH_TOPK || id == BENCH_SCORE_TOPK || id == BENCH_STEP) {
        w->scores = world_array(w, rows * (size_t)w->score_stride, sizeof(float), error);
        if (!w->scores)
            return false;
    }
    w->record_stride = (int64_t)qsa_max_chunks(g) * g->heads * (2 + g->head_dim);
    w->record_rows = all || id == BENCH_MERGE ? w->rows : w->group;
    if (all || id == BENCH_DECODE || id == BENCH_MERGE) {
        w->records = world_array(w, (size_t)w->record_rows * (size_t)w->record_stride, sizeof(float), error);
        w->chunks = w->records ? world_array(w, (size_t)w->record_rows, sizeof(int32_t), error) : NULL;
        if (!w->chunks)
            return false;
    }
    return make_selection(w, &w->selection, error) && make_selection(w, &w->found, error);
}

bool world_open(bench_world *w, const bench_options *options, qsa_context *context, bench_id id, int32_t pos,
                int32_t tokens, bench_error *error) {
    const int32_t waves = 2 * options->threads;
    if ((int64_t)tokens * options->seqs > INT32_MAX / 4096)
        return bench_fail(error, "--tokens %d x --seqs %d: more rows than a case can have", (int)tokens,
                          (int)options->seqs);
    *w = (bench_world){.options = options,
                       .context = context,
                       .random = {.state = 5},
                       .pos = pos,
                       .tokens = tokens,
                       .rows = tokens * options->seqs};
    w->group = w->rows < waves || options->backend == QSA_BACKEND_CUDA ? w->rows : waves;
    const size_t rows = (size_t)w->rows;
    bool made = qsa_geometry_preset("qwen3.8-flash-next", &w->geometry) == QSA_OK || bench_fail_library(error);
    made = made && (w->sequences = world_array(w, rows, sizeof(int32_t), error)) != NULL;
    made = made && (w->positions = world_array(w, rows, sizeof(int32_t), error)) != NULL;
    made = made && (w->cells = world_array(w, rows, sizeof(int32_t), error)) != NULL;
    made = made && make_layer(w, error) && make_cache(w, error) && make_batch(w, error) && world_fill(w, error);
    made = made && make_workspace(w, error) && make_results(w, id, error);
    if (!made)
        world_close(w);
    return made;
}

void world_close(bench_world *w) {
    device_free(w);
    qsa_cache_destroy(w->cache);
    qsa_layer_destroy(w->layer);
    for (int32_t i = 0; i < w->n_buffers; i++)
        free(w->buffers[i].memory);
    *w = (bench_world){0};
}

qsa_status world_append(bench_world *w) {
    const qsa_prep_out out = {.size = sizeof out, .q = w->q, .index_q = w->index_q};
    return qsa_prep(w->context, w->layer, w->cache, 0, &w->batch, &out, w->workspace, w->workspace_bytes);
}

qsa_status world_discard(bench_world *w) {
    return qsa_cache_discard(w->cache);
}

bool world_logits(bench_world *w, double *deviation, bench_error *error) {
    enum { SAMPLE = 256 };
    const qsa_geometry *g = &w->geometry;
    const qsa_type kv = w->options->kv;
    const int32_t count = w->pos < SAMPLE ? w->pos : SAMPLE, dim = g->head_dim,
                  groups = (dim + QSA_GROUP - 1) / QSA_GROUP;
    *deviation = 0;
    if (count < 2)
        return true;
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, bytes = (size_t)dim * qsa_type_size(kv);
    qsa_cells cells = {.size = sizeof cells, .k = malloc(vectors * bytes)};
    if (kv == QSA_I8)
        cells.k_scales = malloc(vectors * (size_t)groups * 2);
    const bool i8 = kv == QSA_I8;
    bool made = cells.k && (cells.k_scales || !i8);
    const float *q = device_values(w, w->q, (size_t)g->heads * (size_t)dim, error);
    made = made && q;
    if (!made)
        bench_say(error, "no memory for %d cells", (int)count);
    made =
        made && (qsa_cache_read(w->cache, 0, w->sequences[0], 0, count, &cells) == QSA_OK || bench_fail_library(error));
    double sum = 0, squares = 0, n = (double)count * g->heads;
    for (size_t v = 0; made && v < vectors; v++) {
        float key[QSA_MAX_HEAD_DIM];
        qsa_decode_row(key, (unsigned char *)cells.k + v * bytes, i8 ? cells.k_scales + v * (size_t)groups : NULL, kv,
                       dim);
        const int32_t heads = g->heads / g->kv_heads, first = (int32_t)(v % (size_t)g->kv_heads) * heads;
        for (int32_t h = first; h < first + heads; h++) {
            double dot = 0;
            for (int32_t d = 0; d < dim; d++)
                dot += (double)q[(size_t)h * (size_t)dim + (size_t)d] * (double)key[d];
            dot /= sqrt((double)dim);
            sum += dot;
            squares += dot * dot;
        }
    }
    *deviation = made ? sqrt(squares / n - sum / n * (sum / n)) : 0;
    free(cells.k);
    free(cells.k_scales);
    return made;
}
