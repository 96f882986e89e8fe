// SPDX-License-Identifier: Apache-2.0
//
// Histories: the state of every sequence against a cache into which its tokens went from nothing, and the pool's books.
#include "history.h"
#include "host/host_call.h"

#include <stdlib.h>
#include <string.h>

// Everything of one sequence and layer that can be read, and what its rows would get.
typedef struct picture {
    size_t bytes;
    unsigned char *all;
} picture;

// A fresh cache with other pages and, where it may, other settings.
static qsa_cache *replay_cache(hx_state *h) {
    qsa_cache_config c = h->setup.cache;
    c.page_cells = c.geometry.ratio * rng_range(&h->random, 1, 9);
    c.max_cells = HX_MAX_CELLS + 8;
    c.pages = c.max_cells / c.page_cells + 1;
    c.max_sequences = 1;
    c.rollback = 64;
    c.screen = (int32_t)rng_below(&h->random, 2);
    if (hx_backend == QSA_BACKEND_CUDA)
        c.screen = 0;
    qsa_cache *cache = NULL;
    FX_OK(qsa_cache_create(h->context, &c, &cache));
    return cache;
}

static void replay(hx_state *h, const hx_slot *s, qsa_cache *cache, int32_t *sequence) {
    FX_OK(qsa_sequence_create(cache, sequence));
    for (int32_t done = 0; done < s->length;) {
        hx_rows rows = {.count = rng_range(&h->random, 1, 64)};
        rows.count = rows.count < s->length - done ? rows.count : s->length - done;
        for (int32_t i = 0; i < rows.count; i++) {
            rows.sequences[i] = *sequence;
            rows.tokens[i] = s->tokens[done + i];
            rows.cells[i] = done + i;
        }
        for (int32_t layer = 0; layer < HX_LAYERS; layer++)
            FX_OK(hx_forward(h, cache, layer, &rows, NULL, NULL, NULL));
        FX_OK(qsa_cache_commit(cache));
        done += rows.count;
    }
}

// Cells, block keys, and the raw index keys of the open block, of a layer.
static picture read_cells(hx_state *h, const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t n) {
    const qsa_geometry *g = &h->setup.geometry;
    const int i8 = h->setup.cache.kv_type == QSA_I8;
    const int32_t open = n % g->ratio;
    const size_t heads = (size_t)n * (size_t)g->kv_heads, kv = heads * qsa_kv_row_bytes(&h->setup.cache);
    const size_t scales = i8 ? heads * (size_t)qsa_groups(g->head_dim) * 2 : 0, dim = (size_t)g->index_dim;
    const size_t blocks = (size_t)(n / g->ratio) * dim * fx_element(h->setup.cache.block_key_type);
    const size_t raw = (size_t)open * dim * 4, positions = (size_t)open * 3 * 4;
    picture p = {.bytes = raw + positions + 2 * (kv + scales) + blocks};
    unsigned char *at = p.all = fx_alloc(p.bytes);
    qsa_cells tail = {.size = sizeof tail, .index_keys = (void *)at, .positions = (void *)(at + raw)};
    HX_OK(h, qsa_cache_read(cache, layer, sequence, n - open, open, &tail));
    at += raw + positions;
    qsa_cells cells = {.size = sizeof cells, .k = at, .v = at + kv, .block_keys = at + 2 * (kv + scales)};
    cells.k_scales = i8 ? (uint16_t *)(void *)(at + 2 * kv) : NULL;
    cells.v_scales = i8 ? (uint16_t *)(void *)(at + 2 * kv + scales) : NULL;
    HX_OK(h, qsa_cache_read(cache, layer, sequence, 0, n, &cells));
    return p;
}

// Scores, selection and records of a query over the committed cells.
static picture read_stages(hx_state *h, const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t n) {
    const qsa_geometry *g = &h->setup.geometry;
    const size_t blocks = (size_t)(n / g->ratio), chunks = (size_t)qsa_max_chunks(g);
    const size_t record = (size_t)g->heads * (size_t)(2 + g->head_dim), ids = (size_t)(g->budget / g->ratio);
    picture p = {.bytes = (blocks + chunks * record + ids + 2) * 4};
    float *scores = fx_alloc(p.bytes), *records = scores + blocks;
    int32_t *list = (int32_t *)(void *)(records + chunks * record), *count = list + ids, *written = count + 1;
    p.all = (unsigned char *)scores;
    const qsa_row_set set = {sizeof set, 1, &sequence, &n};
    qsa_selection selection = {.size = sizeof selection, .ids = list, .stride = (int64_t)ids, .count = count};
    const float *iq = fx_values(h->world, layer, FX_INDEX_Q, n % HX_TOKENS);
    const float *q = fx_values(h->world, layer, FX_Q, n % HX_TOKENS);
    const int64_t stride = (int64_t)(chunks * record);
    if (host_is_device(h->context)) {
        HX_OK(h, host_score(h->context, g, cache, layer, &set, iq, scores, (int64_t)blocks));
        HX_OK(h, host_topk(h->context, g, QSA_RULE_OFFICIAL, 1, &n, scores, (int64_t)blocks, &selection));
        HX_OK(h, host_attend(h->context, g, cache, layer, &set, q, &selection, records, stride, written));
        return p;
    }
    size_t bytes;
    FX_OK(qsa_workspace_size(h->context, cache, QSA_STAGE_ATTEND, 1, &bytes));
    void *workspace = fx_alloc(bytes);
    HX_OK(h, qsa_score(h->context, cache, layer, &set, iq, scores, (int64_t)blocks, workspace, bytes));
    HX_OK(h, qsa_topk(h->context, g, QSA_RULE_OFFICIAL, 1, &n, scores, (int64_t)blocks, &selection));
    HX_OK(h, qsa_attend(h->context, cache, layer, &set, q, &selection, records, stride, written, workspace, bytes));
    free(workspace);
    return p;
}

