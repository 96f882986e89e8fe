// SPDX-License-Identifier: Apache-2.0
//
// The phases of a wave: how each kernel's work is cut into tasks. Cuts never change a bit: a score, a record and an output
// element are each made by one task, in the contract's order.

#include "api/wave.h"

enum {
    BLOCKS_PER_TASK = 4096,
    // Neighbouring rows attend much the same cells in ascending order: one after the other on some of them, the later ones
    // find the keys and values in L2 (i8, 256 dims: 8 chunks are 264 KiB).
    TILE_CHUNKS = 8,
};

qsa_norm_rope_args qsa_wave_query(const qsa_wave *wave, const qsa_wave_row *row, int index) {
    const qsa_geometry *g = wave->geometry;
    const qsa_rows *source = index ? &wave->batch->index_q : &wave->batch->q;
    const int32_t dim = index ? g->index_dim : g->head_dim;
    float *out = index ? row->index_q : row->q;
    return (qsa_norm_rope_args){.x = out ? qsa_row_at(source, row->batch_row, 0) : NULL,
                                .type = source->type,
                                .x_stride = source->head_stride,
                                .vectors = index ? g->index_heads : g->heads,
                                .dim = dim,
                                .half = g->rotary_dim / 2,
                                .factor = index ? wave->layer->iq_factor : wave->layer->q_factor,
                                .eps = g->eps,
                                .out = out,
                                .out_stride = dim};
}

static void queries_of_row(void *arg, int32_t i) {
    const qsa_wave *wave = arg;
    const qsa_wave_row *row = &wave->rows[i];
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    int32_t positions[3];
    qsa_row_positions(wave->batch, row->batch_row, positions);
    qsa_angles_args angles = {.inv_freq = wave->layer->inv_freq,
                              .axis = wave->layer->axis,
                              .positions = positions,
                              .half = wave->geometry->rotary_dim / 2,
                              .cosine = cosine,
                              .sine = sine};
    wave->context->kernels.angles(&angles);
    for (int index = 0; index < 2; index++) {
        qsa_norm_rope_args args = qsa_wave_query(wave, row, index);
        args.cosine = cosine;
        args.sine = sine;
        if (args.x)
            wave->context->kernels.norm_rope(&args);
    }
}

void qsa_wave_queries(qsa_wave *wave) {
    qsa_context_run(wave->context, wave->count, queries_of_row, wave);
}

// Blocks of a row that are scored.
static int32_t scored_blocks(const qsa_wave *wave, const qsa_wave_row *row) {
    return !row->scores ? 0 : row->blocks ? row->candidates : row->n / wave->geometry->ratio;
}

// Task t scores blocks t / rows * BLOCKS_PER_TASK .. of row t % rows.
static void score_span(void *arg, int32_t task) {
    const qsa_wave *wave = arg;
    const qsa_wave_row *row = &wave->rows[task % wave->count];
    const qsa_cache *cache = wave->cache;
    const int32_t blocks = scored_blocks(wave, row);
    const int64_t first = (int64_t)(task / wave->count) * BLOCKS_PER_TASK;
    if (first >= blocks)
        return;
    qsa_score_args args = {.index_q = row->index_q,
                           .heads = wave->geometry->index_heads,
                           .dim = wave->geometry->index_dim,
                           .divisor = sqrtf((float)wave->geometry->index_dim),
                           .block_keys = qsa_cache_blocks(cache, wave->layer_index),
                           .format = cache->config.block_key_type,
                           .page_table = qsa_page_table(cache, row->sequence),
                           .page_blocks = cache->page_blocks,
                           .first = (int32_t)first,
                           .end = blocks - first < BLOCKS_PER_TASK ? blocks : (int32_t)first + BLOCKS_PER_TASK,
                           .scores = row->scores + first,
                           .blocks = row->blocks};
    wave->context->kernels.score(&args);
}

