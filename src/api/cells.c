// SPDX-License-Identifier: Apache-2.0
//
// Cache rows in and out in stored form, cell by cell through the page table. A write is a pending batch of one sequence.

#include "api/device.h"

#include <string.h>

// Copies the rows of all KV heads of `count` cells of one page between an array [count][kv_heads][bytes] and the cache.
static void copy_rows(const qsa_cache *cache, unsigned char *rows, int32_t row, int32_t count, size_t bytes,
                      unsigned char *outside, int write) {
    const size_t heads = (size_t)cache->config.geometry.kv_heads;
    for (size_t g = 0; g < heads; g++) {
        unsigned char *inside = rows + ((size_t)row + g * (size_t)cache->config.page_cells) * bytes;
        unsigned char *other = outside + g * bytes;
        if (write)
            qsa_move_rows(cache, inside, bytes, other, heads * bytes, bytes, (size_t)count);
        else
            qsa_move_rows(cache, other, heads * bytes, inside, bytes, bytes, (size_t)count);
    }
}

// Where the arrays of the i-th of the cells lie.
static void copy_kv(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                    const qsa_cells *cells, int write) {
    const qsa_geometry *g = &cache->config.geometry;
    const size_t bytes = qsa_kv_row_bytes(&cache->config), scales = (size_t)qsa_groups(g->head_dim) * 2;
    const size_t heads = (size_t)g->kv_heads;
    for (int32_t i = 0, here; i < count; i += here) {
        const int32_t row = qsa_cell_row(cache, qsa_page_table(cache, sequence), first + i);
        const int32_t page_rest = cache->config.page_cells - (first + i) % cache->config.page_cells;
        here = count - i < page_rest ? count - i : page_rest;
        const size_t at = (size_t)i * heads;
        if (cells->k)
            copy_rows(cache, qsa_cache_k(cache, layer), row, here, bytes, (unsigned char *)cells->k + at * bytes,
                      write);
        if (cells->v)
            copy_rows(cache, qsa_cache_v(cache, layer), row, here, bytes, (unsigned char *)cells->v + at * bytes,
                      write);
        if (cells->k_scales)
            copy_rows(cache, (unsigned char *)qsa_cache_k_scales(cache, layer), row, here, scales,
                      (unsigned char *)cells->k_scales + at * scales, write);
        if (cells->v_scales)
            copy_rows(cache, (unsigned char *)qsa_cache_v_scales(cache, layer), row, here, scales,
                      (unsigned char *)cells->v_scales + at * scales, write);
    }
}

static void copy_blocks(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                        const qsa_cells *cells, int write) {
    const qsa_cache_config *config = &cache->config;
    const int32_t ratio = config->geometry.ratio, from = first / ratio, to = (first + count) / ratio;
    const size_t bytes = (size_t)config->geometry.index_dim * (config->block_key_type == QSA_F32 ? 4 : 2);
    for (int32_t b = from; cells->block_keys && b < to; b++) {
        unsigned char *outside = (unsigned char *)cells->block_keys + (size_t)(b - from) * bytes;
        unsigned char *inside = qsa_block_key(cache, layer, sequence, b);
        qsa_move(cache, write ? inside : outside, write ? outside : inside, bytes);
        if (write) // there is no context here; every row gives the reference's bits
            qsa_screen_block(cache, qsa_screen_key_ref, layer, sequence, b);
    }
}

static void copy_raw(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                     const qsa_cells *cells, int write) {
    const size_t dim = (size_t)cache->config.geometry.index_dim;
    for (int32_t i = 0; i < count; i++) {
        if (write && cache->config.rollback != QSA_ROLLBACK_ALL && count - i > cache->keep)
            continue; // too old to be kept
        size_t slot = qsa_raw_slot(cache, layer, sequence, first + i, write);
        if (cells->index_keys) {
            float *inside = qsa_raw_key_at(cache, slot), *outside = cells->index_keys + (size_t)i * dim;
            qsa_move(cache, write ? inside : outside, write ? outside : inside, dim * sizeof(float));
        }
        if (cells->positions) {
            int32_t *inside = qsa_raw_positions_at(cache, slot), *outside = cells->positions + 3 * (size_t)i;
            qsa_move(cache, write ? inside : outside, write ? outside : inside, 3 * sizeof(int32_t));
        }
    }
}

static qsa_status check_scales_wanted(const char *call, const qsa_cache *cache, const qsa_cells *cells) {
    if (cache->config.kv_type == QSA_I8)
        return QSA_OK;
    QSA_REQUIRE_ARG(!cells->k_scales && !cells->v_scales, "%s: cells->%s is given, but the cache is not i8", call,
                    cells->k_scales ? "k_scales" : "v_scales");
    return QSA_OK;
}

