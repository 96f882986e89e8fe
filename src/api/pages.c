// SPDX-License-Identifier: Apache-2.0
//
// The pool of pages: references, copies, forks, and pages held for an engine's prefix cache. A page that more than one
// refers to is never written, so a reader of one sequence never sees the writer of another.

#include "api/cache.h"

#include <string.h>

enum { MOST_HOLDS = 1 << 30 }; // of a page, so that references cannot overflow

int32_t qsa_page_take(qsa_cache *cache) {
    const int32_t page = cache->free_list[--cache->free_pages];
    cache->pages[page] = (qsa_page){.references = 1};
    return page;
}

void qsa_page_drop(qsa_cache *cache, int32_t page) {
    if (--cache->pages[page].references == 0)
        cache->free_list[cache->free_pages++] = page;
}

void qsa_pages_cut(qsa_cache *cache, int32_t sequence, int32_t keep) {
    qsa_sequence *s = &cache->sequences[sequence];
    while (s->pages > keep)
        qsa_page_drop(cache, qsa_page_table(cache, sequence)[--s->pages]);
    s->table_known = s->table_known < s->pages ? s->table_known : s->pages;
}

// Entry `index` of the page table is not what it was.
static void table_changed(qsa_sequence *s, int32_t index) {
    s->table_known = s->table_known < index ? s->table_known : index;
}

int qsa_pages_shared_end(const qsa_cache *cache, int32_t sequence) {
    const int32_t length = cache->sequences[sequence].length, page_cells = cache->config.page_cells;
    if (length % page_cells == 0)
        return 0;
    return cache->pages[qsa_page_table(cache, sequence)[length / page_cells]].references > 1;
}

void qsa_pages_own_end(qsa_cache *cache, int32_t sequence) {
    qsa_sequence *s = &cache->sequences[sequence];
    int32_t *end = &qsa_page_table(cache, sequence)[s->length / cache->config.page_cells];
    const int32_t copy = qsa_page_take(cache);
    qsa_page_copy(cache, *end, copy, s->length % cache->config.page_cells);
    s->shared = *end + 1;
    *end = copy;
    table_changed(s, s->length / cache->config.page_cells);
}

void qsa_pages_share_end(qsa_cache *cache, int32_t sequence) {
    qsa_sequence *s = &cache->sequences[sequence];
    int32_t *end = &qsa_page_table(cache, sequence)[s->length / cache->config.page_cells];
    qsa_page_drop(cache, *end);
    *end = s->shared - 1;
    s->shared = 0;
    table_changed(s, s->length / cache->config.page_cells);
}

// Copies `bytes` bytes of item `from` of an array to item `to`.
static void copy_item(const qsa_cache *cache, void *array, size_t from, size_t to, size_t item, size_t bytes) {
    if (bytes)
        qsa_move(cache, (unsigned char *)array + to * item, (unsigned char *)array + from * item, bytes);
}

