// SPDX-License-Identifier: Apache-2.0
//
// Histories: each operation on the cache and on the model. Refusals are predicted where the documents say when they come.
#include "history.h"

#include <string.h>

// How many page tables and holds of the model's have a page.
static int32_t users_of(const hx_state *h, int32_t page) {
    int32_t users = 0;
    for (int i = 0; i < HX_SLOTS; i++)
        for (int32_t p = 0; h->slots[i].alive && p < qsa_pages_for(h->cache, h->slots[i].length); p++)
            users += qsa_page_table(h->cache, h->slots[i].number)[p] == page;
    for (int i = 0; i < HX_PREFIXES; i++)
        for (int32_t p = 0; p < h->prefixes[i].pages; p++)
            users += h->prefixes[i].page[p] == page;
    return users;
}

// Whether the pages suffice for these rows, by the documents.
static int fits(hx_state *h, const int32_t *rows) {
    int32_t needed = 0, copies = 0;
    for (int i = 0; i < HX_SLOTS; i++) {
        const hx_slot *s = &h->slots[i];
        const int32_t cells = h->setup.cache.page_cells;
        if (!rows[i])
            continue;
        needed += qsa_pages_for(h->cache, s->length + rows[i]) - qsa_pages_for(h->cache, s->length);
        copies += s->length % cells && users_of(h, qsa_page_table(h->cache, s->number)[s->length / cells]) > 1;
    }
    qsa_cache_info info = {.size = sizeof info};
    FX_OK(qsa_cache_get_info(h->cache, &info));
    const int enough = needed + copies <= info.free_pages;
    h->counts.copied += enough ? copies : 0;
    return enough;
}

// A batch of rows[i] new tokens of every slot, interleaved.
static void plan_rows(hx_state *h, const int32_t *rows, uint32_t tokens, hx_rows *batch) {
    int32_t left[HX_SLOTS], done[HX_SLOTS] = {0}, total = 0;
    for (int i = 0; i < HX_SLOTS; i++)
        total += left[i] = rows[i];
    batch->count = 0;
    while (batch->count < total) {
        int32_t pick = (int32_t)rng_below(&h->random, (uint32_t)(total - batch->count)), i = 0;
        while (pick >= left[i])
            pick -= left[i++];
        hx_slot *s = &h->slots[i];
        const int32_t cell = s->length + done[i]++;
        left[i]--;
        s->tokens[cell] = (int32_t)((tokens * 31u + (uint32_t)(cell * 7) + (uint32_t)i * 101u) % HX_TOKENS);
        batch->sequences[batch->count] = s->number;
        batch->tokens[batch->count] = s->tokens[cell];
        batch->cells[batch->count++] = cell;
    }
}

// Appends rows[i] to every slot, and accepts accept[i] of them (null: commits all; -1: discards the batch).
static void append(hx_state *h, int32_t *rows, const int32_t *accept, uint32_t tokens) {
    hx_rows batch;
    int32_t total = 0;
    for (int i = 0; i < HX_SLOTS; i++) {
        const hx_slot *s = &h->slots[i];
        const int32_t room = h->setup.cache.max_cells - s->length;
        rows[i] = !s->alive ? 0 : rows[i] < room ? rows[i] : room;
        total += rows[i];
    }
    if (!total)
        return;
    const int room = fits(h, rows);
    plan_rows(h, rows, tokens, &batch);
    for (int32_t layer = 0; layer < HX_LAYERS; layer++) {
        const qsa_status status = hx_forward(h, h->cache, layer, &batch, NULL, NULL, NULL);
        if (status == QSA_ERR_CAPACITY && !room) {
            h->counts.refused++;
            return;
        }
        if (status != QSA_OK || !room)
            hx_fail(h, "forward of %d rows: status %d, pages for it: %d (%s)", (int)total, (int)status, room,
                    qsa_last_error());
    }
    h->acted = 1;
    if (accept && accept[0] < 0) {
        HX_OK(h, qsa_cache_discard(h->cache));
        return;
    }
    int32_t list[HX_SLOTS], part[HX_SLOTS], listed = 0;
    for (int i = 0; accept && i < HX_SLOTS; i++)
        if (rows[i] && accept[i] < rows[i]) {
            list[listed] = h->slots[i].number;
            part[listed++] = accept[i] - (h->fault == HX_ACCEPT_ONE_TOO_FEW && accept[i] > 0);
        }
    const qsa_status status = accept ? qsa_cache_accept(h->cache, listed, list, part) : qsa_cache_commit(h->cache);
    if (status != QSA_OK) { // more than rollback rows back, into a block: then all or nothing
        int far = 0;
        for (int i = 0; accept && i < HX_SLOTS; i++)
            far |= h->setup.cache.rollback >= 0 && rows[i] - accept[i] > h->setup.cache.rollback;
        if (status != QSA_ERR_STATE || !far)
            hx_fail(h, "accept: status %d (%s)", (int)status, qsa_last_error());
        h->counts.refused++;
        HX_OK(h, qsa_cache_discard(h->cache));
        return;
    }
    for (int i = 0; i < HX_SLOTS; i++) {
        hx_slot *s = &h->slots[i];
        const int32_t taken = accept ? accept[i] < rows[i] ? accept[i] : rows[i] : rows[i];
        // Raw index keys reach `rollback` back from the end of the whole batch.
        s->longest = rows[i] && s->length + rows[i] > s->longest ? s->length + rows[i] : s->longest;
        s->length += taken;
    }
}

