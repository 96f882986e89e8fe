// SPDX-License-Identifier: Apache-2.0
//
// Stage prep, the half that writes the cache: key, value, raw index key and completed block keys of every row of a batch, by the
// separate kernels (qsa_prep), or together with the row's queries by the fused one (forward). The bytes are the same.
// Rows are independent of each other: a block key is made of raw keys that are in the batch or were committed before.

#include "api/wave.h"
#include "num/load.h"

enum { ROWS_PER_TASK = 8 };

typedef struct append_job {
    qsa_context *context;
    const qsa_layer *layer;
    qsa_cache *cache;
    int32_t layer_index;
    const qsa_plan *plan;
    const qsa_prep_out *out;  // or null; not with `fused`
    const qsa_wave *wave;     // with `fused`: rows whose queries are wanted
    int32_t first, end, each; // rows of the batch, and of a task
    int fused;
} append_job;

static qsa_angles_args angles_of(const append_job *job, const int32_t *positions, float *cosine, float *sine) {
    const qsa_layer *layer = job->layer;
    return (qsa_angles_args){.inv_freq = layer->inv_freq,
                             .axis = layer->axis,
                             .positions = positions,
                             .half = layer->geometry.rotary_dim / 2,
                             .cosine = cosine,
                             .sine = sine};
}

// Norm and RoPE of the key of a head of batch row i.
static qsa_norm_rope_args key_of(const append_job *job, int32_t i, int32_t head, float *out) {
    const qsa_geometry *g = &job->layer->geometry;
    const qsa_rows *rows = &job->plan->batch->k;
    return (qsa_norm_rope_args){.x = qsa_row_at(rows, i, head),
                                .type = rows->type,
                                .x_stride = rows->head_stride,
                                .vectors = 1,
                                .dim = g->head_dim,
                                .half = g->rotary_dim / 2,
                                .factor = job->layer->k_factor,
                                .eps = g->eps,
                                .out = out};
}

// Where a head's key or value goes: row `row` of the cache, for head 0.
static qsa_store_args place_of(const append_job *job, int32_t row, int32_t head, int value, uint64_t *events) {
    const qsa_cache *cache = job->cache;
    const int32_t dim = job->layer->geometry.head_dim, groups = qsa_groups(dim);
    const size_t page_cells = (size_t)cache->config.page_cells, at = (size_t)row + (size_t)head * page_cells;
    unsigned char *codes = value ? qsa_cache_v(cache, job->layer_index) : qsa_cache_k(cache, job->layer_index);
    uint16_t *scales = NULL;
    if (cache->config.kv_type == QSA_I8)
        scales = (value ? qsa_cache_v_scales(cache, job->layer_index) : qsa_cache_k_scales(cache, job->layer_index)) +
                 at * (size_t)groups;
    return (qsa_store_args){.vectors = 1,
                            .dim = dim,
                            .format = cache->config.kv_type,
                            .codes = codes + at * qsa_kv_row_bytes(&cache->config),
                            .code_stride = (int64_t)(page_cells * qsa_kv_row_bytes(&cache->config)),
                            .scales = scales,
                            .scale_stride = (int64_t)page_cells * groups,
                            .events = events};
}

static void store(const append_job *job, int32_t row, int32_t head, int value, const void *x, qsa_type type,
                  uint64_t *events) {
    qsa_store_args args = place_of(job, row, head, value, events);
    args.x = x;
    args.type = type;
    job->context->kernels.store(&args);
}