static void copy_layer(qsa_cache *cache, int32_t layer, size_t from, size_t to, size_t cells) {
    const qsa_cache_config *c = &cache->config;
    const qsa_geometry *g = &c->geometry;
    const size_t heads = (size_t)g->kv_heads, page_cells = (size_t)c->page_cells, blocks = (size_t)cache->page_blocks;
    const size_t row = qsa_kv_row_bytes(c), scales = c->kv_type == QSA_I8 ? (size_t)qsa_groups(g->head_dim) * 2 : 0;
    for (size_t head = 0; head < heads; head++) { // each KV head's cells of a page lie together
        const size_t a = from * heads + head, b = to * heads + head;
        copy_item(cache, qsa_cache_k(cache, layer), a, b, page_cells * row, cells * row);
        copy_item(cache, qsa_cache_v(cache, layer), a, b, page_cells * row, cells * row);
        copy_item(cache, qsa_cache_k_scales(cache, layer), a, b, page_cells * scales, cells * scales);
        copy_item(cache, qsa_cache_v_scales(cache, layer), a, b, page_cells * scales, cells * scales);
    }
    const size_t key = (size_t)g->index_dim * (c->block_key_type == QSA_F32 ? 4 : 2), done = cells / (size_t)g->ratio;
    copy_item(cache, qsa_cache_blocks(cache, layer), from, to, blocks * key, done * key);
    if (c->screen) {
        const size_t codes = (size_t)qsa_screen_stride(g->index_dim), f = sizeof(float);
        copy_item(cache, qsa_cache_screen_codes(cache, layer), from, to, blocks * codes, done * codes);
        copy_item(cache, qsa_cache_screen_scales(cache, layer), from, to, blocks * f, done * f);
        copy_item(cache, qsa_cache_screen_residuals(cache, layer), from, to, blocks * f, done * f);
    }
    if (c->rollback == QSA_ROLLBACK_ALL) {
        const size_t first = (size_t)layer * (size_t)c->pages * page_cells, f = (size_t)g->index_dim * sizeof(float);
        const size_t p = 3 * sizeof(int32_t);
        copy_item(cache, qsa_raw_key_at(cache, first), from, to, page_cells * f, cells * f);
        copy_item(cache, qsa_raw_positions_at(cache, first), from, to, page_cells * p, cells * p);
    }
}

void qsa_page_copy(qsa_cache *cache, int32_t from, int32_t to, int32_t cells) {
    for (int32_t layer = 0; layer < cache->config.layers; layer++)
        copy_layer(cache, layer, (size_t)from, (size_t)to, (size_t)cells);
}

// The committed raw index keys of one sequence to another (rollback N): the bank as it is, cell by place.
static void copy_raw_bank(qsa_cache *cache, int32_t from, int32_t to) {
    const size_t keep = (size_t)cache->keep, f = (size_t)cache->config.geometry.index_dim * sizeof(float);
    for (int32_t layer = 0; keep && layer < cache->config.layers; layer++) {
        const size_t a = qsa_raw_slot(cache, layer, from, 0, 0), b = qsa_raw_slot(cache, layer, to, 0, 0);
        qsa_move(cache, qsa_raw_key_at(cache, b), qsa_raw_key_at(cache, a), keep * f);
        qsa_move(cache, qsa_raw_positions_at(cache, b), qsa_raw_positions_at(cache, a), keep * 3 * sizeof(int32_t));
    }
}

qsa_status qsa_sequence_fork(qsa_cache *cache, int32_t source, int32_t *sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_fork: cache is null");
    QSA_REQUIRE_ARG(sequence, "qsa_sequence_fork: sequence is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_fork", cache, source));
    QSA_TRY(qsa_check_no_pending("qsa_sequence_fork", cache, source));
    const int32_t made = qsa_free_sequence(cache);
    QSA_REQUIRE(made >= 0, QSA_ERR_CAPACITY, "qsa_sequence_fork: all %d sequences (max_sequences) are alive",
                (int)cache->config.max_sequences);
    cache->sequences[made] = cache->sequences[source];
    cache->sequences[made].table_known = 0;
    const int32_t *table = qsa_page_table(cache, source);
    for (int32_t i = 0; i < cache->sequences[source].pages; i++) {
        qsa_page_table(cache, made)[i] = table[i];
        cache->pages[table[i]].references++;
    }
    copy_raw_bank(cache, source, made);
    cache->alive++;
    *sequence = made;
    qsa_device_tables_changed(cache);
    return QSA_OK;
}