// Outputs, selections and log-sum-exps of a probe batch, discarded again. No picture where there is no room for it.
static picture read_probe(hx_state *h, qsa_cache *cache, int32_t sequence, const hx_slot *s) {
    enum { PROBES = 3 };
    const qsa_geometry *g = &h->setup.geometry;
    const size_t row = (size_t)g->heads * (size_t)g->head_dim, ids = (size_t)(g->budget / g->ratio);
    const size_t layer_bytes = PROBES * (row + (size_t)g->heads + ids + 1) * 4;
    picture p = {.bytes = HX_LAYERS * layer_bytes};
    hx_rows rows = {.count = PROBES};
    if (s->length + PROBES > h->setup.cache.max_cells)
        return (picture){0};
    for (int32_t i = 0; i < PROBES; i++) {
        rows.sequences[i] = sequence;
        rows.tokens[i] = (s->length + 11 * i) % HX_TOKENS;
        rows.cells[i] = s->length + i;
    }
    p.all = fx_alloc(p.bytes);
    for (int32_t layer = 0; layer < HX_LAYERS; layer++) {
        float *out = (float *)(void *)(p.all + (size_t)layer * layer_bytes), *lse = out + PROBES * row;
        int32_t *list = (int32_t *)(void *)(lse + (size_t)PROBES * (size_t)g->heads);
        qsa_selection give = {.size = sizeof give, .ids = list, .stride = (int64_t)ids, .count = list + PROBES * ids};
        const qsa_status status = hx_forward(h, cache, layer, &rows, out, &give, lse);
        if (status == QSA_ERR_CAPACITY && layer == 0) { // no page
            free(p.all);
            return (picture){0};
        }
        HX_OK(h, status);
    }
    HX_OK(h, qsa_cache_discard(cache));
    return p;
}

static void compare(hx_state *h, int slot, const char *what, picture got, picture want) {
    if (got.all && want.all && (got.bytes != want.bytes || memcmp(got.all, want.all, got.bytes) != 0))
        hx_fail(h, "%s of slot %d (%d cells) are not those of its replay", what, slot, (int)h->slots[slot].length);
    free(got.all);
    free(want.all);
}

static void check_slot(hx_state *h, int slot) {
    const hx_slot *s = &h->slots[slot];
    int32_t length = -1, fresh = 0;
    HX_OK(h, qsa_sequence_length(h->cache, s->number, &length));
    if (length != s->length)
        hx_fail(h, "slot %d has %d cells, not %d", slot, (int)length, (int)s->length);
    if (h->failure[0])
        return;
    qsa_cache *cache = replay_cache(h);
    replay(h, s, cache, &fresh);
    for (int32_t layer = 0; layer < HX_LAYERS && !h->failure[0]; layer++) {
        compare(h, slot, "cells", read_cells(h, h->cache, layer, s->number, length),
                read_cells(h, cache, layer, fresh, length));
        compare(h, slot, "scores, selection and records", read_stages(h, h->cache, layer, s->number, length),
                read_stages(h, cache, layer, fresh, length));
    }
    compare(h, slot, "outputs and selections of a probe batch", read_probe(h, h->cache, s->number, s),
            read_probe(h, cache, fresh, s));
    qsa_cache_destroy(cache);
}

void hx_check(hx_state *h) {
    qsa_cache_info before = {.size = sizeof before}, after = {.size = sizeof after};
    FX_OK(qsa_cache_get_info(h->cache, &before));
    for (int i = 0; i < HX_SLOTS && !h->failure[0]; i++)
        if (h->slots[i].alive)
            check_slot(h, i);
    FX_OK(qsa_cache_get_info(h->cache, &after));
    if (before.free_pages != after.free_pages)
        hx_fail(h, "discarded probes changed the free pages from %d to %d", (int)before.free_pages,
                (int)after.free_pages);
    if (h->fault == HX_SOUND) // a control is to be found by what comes out
        hx_invariants(h);
}

void hx_invariants(hx_state *h) {
    const qsa_cache *cache = h->cache;
    const int32_t pages = cache->config.pages;
    uint32_t *users = calloc((size_t)pages, sizeof *users);
    if (!users)
        fx_die(__FILE__, __LINE__, "no memory");
    int32_t alive = 0, unused = 0;
    for (int i = 0; i < HX_SLOTS; i++) {
        alive += h->slots[i].alive;
        for (int32_t p = 0; h->slots[i].alive && p < qsa_pages_for(cache, h->slots[i].length); p++)
            users[qsa_page_table(cache, h->slots[i].number)[p]]++;
    }
    for (int i = 0; i < HX_PREFIXES; i++)
        for (int32_t p = 0; p < h->prefixes[i].pages; p++)
            users[h->prefixes[i].page[p]]++;
    for (int32_t p = 0; p < pages; p++) {
        unused += users[p] == 0;
        if (users[p] != cache->pages[p].references)
            hx_fail(h, "page %d has %u users and %u references", (int)p, (unsigned)users[p],
                    (unsigned)cache->pages[p].references);
    }
    for (int32_t i = 0; i < cache->free_pages; i++)
        if (users[cache->free_list[i]]++)
            hx_fail(h, "page %d is free and has a user, or is free twice", (int)cache->free_list[i]);
    if (cache->free_pages != unused || cache->alive != alive || cache->pending_rows)
        hx_fail(h, "%d of %d unused pages are free, %d of %d sequences alive, %d rows pending", (int)cache->free_pages,
                (int)unused, (int)cache->alive, (int)alive, (int)cache->pending_rows);
    free(users);
}
