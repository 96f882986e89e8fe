// SPDX-License-Identifier: Apache-2.0
//
// Histories: saving to memory, loading whole and broken snapshots, and moving all into a cache of other pages.
#include "history.h"

#include <stdlib.h>
#include <string.h>

static int write_saved(void *user, const void *data, size_t bytes) {
    hx_state *h = user;
    while (h->saved_bytes + bytes > h->saved_room) {
        h->saved_room = 2 * h->saved_room + 65536;
        h->saved = realloc(h->saved, h->saved_room);
        if (!h->saved)
            fx_die(__FILE__, __LINE__, "no memory");
    }
    memcpy(h->saved + h->saved_bytes, data, bytes);
    h->saved_bytes += bytes;
    return 0;
}

static int read_saved(void *user, void *data, size_t bytes) {
    hx_state *h = user;
    if (bytes > h->saved_bytes - h->taken)
        return 1;
    memcpy(data, h->saved + h->taken, bytes);
    h->taken += bytes;
    return 0;
}

void hx_save(hx_state *h, uint32_t slots) {
    int32_t list[HX_SLOTS];
    h->saved_bytes = 0;
    h->saved_count = 0;
    const int all = slots % 32 == 0;
    for (int n = 0; n < HX_SLOTS; n++) {
        const int i = all ? n : HX_SLOTS - 1 - n; // a list may be in any order
        if (!h->slots[i].alive || !(all || (slots >> i & 1u)))
            continue;
        list[h->saved_count] = h->slots[i].number;
        h->saved_slots[h->saved_count++] = h->slots[i];
    }
    if (all) { // in ascending numbers
        for (int i = 0; i < h->saved_count; i++)
            for (int j = i + 1; j < h->saved_count; j++)
                if (h->saved_slots[j].number < h->saved_slots[i].number) {
                    const hx_slot swap = h->saved_slots[i];
                    h->saved_slots[i] = h->saved_slots[j];
                    h->saved_slots[j] = swap;
                }
    }
    h->acted = h->saved_count > 0;
    HX_OK(h, qsa_snapshot_save(h->cache, h->saved_count, all ? NULL : list, write_saved, h));
}

// The loaded sequences become slots.
static void place_loaded(hx_state *h, int32_t count, const int32_t *numbers) {
    if (count != h->saved_count || h->taken != h->saved_bytes)
        hx_fail(h, "load made %d of %d sequences from %zu of %zu bytes", (int)count, (int)h->saved_count, h->taken,
                h->saved_bytes);
    int slot = 0;
    for (int32_t k = 0; k < count && k < h->saved_count; k++) {
        while (h->slots[slot].alive)
            slot++;
        h->slots[slot] = h->saved_slots[k];
        h->slots[slot].number = numbers[k];
        hx_settle(h, &h->slots[slot]);
    }
    if (h->fault == HX_LOAD_A_WRONG_CODE && count && h->saved_slots[0].length) {
        const int32_t row = qsa_cell_row(h->cache, qsa_page_table(h->cache, numbers[0]), h->saved_slots[0].length - 1);
        qsa_cache_k(h->cache, 1)[(size_t)row * qsa_kv_row_bytes(&h->cache->config)] ^= 1;
    }
}

void hx_load(hx_state *h) {
    int32_t numbers[HX_SLOTS], count = -1, unused = 0, pages = 0;
    if (!h->saved_bytes)
        return;
    for (int i = 0; i < HX_SLOTS; i++)
        unused += !h->slots[i].alive;
    for (int32_t k = 0; k < h->saved_count; k++)
        pages += qsa_pages_for(h->cache, h->saved_slots[k].length);
    qsa_cache_info before = {.size = sizeof before};
    FX_OK(qsa_cache_get_info(h->cache, &before));
    h->taken = 0;
    const qsa_status status = qsa_snapshot_load(h->cache, read_saved, h, HX_SLOTS, numbers, &count);
    if (status == QSA_OK && h->saved_count <= unused) {
        place_loaded(h, count, numbers);
        h->acted = count > 0;
        return;
    }
    // Without any sharing it would fit: then it must.
    if (status != QSA_ERR_CAPACITY || (h->saved_count <= unused && pages <= before.free_pages))
        hx_fail(h, "load of %d sequences, %d unused: status %d (%s)", (int)h->saved_count, (int)unused, (int)status,
                qsa_last_error());
    h->counts.refused++;
}

void hx_load_broken(hx_state *h, uint32_t a, uint32_t b) {
    int32_t numbers[HX_SLOTS], count = -1;
    if (!h->saved_bytes)
        return;
    const size_t whole = h->saved_bytes, at = (size_t)(a % (uint32_t)whole);
    unsigned char *byte = h->saved + at;
    const unsigned char flip = (unsigned char)(1u << b % 8);
    if (b % 5 == 0)
        h->saved_bytes = at;
    else
        *byte ^= flip;
    h->taken = 0;
    const qsa_status status = qsa_snapshot_load(h->cache, read_saved, h, HX_SLOTS, numbers, &count);
    const int room = status == QSA_ERR_CAPACITY && at >= 104; // found before the damage
    if (status != (b % 5 ? QSA_ERR_DATA : QSA_ERR_IO) && !room)
        hx_fail(h, "a snapshot %s at byte %zu of %zu: status %d (%s)", b % 5 ? "damaged" : "that ends", at, whole,
                (int)status, qsa_last_error());
    if (b % 5 == 0)
        h->saved_bytes = whole;
    else
        *byte ^= flip;
    h->acted = 1;
}

void hx_restart(hx_state *h, uint32_t pages, uint32_t rollback) {
    const int32_t rollbacks[] = {0, 3, 64, QSA_ROLLBACK_ALL};
    int32_t numbers[HX_SLOTS], count = -1;
    qsa_cache_info before = {.size = sizeof before}, after = {.size = sizeof after};
    FX_OK(qsa_cache_get_info(h->cache, &before));
    hx_save(h, 0);
    const hx_setup old = h->setup;
    qsa_cache_config *c = &h->setup.cache;
    if (pages % 3) {
        c->page_cells = c->geometry.ratio * (1 + (int32_t)(pages / 3 % 12));
        c->pages = HX_SLOTS * (c->max_cells / c->page_cells + 1);
        c->rollback = rollbacks[rollback % 4];
        c->screen = hx_backend == QSA_BACKEND_CUDA ? 0 : (int32_t)(rollback / 4 % 2);
    }
    int32_t held = 0;
    for (int i = 0; i < HX_PREFIXES; i++) { // pages are the old cache's
        held += h->prefixes[i].pages;
        h->prefixes[i].pages = 0;
    }
    qsa_cache_destroy(h->cache);
    FX_OK(qsa_cache_create(h->context, c, &h->cache));
    h->taken = 0;
    memset(h->slots, 0, sizeof h->slots);
    HX_OK(h, qsa_snapshot_load(h->cache, read_saved, h, HX_SLOTS, numbers, &count));
    if (h->failure[0])
        return;
    place_loaded(h, count, numbers);
    FX_OK(qsa_cache_get_info(h->cache, &after));
    // The same configuration: pages that were shared are shared again, unless prefixes were attached to others' copies.
    if (!(pages % 3) && old.cache.pages == c->pages && after.free_pages < before.free_pages && !held)
        hx_fail(h, "restarting took %d pages more", (int)(before.free_pages - after.free_pages));
}
