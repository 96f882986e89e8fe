// SPDX-License-Identifier: Apache-2.0
//
// Sessions: opening, the order in which tokens go in, and what the cache holds in the end.
#include "candidates.h"
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

fx_options fx_options_default(void) {
    return (fx_options){.kv_type = QSA_I8,
                        .block_key_type = QSA_F32,
                        .raw_type = QSA_F32,
                        .out_type = QSA_F32,
                        .page_cells = 16,
                        .rollback = 64,
                        .threads = 1,
                        .gate = 1,
                        .seed = 1};
}

qsa_cache_config fx_config(const fx_world *w, const fx_options *o) {
    qsa_cache_config c = {.size = sizeof c,
                          .geometry = w->geometry,
                          .layers = o->layers ? o->layers : w->layers,
                          .kv_type = o->kv_type,
                          .block_key_type = o->block_key_type,
                          .page_cells = o->page_cells,
                          .rollback = o->rollback,
                          .screen = o->screen};
    int32_t pages = 1, longest = 1;
    for (int32_t s = 0; s < w->sequences; s++) {
        pages += (w->length[s] + c.page_cells - 1) / c.page_cells;
        longest = w->length[s] > longest ? w->length[s] : longest;
    }
    c.pages = o->pages ? o->pages : pages;
    c.max_cells = o->max_cells ? o->max_cells : longest;
    c.max_sequences = o->max_sequences ? o->max_sequences : w->sequences;
    return c;
}

qsa_layer *fx_make_layer(qsa_context *context, const fx_world *w, int32_t layer) {
    qsa_layer_config c = {.size = sizeof c,
                          .geometry = w->geometry,
                          .norm_form = QSA_NORM_ZERO_CENTRED,
                          .norm_type = QSA_F32,
                          .q_norm = w->norms[layer][0],
                          .k_norm = w->norms[layer][1],
                          .index_q_norm = w->norms[layer][2],
                          .index_k_norm = w->norms[layer][3]};
    qsa_layer *made = NULL;
    FX_OK(qsa_layer_create(context, &c, &made));
    return made;
}

static void force_kernels(qsa_context *context, const char *where) {
    const char *const stages[] = {"prep", "score", "attend", "merge"}; // topk has one row
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        FX_OK(qsa_context_set_kernel(context, stages[i], where));
}

fx_session fx_open(const fx_world *world, const fx_options *options) {
    fx_session s = {.world = world, .options = *options, .order = rng_make(options->seed)};
    s.layers = options->layers ? options->layers : world->layers;
    qsa_context_config c;
    qsa_context_config_init(&c);
    c.threads = options->threads;
    c.backend = options->backend;
    c.kernel_class = options->fast ? QSA_CLASS_FAST : QSA_CLASS_STRICT;
    c.parallel_for = options->parallel_for;
    c.parallel_user = options->parallel_user;
    if (options->heap)
        c.allocator = heap_hook(options->heap);
    FX_OK(qsa_context_create(&c, &s.context));
    if (options->backend == QSA_BACKEND_CPU)
        use_candidates(s.context);
    if (options->kernels)
        force_kernels(s.context, options->kernels);
    for (int32_t layer = 0; layer < s.layers; layer++)
        s.layer[layer] = fx_make_layer(s.context, world, options->first_layer + layer);
    s.config = fx_config(world, options);
    FX_OK(qsa_cache_create(s.context, &s.config, &s.cache));
    if (options->shuffle_pages)
        rng_shuffle(&s.order, s.cache->config.pages, s.cache->free_list);
    for (int32_t i = 0; i < world->sequences; i++)
        FX_OK(qsa_sequence_create(s.cache, &s.sequence[i]));
    return s;
}

void fx_close(fx_session *s) {
    qsa_cache_destroy(s->cache);
    for (int32_t layer = 0; layer < s->layers; layer++)
        qsa_layer_destroy(s->layer[layer]);
    qsa_context_destroy(s->context);
}

int32_t fx_next(fx_session *s, const int32_t *count, int32_t *tokens) {
    int32_t left[FX_MAX_SEQUENCES] = {0}, rows = 0, n = 0;
    for (int32_t i = 0; i < s->world->sequences; i++)
        n += left[i] = count[i];
    while (rows < n) {
        // A random row of those that are left, so that each sequence's own order is kept.
        int32_t pick = s->options.interleave ? (int32_t)rng_below(&s->order, (uint32_t)(n - rows)) : 0, i = 0;
        while (pick >= left[i])
            pick -= left[i++];
        tokens[rows++] = s->world->first[i] + s->done[i] + count[i] - left[i];
        left[i]--;
    }
    return rows;
}