void hx_settle(hx_state *h, hx_slot *slot) {
    qsa_sequence_info info = {.size = sizeof info};
    HX_OK(h, qsa_sequence_get_info(h->cache, slot->number, &info));
    slot->longest = slot->length;
    slot->floor = info.index_keys_from;
}

static void truncate_to(hx_state *h, hx_slot *s, int32_t cells) {
    const int32_t ratio = h->setup.geometry.ratio, rollback = h->setup.cache.rollback, open = cells - cells % ratio;
    qsa_sequence_info info = {.size = sizeof info};
    HX_OK(h, qsa_sequence_get_info(h->cache, s->number, &info));
    const int exact = cells == open || open >= info.index_keys_from;
    const int promised = cells == open || (open >= s->floor && (rollback < 0 || cells >= s->longest - rollback));
    const qsa_status status = qsa_sequence_truncate(h->cache, s->number, cells);
    if (promised && status != QSA_OK)
        hx_fail(h, "truncate of %d (once %d) to %d is refused: %s", (int)s->length, (int)s->longest, (int)cells,
                qsa_last_error());
    if (status != (exact ? QSA_OK : QSA_ERR_STATE))
        hx_fail(h, "truncate of %d to %d, keys from %d: status %d", (int)s->length, (int)cells,
                (int)info.index_keys_from, (int)status);
    if (status != QSA_OK && h->fault == HX_TRUNCATE_ANYWHERE) {
        qsa_pages_cut(h->cache, s->number, qsa_pages_for(h->cache, cells));
        h->cache->sequences[s->number].length = cells;
        h->cache->sequences[s->number].raw_first = open;
    } else if (status != QSA_OK) {
        h->counts.refused++;
        return;
    }
    h->acted = s->length != cells;
    s->length = cells;
}

static void fork_slot(hx_state *h, hx_slot *from, hx_slot *to) {
    if (!from->alive || to->alive)
        return;
    h->acted = 1;
    *to = *from;
    HX_OK(h, qsa_sequence_fork(h->cache, from->number, &to->number));
    const qsa_cache *cache = h->cache;
    if (h->fault == HX_FORK_WITHOUT_COPY && from->length % cache->config.page_cells)
        cache->pages[qsa_page_table(cache, from->number)[from->length / cache->config.page_cells]].references = 1;
    for (int32_t layer = 0; h->fault == HX_FORK_WITHOUT_RAW && cache->keep && layer < HX_LAYERS; layer++)
        memset(qsa_raw_key_at(cache, qsa_raw_slot(cache, layer, to->number, 0, 0)), 0,
               (size_t)cache->keep * (size_t)cache->config.geometry.index_dim * sizeof(float));
}

static void hold_pages(hx_state *h, const hx_slot *s, hx_prefix *prefix) {
    if (!s->alive || prefix->pages)
        return;
    for (; prefix->pages < s->length / h->setup.cache.page_cells; prefix->pages++)
        HX_OK(h, qsa_page_hold(h->cache, s->number, prefix->pages, &prefix->page[prefix->pages]));
    h->acted = prefix->pages > 0;
    memcpy(prefix->tokens, s->tokens, sizeof prefix->tokens);
}

static void attach_pages(hx_state *h, hx_slot *s, const hx_prefix *prefix, uint32_t c) {
    if (s->alive || !prefix->pages)
        return;
    const int32_t pages = 1 + (int32_t)(c % (uint32_t)prefix->pages);
    *s = (hx_slot){.alive = 1, .length = pages * h->setup.cache.page_cells};
    memcpy(s->tokens, prefix->tokens, sizeof s->tokens);
    HX_OK(h, qsa_sequence_create(h->cache, &s->number));
    HX_OK(h, qsa_sequence_attach(h->cache, s->number, pages, prefix->page));
    hx_settle(h, s);
    h->acted = 1;
}

static void release_pages(hx_state *h, hx_prefix *prefix) {
    h->acted = prefix->pages > 0;
    while (prefix->pages)
        HX_OK(h, qsa_page_release(h->cache, prefix->page[--prefix->pages]));
}

