// SPDX-License-Identifier: Apache-2.0
//
// Cells out of one cache and into another, with other pages and other rollback: the copy goes on as the original would,
// also from any shorter length. What no kernel makes (code -128, scales that are no finite positive number) is refused.
// LABELS: small
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

static const int32_t rollbacks[] = {0, 64, QSA_ROLLBACK_ALL};

// Arrays for `count` cells of a session's cache.
typedef struct cell_arrays {
    qsa_cells cells;
    size_t kv, scales, blocks; // bytes
} cell_arrays;

static cell_arrays arrays_make(const fx_session *s, int32_t count, int raw) {
    const qsa_geometry *g = &s->world->geometry;
    const size_t n = (size_t)count, heads = n * (size_t)g->kv_heads;
    const int i8 = s->config.kv_type == QSA_I8;
    cell_arrays a = {.kv = heads * qsa_kv_row_bytes(&s->config),
                     .scales = heads * (size_t)qsa_groups(g->head_dim) * 2,
                     .blocks = (n / (size_t)g->ratio + 2) * (size_t)g->index_dim * 4};
    a.cells = (qsa_cells){.size = sizeof a.cells,
                          .k = fx_alloc(a.kv),
                          .v = fx_alloc(a.kv),
                          .k_scales = i8 ? fx_alloc(a.scales) : NULL,
                          .v_scales = i8 ? fx_alloc(a.scales) : NULL,
                          .block_keys = fx_alloc(a.blocks),
                          .index_keys = raw ? fx_alloc(n * (size_t)g->index_dim * 4) : NULL,
                          .positions = raw ? fx_alloc(n * 3 * 4) : NULL};
    return a;
}

static void arrays_free(cell_arrays *a) {
    free(a->cells.k);
    free(a->cells.v);
    free(a->cells.k_scales);
    free(a->cells.v_scales);
    free(a->cells.block_keys);
    free(a->cells.index_keys);
    free(a->cells.positions);
}

// Copies cells first..first+count-1 of sequence i, all layers, as one batch.
static void copy_cells(const fx_session *from, fx_session *to, int32_t i, int32_t first, int32_t count, int raw) {
    if (count == 0)
        return;
    for (int32_t layer = 0; layer < from->layers; layer++) {
        cell_arrays a = arrays_make(from, count, raw);
        FX_OK(qsa_cache_read(from->cache, layer, from->sequence[i], first, count, &a.cells));
        FX_OK(qsa_cache_write(to->cache, layer, to->sequence[i], count, &a.cells));
        arrays_free(&a);
    }
    FX_OK(qsa_cache_commit(to->cache));
}

// The first n cells: what is older than the kept raw index keys goes without them, in front of the open block.
static void copy_sequence(const fx_session *from, fx_session *to, int32_t i, int32_t n, rng *r) {
    const int32_t kept = from->cache->sequences[from->sequence[i]].raw_first;
    const int32_t ratio = from->world->geometry.ratio, open = n - n % ratio;
    int32_t split = (kept + ratio - 1) / ratio * ratio;
    split = split < open ? split : open;
    split += ratio * rng_range(r, 0, (open - split) / ratio);
    copy_cells(from, to, i, 0, split, 0);
    copy_cells(from, to, i, split, n - split, 1);
    to->done[i] = n;
}

// The original at some length is copied, whole or cut to n cells, and both go on with the same tokens.
static void copy_and_go_on(const fx_results *base, const fx_options *o, int32_t length, int32_t n, rng *r) {
    const fx_world *world = base->world;
    fx_options other = *o;
    other.screen = (int32_t)rng_below(r, 2); // no part of a sequence
    fx_session from = fx_open(world, &other);
    const int32_t count[FX_MAX_SEQUENCES] = {length};
    fx_step(&from, count, NULL);
    other.screen = (int32_t)rng_below(r, 2);
    other.page_cells = world->geometry.ratio * rng_range(r, 1, 9);
    other.shuffle_pages = 1;
    other.rollback = rollbacks[rng_below(r, 3)];
    other.chunk = rng_range(r, 0, 5);
    fx_session to = fx_open(world, &other);
    copy_sequence(&from, &to, 0, n, r);
    fx_close(&from);
    fx_results *results = fx_results_make(&to);
    fx_run_on(&to, results);
    fx_read(&to, results);
    for (int32_t layer = 0; layer < world->layers; layer++) {
        for (int32_t i = n; i < world->length[0]; i++)
            PLAIN_CHECK(!fx_token_difference(results, base, layer, i));
        PLAIN_CHECK_INT(results->stored_bytes[layer][0], base->stored_bytes[layer][0]);
        PLAIN_CHECK_BYTES(results->stored[layer][0], base->stored[layer][0], base->stored_bytes[layer][0]);
    }
    fx_close(&to);
    fx_results_free(results);
}

