// SPDX-License-Identifier: Apache-2.0
//
// Screened scoring: which blocks of a row may be among its best, from bounds of their scores (docs/numerics.md). Phases of a
// wave in front of score: bounds of all blocks, block ranges on all threads; then the candidates of each row. A row that gets
// none is scored as a whole. Nothing here shows in the selection.

#include "api/forward.h"

enum {
    BLOCKS_PER_TASK = 4096,
    LEAST_BLOCKS = 4, // x take: measured, screening costs a quarter more than it saves at 2 x, and nothing at 4 x
    GROUPS = 8, // x take, of at least two blocks: 1259 candidates of 65,536 instead of 1188, from a 16th of the bounds
};

void qsa_screen_block(const qsa_cache *cache, qsa_screen_key_fn screen_key, int32_t layer, int32_t sequence,
                      int32_t block) {
    if (!cache->config.screen)
        return;
    const size_t page = (size_t)qsa_page_table(cache, sequence)[block / cache->page_blocks];
    const size_t row = page * (size_t)cache->page_blocks + (size_t)(block % cache->page_blocks);
    const int32_t dim = cache->config.geometry.index_dim;
    const qsa_screen_key_args args = {.key = qsa_block_key(cache, layer, sequence, block),
                                      .format = cache->config.block_key_type,
                                      .dim = dim,
                                      .codes =
                                          qsa_cache_screen_codes(cache, layer) + row * (size_t)qsa_screen_stride(dim),
                                      .scale = qsa_cache_screen_scales(cache, layer) + row,
                                      .residual = qsa_cache_screen_residuals(cache, layer) + row};
    screen_key(&args);
}

// Rows whose bounds are to be computed have blocks set, to where the candidates will be.
static void prepare_row(void *arg, int32_t i) {
    const qsa_wave *wave = arg;
    const qsa_geometry *g = wave->geometry;
    qsa_wave_row *row = &wave->rows[i];
    int32_t cut_cells, usable = 0;
    row->blocks = NULL;
    if (!row->scores || !row->lower || qsa_below_budget(g, row->n) ||
        row->n / g->ratio / LEAST_BLOCKS < qsa_take(g, wave->rule, row->n, &cut_cells))
        return;
    const qsa_screen_query_args args = {.index_q = row->index_q,
                                        .heads = g->index_heads,
                                        .dim = g->index_dim,
                                        .codes = row->screen_codes,
                                        .scales = row->screen_scales,
                                        .bound = row->screen_bound,
                                        .usable = &usable};
    wave->context->kernels.screen_query(&args);
    // Candidates replace the lower bounds, exact scores the upper ones.
    row->blocks = usable ? (int32_t *)(void *)row->lower : NULL;
}

// Task t bounds blocks t / rows * BLOCKS_PER_TASK .. of row t % rows.
static void bound_span(void *arg, int32_t task) {
    const qsa_wave *wave = arg;
    const qsa_wave_row *row = &wave->rows[task % wave->count];
    const qsa_cache *cache = wave->cache;
    const int32_t blocks = row->n / wave->geometry->ratio;
    const int64_t first = (int64_t)(task / wave->count) * BLOCKS_PER_TASK;
    if (!row->blocks || first >= blocks)
        return;
    const qsa_screen_args args = {.codes = row->screen_codes,
                                  .scales = row->screen_scales,
                                  .bound = row->screen_bound,
                                  .heads = qsa_screen_heads(wave->geometry->index_heads),
                                  .stride = qsa_screen_stride(wave->geometry->index_dim),
                                  .keys = qsa_cache_screen_codes(cache, wave->layer_index),
                                  .key_scales = qsa_cache_screen_scales(cache, wave->layer_index),
                                  .residuals = qsa_cache_screen_residuals(cache, wave->layer_index),
                                  .page_table = qsa_page_table(cache, row->sequence),
                                  .page_blocks = cache->page_blocks,
                                  .first = (int32_t)first,
                                  .end = blocks - first < BLOCKS_PER_TASK ? blocks : (int32_t)first + BLOCKS_PER_TASK,
                                  .lower = row->lower + first,
                                  .upper = row->scores + first};
    wave->context->kernels.screen(&args);
}

static void candidates_of_row(void *arg, int32_t i) {
    const qsa_wave *wave = arg;
    qsa_wave_row *row = &wave->rows[i];
    if (!row->blocks)
        return;
    int32_t cut_cells;
    qsa_candidates_args args = {.lower = row->lower,
                                .upper = row->scores,
                                .blocks = row->n / wave->geometry->ratio,
                                .take = qsa_take(wave->geometry, wave->rule, row->n, &cut_cells),
                                .chosen = row->ids,
                                .ids = row->blocks,
                                .count = &row->candidates};
    args.groups = args.blocks / (2 * GROUPS) >= args.take ? GROUPS * args.take : args.blocks;
    wave->context->kernels.candidates(&args);
}

void qsa_wave_screen(qsa_wave *wave) {
    if (!wave->cache->config.screen)
        return;
    qsa_context_run(wave->context, wave->count, prepare_row, wave);
    int32_t spans = 0;
    for (int32_t i = 0; i < wave->count; i++) {
        const int32_t blocks = wave->rows[i].blocks ? wave->rows[i].n / wave->geometry->ratio : 0;
        const int32_t wanted = (blocks + BLOCKS_PER_TASK - 1) / BLOCKS_PER_TASK;
        spans = wanted > spans ? wanted : spans;
    }
    if (spans == 0)
        return;
    qsa_context_run(wave->context, spans * wave->count, bound_span, wave);
    qsa_context_run(wave->context, wave->count, candidates_of_row, wave);
}

static void give_row(const qsa_wave_row *row, int32_t i, qsa_selection *selection, int32_t *candidates) {
    memcpy(selection->ids + i * selection->stride, row->ids, (size_t)row->count * sizeof(int32_t));
    selection->count[i] = row->count;
    if (selection->cut_index) {
        selection->cut_index[i] = row->cut_index;
        selection->cut_cells[i] = row->cut_cells;
    }
    if (candidates)
        candidates[i] = row->blocks ? row->candidates : -1;
}

void qsa_choose(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                const float *index_q, qsa_rule rule, qsa_selection *selection, int32_t *candidates, void *workspace) {
    const qsa_geometry *g = &cache->config.geometry;
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, rows->rows, &l);
    unsigned char *memory = qsa_align(workspace);
    qsa_wave wave = {.context = context, .cache = cache, .layer_index = layer_index, .geometry = g, .rule = rule};
    wave.rows = (qsa_wave_row *)memory;
    for (int32_t first = 0; first < rows->rows; first += l.rows) {
        wave.count = rows->rows - first < l.rows ? rows->rows - first : l.rows;
        for (int32_t w = 0; w < wave.count; w++) {
            const int64_t i = first + w;
            wave.rows[w] = (qsa_wave_row){.sequence = rows->sequences[i], .n = rows->cells[i]};
            qsa_wave_place(&wave, &l, memory, w);
            wave.rows[w].index_q = (float *)index_q + i * g->index_heads * g->index_dim; // read only
            if (qsa_below_budget(g, rows->cells[i]))
                wave.rows[w].scores = NULL;
        }
        qsa_wave_screen(&wave);
        qsa_wave_score(&wave);
        qsa_wave_select(&wave);
        for (int32_t w = 0; w < wave.count; w++)
            give_row(&wave.rows[w], first + w, selection, candidates);
    }
}