void fx_step(fx_session *s, const int32_t *count, fx_results *results) {
    int32_t *tokens = fx_alloc((size_t)s->world->tokens * sizeof *tokens);
    const int32_t rows = fx_next(s, count, tokens);
    for (int32_t layer = 0; layer < s->layers; layer++) {
        fx_batch batch = fx_batch_make(s, s->options.first_layer + layer, rows, tokens);
        fx_compute(s, layer, &batch, results);
        fx_batch_free(&batch);
    }
    FX_OK(qsa_cache_commit(s->cache));
    for (int32_t i = 0; i < s->world->sequences; i++)
        s->done[i] += count[i];
    free(tokens);
}

void fx_run_on(fx_session *s, fx_results *results) {
    const fx_world *w = s->world;
    for (int more = 1; more;) {
        int32_t count[FX_MAX_SEQUENCES] = {0};
        more = 0;
        for (int32_t i = 0; i < w->sequences && !(more && !s->options.interleave); i++) {
            const int32_t left = w->length[i] - s->done[i], chunk = s->options.chunk;
            count[i] = chunk && chunk < left ? chunk : left;
            more |= left > 0;
        }
        if (more)
            fx_step(s, count, results);
    }
}

void fx_read(const fx_session *s, fx_results *r) {
    const fx_world *w = s->world;
    const qsa_geometry *g = &w->geometry;
    const int i8 = s->config.kv_type == QSA_I8;
    for (int32_t layer = 0; layer < s->layers; layer++)
        for (int32_t i = 0; i < w->sequences; i++) {
            int32_t n;
            FX_OK(qsa_sequence_length(s->cache, s->sequence[i], &n));
            const int32_t open = n % g->ratio;
            const size_t heads = (size_t)n * (size_t)g->kv_heads, dim = (size_t)g->index_dim;
            const size_t kv = heads * qsa_kv_row_bytes(&s->config);
            const size_t scales = i8 ? heads * (size_t)qsa_groups(g->head_dim) * 2 : 0;
            const size_t blocks = (size_t)(n / g->ratio) * dim * fx_element(s->config.block_key_type);
            const size_t raw = (size_t)open * dim * 4, positions = (size_t)open * 3 * 4;
            // Raw keys and positions first: they need the alignment.
            unsigned char *at = fx_alloc(raw + positions + 2 * (kv + scales) + blocks);
            const int32_t world_layer = s->options.first_layer + layer;
            free(r->stored[world_layer][i]);
            r->stored[world_layer][i] = at;
            r->stored_bytes[world_layer][i] = raw + positions + 2 * (kv + scales) + blocks;
            qsa_cells tail = {.size = sizeof tail, .index_keys = (void *)at, .positions = (void *)(at + raw)};
            FX_OK(qsa_cache_read(s->cache, layer, s->sequence[i], n - open, open, &tail));
            at += raw + positions;
            qsa_cells cells = {.size = sizeof cells, .k = at, .v = at + kv, .block_keys = at + 2 * (kv + scales)};
            cells.k_scales = i8 ? (uint16_t *)(at + 2 * kv) : NULL;
            cells.v_scales = i8 ? (uint16_t *)(at + 2 * kv + scales) : NULL;
            FX_OK(qsa_cache_read(s->cache, layer, s->sequence[i], 0, n, &cells));
        }
}

fx_results *fx_run(const fx_world *world, const fx_options *options) {
    fx_session s = fx_open(world, options);
    fx_results *r = fx_results_make(&s);
    fx_run_on(&s, r);
    fx_read(&s, r);
    fx_close(&s);
    return r;
}

unsigned char *fx_cache_bytes(const qsa_cache *cache, size_t *bytes) {
    const qsa_layout *l = &cache->layout;
    *bytes = l->total;
    unsigned char *copy = fx_alloc(l->total);
    memcpy(copy, cache->base, l->total);
    memset(copy + l->counts, 0, (size_t)cache->config.max_sequences * sizeof(int32_t));
    memset(copy + l->last_row, 0, (size_t)cache->config.max_sequences * sizeof(int32_t));
    memset(copy + l->records, 0, (size_t)cache->config.max_sequences * sizeof(qsa_snapshot_record));
    return copy;
}