qsa_status qsa_page_hold(qsa_cache *cache, int32_t sequence, int32_t index, int32_t *page) {
    QSA_REQUIRE_ARG(cache, "qsa_page_hold: cache is null");
    QSA_REQUIRE_ARG(page, "qsa_page_hold: page is null");
    QSA_TRY(qsa_check_sequence("qsa_page_hold", cache, sequence));
    const qsa_sequence *s = &cache->sequences[sequence];
    const int32_t page_cells = cache->config.page_cells, full = s->length / page_cells;
    QSA_REQUIRE_ARG(index >= 0 && index < full,
                    "qsa_page_hold: index is %d, sequence %d of %d cells has %d full pages of %d", (int)index,
                    (int)sequence, (int)s->length, (int)full, (int)page_cells);
    const int32_t number = qsa_page_table(cache, sequence)[index];
    qsa_page *p = &cache->pages[number];
    QSA_REQUIRE(p->holds < MOST_HOLDS, QSA_ERR_CAPACITY, "qsa_page_hold: page %d is held %d times", (int)number,
                (int)p->holds);
    cache->held_pages += p->holds == 0;
    p->references++;
    p->holds++;
    p->index = index;
    p->raw |= cache->config.rollback == QSA_ROLLBACK_ALL && s->raw_first <= index * page_cells;
    *page = number;
    return QSA_OK;
}

static qsa_status check_held(const char *call, const qsa_cache *cache, int32_t page) {
    QSA_REQUIRE_ARG(page >= 0 && page < cache->config.pages, "%s: page %d is outside 0..%d", call, (int)page,
                    (int)cache->config.pages - 1);
    QSA_REQUIRE_ARG(cache->pages[page].holds > 0, "%s: page %d is not held", call, (int)page);
    return QSA_OK;
}

qsa_status qsa_page_release(qsa_cache *cache, int32_t page) {
    QSA_REQUIRE_ARG(cache, "qsa_page_release: cache is null");
    QSA_TRY(check_held("qsa_page_release", cache, page));
    cache->held_pages -= --cache->pages[page].holds == 0;
    qsa_page_drop(cache, page);
    return QSA_OK;
}

qsa_status qsa_sequence_attach(qsa_cache *cache, int32_t sequence, int32_t count, const int32_t *pages) {
    const char *call = "qsa_sequence_attach";
    QSA_REQUIRE_ARG(cache, "qsa_sequence_attach: cache is null");
    QSA_TRY(qsa_check_sequence(call, cache, sequence));
    QSA_REQUIRE_ARG(count >= 0, "%s: count is %d, must not be negative", call, (int)count);
    QSA_REQUIRE_ARG(pages || count == 0, "%s: pages is null", call);
    QSA_TRY(qsa_check_no_pending(call, cache, sequence));
    qsa_sequence *s = &cache->sequences[sequence];
    const int32_t page_cells = cache->config.page_cells;
    QSA_REQUIRE_ARG(s->length % page_cells == 0, "%s: sequence %d has %d cells, no multiple of page_cells %d", call,
                    (int)sequence, (int)s->length, (int)page_cells);
    const int64_t cells = s->length + (int64_t)count * page_cells;
    QSA_REQUIRE(cells <= cache->config.max_cells, QSA_ERR_CAPACITY,
                "%s: sequence %d would have %lld cells, max_cells is %d", call, (int)sequence, (long long)cells,
                (int)cache->config.max_cells);
    for (int32_t i = 0; i < count; i++) {
        QSA_TRY(check_held(call, cache, pages[i]));
        QSA_REQUIRE(
            cache->pages[pages[i]].index == s->pages + i, QSA_ERR_UNSUPPORTED,
            "%s: pages[%d] = %d holds cells from %lld on, which would become cells from %lld on; their keys are "
            "rotated and rounded where they are",
            call, (int)i, (int)pages[i], (long long)cache->pages[pages[i]].index * page_cells,
            (long long)(s->pages + i) * page_cells);
    }
    for (int32_t i = 0; i < count; i++) {
        qsa_page_table(cache, sequence)[s->pages++] = pages[i];
        cache->pages[pages[i]].references++;
        s->length += page_cells;
        if (!cache->pages[pages[i]].raw)
            s->raw_first = s->length;
    }
    qsa_device_tables_changed(cache);
    return QSA_OK;
}