// How many cells lead to a boundary: one less, itself, one more.
static int32_t rows_to_boundary(const hx_state *h, const hx_slot *s, uint32_t b) {
    const qsa_geometry *g = &h->setup.geometry;
    const int32_t steps[] = {g->ratio, h->setup.cache.page_cells, g->budget, g->budget + g->ratio, QSA_CHUNK};
    const int32_t step = steps[b / 3 % 5], next = (s->length / step + 1) * step + (int32_t)(b % 3) - 1;
    const int32_t rows = next - s->length;
    return rows < 0 ? 0 : rows < 64 ? rows : 64;
}

static void no_memory(hx_state *h) {
    qsa_cache *cache = NULL;
    h->memory.fail_at = h->memory.calls;
    if (qsa_cache_create(h->context, &h->setup.cache, &cache) != QSA_ERR_MEMORY || cache)
        hx_fail(h, "a cache was made without memory");
    h->memory.fail_at = -1;
    h->acted = 1;
}

// The first slot from number a on that is alive, or is not; slot a where there is none.
static hx_slot *find_slot(hx_state *h, uint32_t a, int alive) {
    for (uint32_t i = 0; i < HX_SLOTS; i++)
        if (h->slots[(a + i) % HX_SLOTS].alive == alive)
            return &h->slots[(a + i) % HX_SLOTS];
    return &h->slots[a % HX_SLOTS];
}

static void append_some(hx_state *h, const hx_op *op) {
    int32_t rows[HX_SLOTS] = {0}, accept[HX_SLOTS] = {0};
    const hx_slot *s = find_slot(h, op->a, 1);
    const int all = op->kind == HX_APPEND_ALL || op->kind == HX_DRAFT_ALL;
    for (uint32_t i = 0; i < HX_SLOTS; i++) {
        if (!all && &h->slots[i] != s)
            continue;
        rows[i] = 1 + (int32_t)(op->b % 64);
        if (op->kind == HX_APPEND_TO)
            rows[i] = rows_to_boundary(h, s, op->b);
        if (all)
            rows[i] = (int32_t)((op->b >> 3 * i) % 12);
        accept[i] = (int32_t)((op->c >> (all ? 3 * i : 0)) % (uint32_t)(rows[i] + 1));
    }
    if (op->kind == HX_DISCARD)
        accept[0] = -1;
    const int part = op->kind == HX_DRAFT || op->kind == HX_DRAFT_ALL || op->kind == HX_DISCARD;
    append(h, rows, part ? accept : NULL, op->c ^ op->a);
}

static void apply_to_slot(hx_state *h, const hx_op *op, hx_slot *s) {
    if (op->kind == HX_CREATE && !s->alive) {
        *s = (hx_slot){.alive = 1};
        HX_OK(h, qsa_sequence_create(h->cache, &s->number));
        h->acted = 1;
    }
    if (!s->alive)
        return;
    if (op->kind == HX_TRUNCATE) {
        truncate_to(h, s, (int32_t)(op->b % (uint32_t)(s->length + 1)));
    } else if (op->kind == HX_TAKE_BACK) {
        const int32_t back = (int32_t)(op->b % 70);
        truncate_to(h, s, back < s->length ? s->length - back : 0);
    } else if (op->kind == HX_FREE) {
        HX_OK(h, qsa_sequence_destroy(h->cache, s->number));
        s->alive = 0;
        h->acted = 1;
    } else if (op->kind == HX_RESET) {
        HX_OK(h, qsa_sequence_reset(h->cache, s->number));
        s->length = s->longest = s->floor = 0;
        h->acted = 1;
    }
}

void hx_apply(hx_state *h, const hx_op *op) {
    const int made = op->kind == HX_CREATE || op->kind == HX_ATTACH;
    hx_slot *s = find_slot(h, op->a, !made);
    hx_prefix *prefix = &h->prefixes[op->b % HX_PREFIXES];
    h->acted = 0;
    switch (op->kind) {
    case HX_APPEND:
    case HX_APPEND_TO:
    case HX_APPEND_ALL:
    case HX_DRAFT:
    case HX_DRAFT_ALL:
    case HX_DISCARD:
        append_some(h, op);
        break;
    case HX_CREATE:
    case HX_TRUNCATE:
    case HX_TAKE_BACK:
    case HX_FREE:
    case HX_RESET:
        apply_to_slot(h, op, s);
        break;
    case HX_FORK:
        fork_slot(h, s, find_slot(h, op->b, 0));
        break;
    case HX_HOLD:
        hold_pages(h, s, prefix);
        break;
    case HX_ATTACH:
        attach_pages(h, s, prefix, op->c);
        break;
    case HX_RELEASE:
        release_pages(h, prefix);
        break;
    case HX_SAVE:
        hx_save(h, op->a);
        break;
    case HX_LOAD:
        hx_load(h);
        break;
    case HX_LOAD_BROKEN:
        hx_load_broken(h, op->a, op->b);
        break;
    case HX_RESTART:
        hx_restart(h, op->b, op->c);
        break;
    case HX_NO_MEMORY:
        no_memory(h);
        break;
    case HX_KINDS:
        break;
    }
    h->counts.operations[op->kind] += h->acted;
}