void qsa_wave_score(qsa_wave *wave) {
    int32_t spans = 0;
    for (int32_t i = 0; i < wave->count; i++) {
        const int32_t blocks = scored_blocks(wave, &wave->rows[i]);
        const int32_t wanted = (blocks + BLOCKS_PER_TASK - 1) / BLOCKS_PER_TASK;
        spans = wanted > spans ? wanted : spans;
    }
    qsa_context_run(wave->context, spans * wave->count, score_span, wave);
}

int32_t qsa_take(const qsa_geometry *g, qsa_rule rule, int32_t n, int32_t *cut_cells) {
    // cut: budget + r - 1 cells less the tail are K whole blocks and r - 1 - tail cells of the next.
    *cut_cells = rule == QSA_RULE_CUT ? g->ratio - 1 - n % g->ratio : 0;
    return g->budget / g->ratio + (*cut_cells > 0 ? 1 : 0);
}

static void select_row(void *arg, int32_t i) {
    const qsa_wave *wave = arg;
    qsa_wave_row *row = &wave->rows[i];
    const int32_t blocks = row->n / wave->geometry->ratio;
    if (row->given)
        return;
    row->cut_index = -1;
    row->cut_cells = 0;
    if (qsa_below_budget(wave->geometry, row->n)) {
        row->count = blocks;
        for (int32_t b = 0; row->ids && b < blocks; b++)
            row->ids[b] = b;
        return;
    }
    int32_t cut_cells, last = 0;
    row->count = qsa_take(wave->geometry, wave->rule, row->n, &cut_cells);
    qsa_topk_args args = {
        .scores = row->scores, .blocks = scored_blocks(wave, row), .take = row->count, .ids = row->ids, .last = &last};
    wave->context->kernels.topk(&args);
    for (int32_t k = 0; row->blocks && k < row->count; k++)
        row->ids[k] = row->blocks[row->ids[k]]; // candidates ascend, so their order among equals is the blocks'
    if (cut_cells > 0) {
        row->cut_index = last;
        row->cut_cells = cut_cells;
    }
}

void qsa_wave_select(qsa_wave *wave) {
    qsa_context_run(wave->context, wave->count, select_row, wave);
}

static void list_row(void *arg, int32_t i) {
    const qsa_wave *wave = arg;
    qsa_wave_row *row = &wave->rows[i];
    const int32_t ratio = wave->geometry->ratio, n = row->n;
    const int32_t *table = qsa_page_table(wave->cache, row->sequence);
    int32_t at = 0;
    if (qsa_below_budget(wave->geometry, n)) { // ids are not read
        for (int32_t cell = 0; cell < n; cell++)
            row->list[at++] = qsa_cell_row(wave->cache, table, cell);
    } else {
        for (int32_t k = 0; k < row->count; k++) {
            const int32_t first = qsa_cell_row(wave->cache, table, row->ids[k] * ratio);
            const int32_t cells = k == row->cut_index ? row->cut_cells : ratio;
            for (int32_t c = 0; c < cells; c++) // a block lies inside one page
                row->list[at++] = first + c;
        }
        for (int32_t cell = n - n % ratio; cell < n; cell++)
            row->list[at++] = qsa_cell_row(wave->cache, table, cell);
    }
    row->selected = at;
}

void qsa_wave_list(qsa_wave *wave) {
    qsa_context_run(wave->context, wave->count, list_row, wave);
}

typedef struct attend_job {
    const qsa_wave *wave;
    int32_t span; // chunks per task
} attend_job;