static void copies(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {100};
    fx_world *world = fx_world_make(61, &g, 2, 1, lengths, 3);
    rng r = rng_make(7);
    for (size_t rollback = 0; rollback < 3; rollback++)
        for (int kv = QSA_F32; kv <= QSA_I8; kv++) {
            fx_options o = fx_options_default();
            o.rollback = rollbacks[rollback];
            o.kv_type = (qsa_type)kv;
            o.block_key_type = (qsa_type)(1 + (kv + (int)rollback) % 3);
            fx_results *base = fx_run(world, &o);
            for (int32_t length = 84; length < 88; length++) { // every length mod ratio
                copy_and_go_on(base, &o, length, length, &r);
                // Cut: to any number of cells that are kept raw, else to a multiple of the ratio.
                if (rollbacks[rollback])
                    copy_and_go_on(base, &o, length, length - rng_range(&r, 1, 64), &r);
                copy_and_go_on(base, &o, length, 4 * rng_range(&r, 0, length / 4), &r);
            }
            fx_results_free(base);
        }
    fx_world_free(world);
}

// Every part read by itself and in pieces equals the part read whole; blocks belong to the piece that has their last cell.
static void pieces(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {39};
    fx_world *world = fx_world_make(62, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    o.rollback = QSA_ROLLBACK_ALL;
    fx_session s = fx_open(world, &o);
    fx_run_on(&s, NULL);
    cell_arrays all = arrays_make(&s, 39, 1);
    FX_OK(qsa_cache_read(s.cache, 0, s.sequence[0], 0, 39, &all.cells));
    for (int32_t i = 0; i < 39; i++)
        PLAIN_CHECK_INT(all.cells.positions[3 * i], world->positions[3 * i]);
    rng r = rng_make(8);
    for (int round = 0; round < 200; round++) {
        const int32_t first = rng_range(&r, 0, 39), count = rng_range(&r, 0, 39 - first);
        cell_arrays some = arrays_make(&s, count, 1);
        qsa_cells cells = some.cells;
        if (round % 3 == 0) // array by array
            cells.k = cells.block_keys = NULL, cells.v_scales = NULL, cells.positions = NULL;
        FX_OK(qsa_cache_read(s.cache, 0, s.sequence[0], first, count, &cells));
        const size_t n = (size_t)count, at = (size_t)first;
        if (cells.k)
            PLAIN_CHECK_BYTES(cells.k, (char *)all.cells.k + at * 48, n * 48);
        PLAIN_CHECK_BYTES(cells.v, (char *)all.cells.v + at * 48, n * 48);
        PLAIN_CHECK_BYTES(cells.k_scales, all.cells.k_scales + at * 2, n * 4);
        PLAIN_CHECK_BYTES(cells.index_keys, all.cells.index_keys + at * 16, n * 64);
        if (cells.positions)
            PLAIN_CHECK_BYTES(cells.positions, all.cells.positions + at * 3, n * 12);
        const size_t from = at / 4, blocks = (at + n) / 4 - from;
        if (cells.block_keys) {
            PLAIN_CHECK_BYTES(cells.block_keys, (char *)all.cells.block_keys + from * 64, blocks * 64);
            PLAIN_CHECK_INT(((unsigned char *)cells.block_keys)[blocks * 64], FX_PATTERN); // and no block more
        }
        arrays_free(&some);
    }
    arrays_free(&all);
    fx_close(&s);
    fx_world_free(world);
}

// Which raw index keys can be read: those of the last rollback + ratio - 1 cells, none of cells that were written without
// them, and all again after a reset.
static void kept_raw_keys(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {39};
    fx_world *world = fx_world_make(64, &g, 1, 1, lengths, 1);
    for (size_t rollback = 0; rollback < 4; rollback++) {
        fx_options o = fx_options_default();
        o.rollback = rollback < 3 ? rollbacks[rollback] : 5;
        fx_session s = fx_open(world, &o);
        fx_run_on(&s, NULL);
        cell_arrays a = arrays_make(&s, 39, 1), plain_cells = arrays_make(&s, 16, 0);
        const int32_t sequence = s.sequence[0], keep = o.rollback == QSA_ROLLBACK_ALL ? 39 : o.rollback + 3;
        const int32_t kept = keep < 39 ? 39 - keep : 0;
        for (int32_t first = 0; first < 39; first++)
            PLAIN_CHECK_INT(qsa_cache_read(s.cache, 0, sequence, first, 39 - first, &a.cells),
                            first < kept ? QSA_ERR_STATE : QSA_OK);
        FX_OK(qsa_cache_read(s.cache, 0, sequence, 0, 16, &plain_cells.cells));
        FX_OK(qsa_sequence_reset(s.cache, sequence));
        s.done[0] = 0;
        const int32_t three[FX_MAX_SEQUENCES] = {3};
        fx_step(&s, three, NULL);
        PLAIN_CHECK_INT(qsa_cache_read(s.cache, 0, sequence, 0, 3, &a.cells), QSA_OK);
        PLAIN_CHECK_BYTES(a.cells.index_keys, fx_values(world, 0, FX_INDEX_K, 0), 3 * 16 * 4);
        FX_OK(qsa_sequence_reset(s.cache, sequence));
        FX_OK(qsa_cache_write(s.cache, 0, sequence, 16, &plain_cells.cells));
        FX_OK(qsa_cache_commit(s.cache));
        for (int32_t first = 0; first < 16; first++)
            PLAIN_CHECK_INT(qsa_cache_read(s.cache, 0, sequence, first, 16 - first, &a.cells), QSA_ERR_STATE);
        s.done[0] = 16;
        fx_step(&s, three, NULL);
        PLAIN_CHECK_INT(qsa_cache_read(s.cache, 0, sequence, 15, 4, &a.cells), QSA_ERR_STATE);
        PLAIN_CHECK_INT(qsa_cache_read(s.cache, 0, sequence, 16, 3, &a.cells), QSA_OK);
        PLAIN_CHECK_BYTES(a.cells.index_keys, fx_values(world, 0, FX_INDEX_K, 16), 3 * 16 * 4);
        arrays_free(&a);
        arrays_free(&plain_cells);
        fx_close(&s);
    }
    fx_world_free(world);
}

// One bad code or scale at any place: refused with its index, nothing changed.
static void bad_codes(void) {
    const qsa_geometry g = fx_geometry_wide(); // two scales per vector
    const int32_t lengths[] = {13};
    fx_world *world = fx_world_make(63, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    fx_session s = fx_open(world, &o);
    fx_run_on(&s, NULL);
    cell_arrays a = arrays_make(&s, 12, 0);
    FX_OK(qsa_cache_read(s.cache, 0, s.sequence[0], 0, 12, &a.cells));
    FX_OK(qsa_sequence_reset(s.cache, s.sequence[0]));
    size_t bytes;
    unsigned char *before = fx_cache_bytes(s.cache, &bytes);
    rng r = rng_make(9);
    const uint16_t bad[] = {0x7c00, 0x7c01, 0x7e00, 0xfc00, 0xfe00, 0x8001, 0x8000, 0xbc00};
    for (int round = 0; round < 64; round++) {
        int8_t *codes = round % 2 ? a.cells.k : a.cells.v, *code = codes + rng_below(&r, (uint32_t)a.kv);
        uint16_t *scales = round % 2 ? a.cells.k_scales : a.cells.v_scales;
        uint16_t *scale = scales + rng_below(&r, (uint32_t)a.scales / 2);
        const int8_t kept_code = *code;
        const uint16_t kept_scale = *scale;
        char want[64];
        if (round % 4 < 2) {
            *code = -128;
            snprintf(want, sizeof want, "cells->%s[%d]", round % 2 ? "k" : "v", (int)(code - codes));
        } else {
            *scale = bad[round / 4 % 8];
            snprintf(want, sizeof want, "cells->%s_scales[%d]", round % 2 ? "k" : "v", (int)(scale - scales));
        }
        PLAIN_CHECK_INT(qsa_cache_write(s.cache, 0, s.sequence[0], 12, &a.cells), QSA_ERR_ARGUMENT);
        PLAIN_CHECK(strstr(qsa_last_error(), want) != NULL);
        *code = kept_code;
        *scale = kept_scale;
    }
    unsigned char *after = fx_cache_bytes(s.cache, &bytes);
    PLAIN_CHECK_BYTES(after, before, bytes);
    PLAIN_CHECK_INT(qsa_cache_write(s.cache, 0, s.sequence[0], 12, &a.cells), QSA_OK);
    free(before);
    free(after);
    arrays_free(&a);
    fx_close(&s);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(copies);
    PLAIN_RUN(pieces);
    PLAIN_RUN(kept_raw_keys);
    PLAIN_RUN(bad_codes);
    return plain_finish();
}