static void append_kv(const append_job *job, int32_t i, int32_t row, const float *cosine, const float *sine,
                      uint64_t *events) {
    const qsa_geometry *g = &job->layer->geometry;
    const qsa_batch *batch = job->plan->batch;
    float key[QSA_MAX_HEAD_DIM];
    for (int32_t head = 0; head < g->kv_heads; head++) {
        qsa_norm_rope_args args = key_of(job, i, head, key);
        args.cosine = cosine;
        args.sine = sine;
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

// What a row that completes a block makes of it: r raw index keys, the later ones from the batch, the earlier ones from the
// cache. keys [r]; positions of the first cell.
static qsa_pool_args block_of(const append_job *job, int32_t i, qsa_raw_key *keys, int32_t positions[3],
                              uint64_t *events) {
    const qsa_cache *cache = job->cache;
    const qsa_geometry *g = &job->layer->geometry;
    const qsa_batch *batch = job->plan->batch;
    const int32_t sequence = batch->sequences[i], n = job->plan->cells[i], ratio = g->ratio;
    for (int32_t c = ratio - 1, row = i; c >= 0; c--) {
        if (row >= 0) {
            keys[c] = (qsa_raw_key){qsa_row_at(&batch->index_k, row, 0), batch->index_k.type};
            qsa_row_positions(batch, row, positions);
            row = job->plan->previous[row];
        } else {
            const size_t slot = qsa_raw_slot(cache, job->layer_index, sequence, n - ratio + c, 0);
            keys[c] = (qsa_raw_key){qsa_raw_key_at(cache, slot), QSA_F32};
            memcpy(positions, qsa_raw_positions_at(cache, slot), 3 * sizeof(int32_t));
        }
    }
    return (qsa_pool_args){.keys = keys,
                           .ratio = ratio,
                           .dim = g->index_dim,
                           .half = g->rotary_dim / 2,
                           .factor = job->layer->ik_factor,
                           .eps = g->eps,
                           .format = cache->config.block_key_type,
                           .out = qsa_block_key(cache, job->layer_index, sequence, n / ratio - 1),
                           .events = events};
}

static void screen_block(const append_job *job, int32_t i) {
    const int32_t block = job->plan->cells[i] / job->layer->geometry.ratio - 1;
    qsa_screen_block(job->cache, job->context->kernels.screen_key, job->layer_index, job->plan->batch->sequences[i],
                     block);
}

static void append_block(const append_job *job, int32_t i, uint64_t *events) {
    qsa_raw_key keys[QSA_MAX_RATIO];
    int32_t positions[3];
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    qsa_pool_args args = block_of(job, i, keys, positions, events);
    const qsa_angles_args angles = angles_of(job, positions, cosine, sine);
    job->context->kernels.angles(&angles);
    args.cosine = cosine;
    args.sine = sine;
    job->context->kernels.pool(&args);
    screen_block(job, i);
}

static int32_t cache_row(const append_job *job, int32_t i) {
    return qsa_cell_row(job->cache, qsa_page_table(job->cache, job->plan->batch->sequences[i]),
                        job->plan->cells[i] - 1);
}

static void append_row(const append_job *job, int32_t i, uint64_t *events) {
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    int32_t positions[3];
    qsa_row_positions(job->plan->batch, i, positions);
    const qsa_angles_args angles = angles_of(job, positions, cosine, sine);
    job->context->kernels.angles(&angles);
    append_kv(job, i, cache_row(job, i), cosine, sine, events);
    keep_raw(job, i, positions);
    if (job->plan->cells[i] % job->layer->geometry.ratio == 0)
        append_block(job, i, events);
}

// The wave's row of batch row i, or null; both ascend.
static const qsa_wave_row *wave_row_of(const qsa_wave *wave, int32_t i) {
    int32_t low = 0, high = wave ? wave->count : 0;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (wave->rows[middle].batch_row < i)
            low = middle + 1;
        else
            high = middle;
    }
    return wave && low < wave->count && wave->rows[low].batch_row == i ? &wave->rows[low] : NULL;
}

// append_row and, if the row is in the wave, its queries, by the fused kernel.
static void prep_row(const append_job *job, int32_t i, uint64_t *events) {
    const qsa_batch *batch = job->plan->batch;
    const int32_t heads = job->layer->geometry.kv_heads, row = cache_row(job, i);
    const int completes = job->plan->cells[i] % job->layer->geometry.ratio == 0;
    const qsa_wave_row *queries = wave_row_of(job->wave, i);
    qsa_raw_key keys[QSA_MAX_RATIO];
    int32_t positions[3], block_positions[3];
    qsa_row_positions(batch, i, positions);
    qsa_prep_token_args args = {.angles = angles_of(job, positions, NULL, NULL),
                                .k = key_of(job, i, 0, NULL),
                                .k_store = place_of(job, row, 0, 0, events),
                                .v_store = place_of(job, row, 0, 1, events),
                                .block_positions = block_positions};
    args.k.vectors = args.v_store.vectors = heads;
    args.v_store.x = qsa_row_at(&batch->v, i, 0);
    args.v_store.type = batch->v.type;
    args.v_store.x_stride = batch->v.head_stride;
    if (queries) {
        args.q = qsa_wave_query(job->wave, queries, 0);
        args.index_q = qsa_wave_query(job->wave, queries, 1);
    }
    if (completes)
        args.block = block_of(job, i, keys, block_positions, events);
    job->context->kernels.prep_token(&args);
    keep_raw(job, i, positions);
    if (completes)
        screen_block(job, i);
}

static void run_task(void *arg, int32_t task) {
    const append_job *job = arg;
    uint64_t events[3] = {0};
    const int32_t first = job->first + task * job->each;
    const int32_t end = job->end - first < job->each ? job->end : first + job->each;
    for (int32_t i = first; i < end; i++)
        (job->fused ? prep_row : append_row)(job, i, events);
    for (int e = 0; e < 3; e++)
        if (events[e])
            atomic_fetch_add(&job->cache->events[e], events[e]);
}

void qsa_append(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                const qsa_plan *plan, const qsa_prep_out *out) {
    append_job job = {.context = context,
                      .layer = layer,
                      .cache = cache,
                      .layer_index = layer_index,
                      .plan = plan,
                      .out = out,
                      .end = plan->batch->rows,
                      .each = ROWS_PER_TASK};
    qsa_context_run(context, (job.end + job.each - 1) / job.each, run_task, &job);
    cache->written[layer_index] = 1;
}

void qsa_append_fused(const qsa_wave *wave, qsa_cache *cache, const qsa_plan *plan, int32_t first, int32_t end) {
    append_job job = {.context = wave->context,
                      .layer = wave->layer,
                      .cache = cache,
                      .layer_index = wave->layer_index,
                      .plan = plan,
                      .wave = wave,
                      .first = first,
                      .end = end,
                      .fused = 1};
    const int32_t share = (end - first) / (4 * wave->context->threads);
    job.each = share < 1 ? 1 : share < ROWS_PER_TASK ? share : ROWS_PER_TASK;
    qsa_context_run(wave->context, (end - first + job.each - 1) / job.each, run_task, &job);
    cache->written[wave->layer_index] = 1;
}
