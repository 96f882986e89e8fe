// SPDX-License-Identifier: Apache-2.0
//
// Stage prep, the half that writes the cache: key, value, raw index key and completed block keys of every row of a batch.
// Rows are independent of each other: a block key is made of raw keys that are in the batch or were committed before.

#include "api/batch.h"
#include "num/load.h"

enum { ROWS_PER_TASK = 8 };

typedef struct append_job {
    qsa_context *context;
    const qsa_layer *layer;
    qsa_cache *cache;
    int32_t layer_index;
    const qsa_plan *plan;
    const qsa_prep_out *out;
} append_job;

static void compute_angles(const append_job *job, const int32_t positions[3], float *cosine, float *sine) {
    const qsa_layer *layer = job->layer;
    qsa_angles_args args = {.inv_freq = layer->inv_freq,
                            .axis = layer->axis,
                            .positions = positions,
                            .half = layer->geometry.rotary_dim / 2,
                            .cosine = cosine,
                            .sine = sine};
    job->context->kernels.angles(&args);
}

static void store(const append_job *job, int32_t row, int32_t head, int value, const void *x, qsa_type type,
                  uint64_t *events) {
    const qsa_cache *cache = job->cache;
    const int32_t dim = job->layer->geometry.head_dim, groups = qsa_groups(dim);
    const size_t at = (size_t)row + (size_t)head * (size_t)cache->config.page_cells;
    unsigned char *codes = value ? qsa_cache_v(cache, job->layer_index) : qsa_cache_k(cache, job->layer_index);
    uint16_t *scales = NULL;
    if (cache->config.kv_type == QSA_I8)
        scales = (value ? qsa_cache_v_scales(cache, job->layer_index) : qsa_cache_k_scales(cache, job->layer_index)) +
                 at * (size_t)groups;
    qsa_store_args args = {.x = x,
                           .type = type,
                           .vectors = 1,
                           .dim = dim,
                           .format = cache->config.kv_type,
                           .codes = codes + at * qsa_kv_row_bytes(&cache->config),
                           .scales = scales,
                           .events = events};
    job->context->kernels.store(&args);
}

static void append_kv(const append_job *job, int32_t i, int32_t row, const float *cosine, const float *sine,
                      uint64_t *events) {
    const qsa_geometry *g = &job->layer->geometry;
    const qsa_batch *batch = job->plan->batch;
    float key[QSA_MAX_HEAD_DIM];
    for (int32_t head = 0; head < g->kv_heads; head++) {
        qsa_norm_rope_args args = {.x = qsa_row_at(&batch->k, i, head),
                                   .type = batch->k.type,
                                   .vectors = 1,
                                   .dim = g->head_dim,
                                   .half = g->rotary_dim / 2,
                                   .factor = job->layer->k_factor,
                                   .cosine = cosine,
                                   .sine = sine,
                                   .eps = g->eps,
                                   .out = key};
        job->context->kernels.norm_rope(&args);
        const unsigned char *value = qsa_row_at(&batch->v, i, head);
        store(job, row, head, 0, key, QSA_F32, events);
        store(job, row, head, 1, value, batch->v.type, events);
        const size_t at = ((size_t)i * (size_t)g->kv_heads + (size_t)head) * (size_t)g->head_dim;
        if (job->out && job->out->k)
            memcpy(job->out->k + at, key, (size_t)g->head_dim * sizeof(float));
        if (job->out && job->out->v)
            qsa_load_row(job->out->v + at, value, batch->v.type, g->head_dim);
    }
}

// Keeps the raw index key of a row that is among the last `keep` pending ones of its sequence.
static void keep_raw(const append_job *job, int32_t i, const int32_t positions[3]) {
    const qsa_cache *cache = job->cache;
    const qsa_batch *batch = job->plan->batch;
    const int32_t sequence = batch->sequences[i], cell = job->plan->cells[i] - 1;
    const qsa_sequence *s = &cache->sequences[sequence];
    if (cache->config.rollback != QSA_ROLLBACK_ALL && s->length + s->pending - cell > cache->keep)
        return;
    const size_t slot = qsa_raw_slot(cache, job->layer_index, sequence, cell, 1);
    qsa_load_row(qsa_raw_key_at(cache, slot), qsa_row_at(&batch->index_k, i, 0), batch->index_k.type,
                 job->layer->geometry.index_dim);
    memcpy(qsa_raw_positions_at(cache, slot), positions, 3 * sizeof(int32_t));
}

// The row completes a block: its r raw index keys, the later ones from the batch, the earlier ones from the cache.
static void append_block(const append_job *job, int32_t i, uint64_t *events) {
    const qsa_cache *cache = job->cache;
    const qsa_geometry *g = &job->layer->geometry;
    const qsa_batch *batch = job->plan->batch;
    const int32_t sequence = batch->sequences[i], n = job->plan->cells[i], ratio = g->ratio;
    qsa_raw_key keys[QSA_MAX_RATIO];
    int32_t positions[3];
    for (int32_t c = ratio - 1, row = i; c >= 0; c--) {
        if (row >= 0) {
            keys[c] = (qsa_raw_key){qsa_row_at(&batch->index_k, row, 0), batch->index_k.type};
            qsa_row_positions(batch, row, positions);
            row = job->plan->previous[row];
        } else {
            const size_t slot = qsa_raw_slot(cache, job->layer_index, sequence, n - ratio + c, 0);
            keys[c] = (qsa_raw_key){qsa_raw_key_at(cache, slot), QSA_F32};
            memcpy(positions, qsa_raw_positions_at(cache, slot), sizeof positions);
        }
    }
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    compute_angles(job, positions, cosine, sine);
    qsa_pool_args args = {.keys = keys,
                          .ratio = ratio,
                          .dim = g->index_dim,
                          .half = g->rotary_dim / 2,
                          .factor = job->layer->ik_factor,
                          .cosine = cosine,
                          .sine = sine,
                          .eps = g->eps,
                          .format = cache->config.block_key_type,
                          .out = qsa_block_key(cache, job->layer_index, sequence, n / ratio - 1),
                          .events = events};
    job->context->kernels.pool(&args);
    qsa_screen_block(cache, job->context->kernels.screen_key, job->layer_index, sequence, n / ratio - 1);
}

static void append_rows(void *arg, int32_t task) {
    const append_job *job = arg;
    const qsa_batch *batch = job->plan->batch;
    uint64_t events[3] = {0};
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    const int32_t end = batch->rows - task * ROWS_PER_TASK < ROWS_PER_TASK ? batch->rows : (task + 1) * ROWS_PER_TASK;
    for (int32_t i = task * ROWS_PER_TASK; i < end; i++) {
        int32_t positions[3];
        qsa_row_positions(batch, i, positions);
        compute_angles(job, positions, cosine, sine);
        const int32_t n = job->plan->cells[i];
        const int32_t row = qsa_cell_row(job->cache, qsa_page_table(job->cache, batch->sequences[i]), n - 1);
        append_kv(job, i, row, cosine, sine, events);
        keep_raw(job, i, positions);
        if (n % job->layer->geometry.ratio == 0)
            append_block(job, i, events);
    }
    for (int e = 0; e < 3; e++)
        if (events[e])
            atomic_fetch_add(&job->cache->events[e], events[e]);
}

void qsa_append(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                const qsa_plan *plan, const qsa_prep_out *out) {
    append_job job = {context, layer, cache, layer_index, plan, out};
    qsa_context_run(context, (plan->batch->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, append_rows, &job);
    cache->written[layer_index] = 1;
}