// Task t: row t % rows, KV head t / rows % kv_heads, chunks from t / rows / kv_heads * span on.
static void attend_span(void *arg, int32_t task) {
    const attend_job *job = arg;
    const qsa_wave *wave = job->wave;
    const qsa_cache *cache = wave->cache;
    const qsa_geometry *g = wave->geometry;
    const qsa_wave_row *row = &wave->rows[task % wave->count];
    const int32_t head = task / wave->count % g->kv_heads, heads = g->heads / g->kv_heads;
    const int64_t first = (int64_t)(task / wave->count / g->kv_heads) * job->span * QSA_CHUNK;
    if (first >= row->selected)
        return;
    const int64_t rest = row->selected - first, most = (int64_t)job->span * QSA_CHUNK;
    const size_t offset = (size_t)head * (size_t)cache->config.page_cells;
    const size_t bytes = offset * qsa_kv_row_bytes(&cache->config), groups = offset * (size_t)qsa_groups(g->head_dim);
    const int i8 = cache->config.kv_type == QSA_I8;
    qsa_attend_args args = {.q = row->q + (int64_t)head * heads * g->head_dim,
                            .heads = heads,
                            .dim = g->head_dim,
                            .scale = qsa_attend_scale(g->head_dim),
                            .format = cache->config.kv_type,
                            .k = qsa_cache_k(cache, wave->layer_index) + bytes,
                            .v = qsa_cache_v(cache, wave->layer_index) + bytes,
                            .k_scales = i8 ? qsa_cache_k_scales(cache, wave->layer_index) + groups : NULL,
                            .v_scales = i8 ? qsa_cache_v_scales(cache, wave->layer_index) + groups : NULL,
                            .cells = row->list + first,
                            .count = (int32_t)(rest < most ? rest : most),
                            .chunk_stride = (int64_t)g->heads * (2 + g->head_dim)};
    args.records = row->records + first / QSA_CHUNK * args.chunk_stride + (int64_t)head * heads * (2 + g->head_dim);
    wave->context->kernels.attend(&args);
}

void qsa_wave_attend(qsa_wave *wave) {
    int32_t chunks = 0;
    for (int32_t i = 0; i < wave->count; i++) {
        const int32_t wanted = qsa_chunks_of(wave->rows[i].selected);
        chunks = wanted > chunks ? wanted : chunks;
    }
    if (chunks == 0)
        return;
    // Whole rows per task where there are enough of them, else some four tasks per thread.
    const int64_t pairs = (int64_t)wave->count * wave->geometry->kv_heads;
    int64_t spans = pairs >= wave->context->threads ? 1 : (4 * (int64_t)wave->context->threads + pairs - 1) / pairs;
    attend_job job = {wave, (int32_t)((chunks + spans - 1) / spans)};
    if (wave->count > 1 && job.span > TILE_CHUNKS)
        job.span = TILE_CHUNKS;
    spans = (chunks + job.span - 1) / job.span;
    qsa_context_run(wave->context, (int32_t)(spans * pairs), attend_span, &job);
}

// Task t merges the heads of KV head t / rows of row t % rows.
static void merge_heads(void *arg, int32_t task) {
    const qsa_wave *wave = arg;
    const qsa_geometry *g = wave->geometry;
    const qsa_wave_row *row = &wave->rows[task % wave->count];
    const int32_t heads = g->heads / g->kv_heads, first = task / wave->count * heads;
    const qsa_rows_out *out = wave->out;
    const qsa_rows *gate = &wave->batch->gate;
    qsa_merge_args args = {.records = row->records + (int64_t)first * (2 + g->head_dim),
                           .chunk_stride = (int64_t)g->heads * (2 + g->head_dim),
                           .chunks = qsa_chunks_of(row->selected),
                           .heads = heads,
                           .dim = g->head_dim,
                           .gate = gate->data ? qsa_row_at(gate, row->batch_row, first) : NULL,
                           .gate_type = gate->type,
                           .gate_stride = gate->head_stride,
                           .out =
                               (unsigned char *)out->data + row->batch_row * out->row_stride + first * out->head_stride,
                           .out_type = out->type,
                           .out_stride = out->head_stride,
                           .lse = wave->lse ? wave->lse + (int64_t)row->batch_row * g->heads + first : NULL};
    wave->context->kernels.merge(&args);
}

void qsa_wave_merge(qsa_wave *wave) {
    qsa_context_run(wave->context, wave->count * wave->geometry->kv_heads, merge_heads, wave);
}