qsa_status qsa_cache_read(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                          qsa_cells *cells) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_read: cache is null");
    QSA_REQUIRE_STRUCT("qsa_cache_read", cells, "cells");
    QSA_TRY(qsa_check_layer_index("qsa_cache_read", cache, layer));
    QSA_TRY(qsa_check_sequence("qsa_cache_read", cache, sequence));
    const qsa_sequence *s = &cache->sequences[sequence];
    QSA_REQUIRE_ARG(first >= 0 && count >= 0 && first <= s->length - count,
                    "qsa_cache_read: first %d and count %d are outside the %d cells of sequence %d", (int)first,
                    (int)count, (int)s->length, (int)sequence);
    QSA_TRY(check_scales_wanted("qsa_cache_read", cache, cells));
    const int raw = cells->index_keys || cells->positions;
    QSA_REQUIRE(!raw || count == 0 || first >= s->raw_first, QSA_ERR_STATE,
                "qsa_cache_read: raw index keys of sequence %d are kept from cell %d on, first is %d", (int)sequence,
                (int)s->raw_first, (int)first);
    copy_kv(cache, layer, sequence, first, count, cells, 0);
    copy_blocks(cache, layer, sequence, first, count, cells, 0);
    if (raw)
        copy_raw(cache, layer, sequence, first, count, cells, 0);
    qsa_arrive(cache);
    return qsa_device_settle("qsa_cache_read", cache);
}

static qsa_status check_i8(const qsa_cache *cache, int32_t count, const qsa_cells *cells) {
    const qsa_geometry *g = &cache->config.geometry;
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, groups = (size_t)qsa_groups(g->head_dim);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "v" : "k";
        const int8_t *codes = i ? cells->v : cells->k;
        const uint16_t *scales = i ? cells->v_scales : cells->k_scales;
        QSA_REQUIRE_ARG(scales, "qsa_cache_write: cells->%s_scales is null, an i8 cache needs it", name);
        for (size_t j = 0; j < vectors * (size_t)g->head_dim; j++)
            QSA_REQUIRE_ARG(codes[j] != -128, "qsa_cache_write: cells->%s[%zu] is -128, codes are -127..127", name, j);
        for (size_t j = 0; j < vectors * groups; j++) {
            uint16_t half;
            memcpy(&half, (const unsigned char *)scales + 2 * j, sizeof half);
            QSA_REQUIRE_ARG(half < 0x7c00u,
                            "qsa_cache_write: cells->%s_scales[%zu] is the half %04x, scales are finite and positive",
                            name, j, (unsigned)half);
        }
    }
    return QSA_OK;
}

static qsa_status check_write(const qsa_cache *cache, int32_t sequence, int32_t count, const qsa_cells *cells) {
    QSA_REQUIRE_ARG(cells->k, "qsa_cache_write: cells->k is null");
    QSA_REQUIRE_ARG(cells->v, "qsa_cache_write: cells->v is null");
    QSA_TRY(check_scales_wanted("qsa_cache_write", cache, cells));
    if (cache->config.kv_type == QSA_I8)
        QSA_TRY(check_i8(cache, count, cells));
    const int32_t ratio = cache->config.geometry.ratio, length = cache->sequences[sequence].length;
    const int64_t end = (int64_t)length + count;
    QSA_REQUIRE_ARG(cells->block_keys || end / ratio == length / ratio, "qsa_cache_write: cells->block_keys is null");
    QSA_REQUIRE_ARG(!cells->index_keys == !cells->positions, "qsa_cache_write: cells->%s is null and the other is not",
                    cells->index_keys ? "positions" : "index_keys");
    QSA_REQUIRE_ARG(cells->index_keys || end % ratio == 0,
                    "qsa_cache_write: cells->index_keys is null, but the new length %lld is no multiple of ratio %d",
                    (long long)end, (int)ratio);
    for (int64_t i = 0; cells->positions && i < 3 * (int64_t)count; i++)
        QSA_REQUIRE_ARG(cells->positions[i] >= 0, "qsa_cache_write: cells->positions[%lld] is %d, must not be negative",
                        (long long)i, (int)cells->positions[i]);
    return QSA_OK;
}

qsa_status qsa_cache_write(qsa_cache *cache, int32_t layer, int32_t sequence, int32_t count, const qsa_cells *cells) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_write: cache is null");
    QSA_REQUIRE_STRUCT("qsa_cache_write", cells, "cells");
    QSA_TRY(qsa_check_layer_index("qsa_cache_write", cache, layer));
    QSA_TRY(qsa_check_sequence("qsa_cache_write", cache, sequence));
    QSA_REQUIRE_ARG(count >= 1, "qsa_cache_write: count is %d, must be at least 1", (int)count);
    // Room first: a count that the arrays cannot have is refused before any of them is read.
    memset(cache->counts, 0, (size_t)cache->config.max_sequences * sizeof(int32_t));
    cache->counts[sequence] = count;
    QSA_TRY(qsa_pending_check("qsa_cache_write", cache, count));
    QSA_TRY(check_write(cache, sequence, count, cells));
    qsa_pending_begin(cache, count);
    qsa_sequence *s = &cache->sequences[sequence];
    copy_kv(cache, layer, sequence, s->length, count, cells, 1);
    copy_blocks(cache, layer, sequence, s->length, count, cells, 1);
    if (cells->index_keys)
        copy_raw(cache, layer, sequence, s->length, count, cells, 1);
    else
        s->pending_raw = 0;
    cache->written[layer] = 1;
    return qsa_device_settle("qsa_cache_write", cache);
}
