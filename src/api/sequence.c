// SPDX-License-Identifier: Apache-2.0
//
// Sequences, their pages, and the pending batch: rows written behind the lengths until commit moves them.

#include "api/cache.h"

#include <string.h>

qsa_status qsa_check_sequence(const char *call, const qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE_ARG(sequence >= 0 && sequence < cache->config.max_sequences, "%s: sequence %d is outside 0..%d", call,
                    (int)sequence, (int)cache->config.max_sequences - 1);
    QSA_REQUIRE_ARG(cache->sequences[sequence].alive, "%s: sequence %d does not exist", call, (int)sequence);
    return QSA_OK;
}

qsa_status qsa_check_layer_index(const char *call, const qsa_cache *cache, int32_t layer) {
    QSA_REQUIRE_ARG(layer >= 0 && layer < cache->config.layers, "%s: layer index %d is outside 0..%d", call, (int)layer,
                    (int)cache->config.layers - 1);
    return QSA_OK;
}

static int32_t pages_for(const qsa_cache *cache, int64_t cells) {
    return (int32_t)((cells + cache->config.page_cells - 1) / cache->config.page_cells);
}

static void give_back_pages(qsa_cache *cache, int32_t sequence, int32_t keep) {
    qsa_sequence *s = &cache->sequences[sequence];
    while (s->pages > keep)
        cache->free_list[cache->free_pages++] = qsa_page_table(cache, sequence)[--s->pages];
}

qsa_status qsa_sequence_create(qsa_cache *cache, int32_t *sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_create: cache is null");
    QSA_REQUIRE_ARG(sequence, "qsa_sequence_create: sequence is null");
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        if (cache->sequences[i].alive)
            continue;
        cache->sequences[i] = (qsa_sequence){.alive = 1};
        cache->alive++;
        *sequence = i;
        return QSA_OK;
    }
    return qsa_fail(QSA_ERR_CAPACITY, "qsa_sequence_create: all %d sequences (max_sequences) are alive",
                    (int)cache->config.max_sequences);
}

static qsa_status check_no_pending(const char *call, const qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE(cache->sequences[sequence].pending == 0, QSA_ERR_STATE,
                "%s: sequence %d has %d pending rows; commit or discard them first", call, (int)sequence,
                (int)cache->sequences[sequence].pending);
    return QSA_OK;
}

qsa_status qsa_sequence_destroy(qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_destroy: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_destroy", cache, sequence));
    QSA_TRY(check_no_pending("qsa_sequence_destroy", cache, sequence));
    give_back_pages(cache, sequence, 0);
    cache->sequences[sequence].alive = 0;
    cache->alive--;
    return QSA_OK;
}

qsa_status qsa_sequence_reset(qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_reset: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_reset", cache, sequence));
    QSA_TRY(check_no_pending("qsa_sequence_reset", cache, sequence));
    give_back_pages(cache, sequence, 0);
    cache->sequences[sequence] = (qsa_sequence){.alive = 1};
    return QSA_OK;
}

qsa_status qsa_sequence_length(const qsa_cache *cache, int32_t sequence, int32_t *length) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_length: cache is null");
    QSA_REQUIRE_ARG(length, "qsa_sequence_length: length is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_length", cache, sequence));
    *length = cache->sequences[sequence].length;
    return QSA_OK;
}

qsa_status qsa_pending_check(const char *call, const qsa_cache *cache, int32_t rows) {
    int64_t needed = 0;
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        const qsa_sequence *s = &cache->sequences[i];
        const int32_t count = cache->counts[i];
        if (cache->pending_rows) {
            QSA_REQUIRE(count == s->pending, QSA_ERR_STATE,
                        "%s: sequence %d has %d pending rows, this batch brings %d; every layer takes the same batch, "
                        "then commit or discard",
                        call, (int)i, (int)s->pending, (int)count);
        } else if (count) {
            int64_t cells = (int64_t)s->length + count;
            QSA_REQUIRE(cells <= cache->config.max_cells, QSA_ERR_CAPACITY,
                        "%s: sequence %d would have %lld cells, max_cells is %d", call, (int)i, (long long)cells,
                        (int)cache->config.max_cells);
            needed += pages_for(cache, cells) - s->pages;
        }
    }
    QSA_REQUIRE(needed <= cache->free_pages, QSA_ERR_CAPACITY,
                "%s: a batch of %d rows needs %lld pages, %d of %d are free", call, (int)rows, (long long)needed,
                (int)cache->free_pages, (int)cache->config.pages);
    return QSA_OK;
}

void qsa_pending_begin(qsa_cache *cache, int32_t rows) {
    if (cache->pending_rows)
        return;
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        qsa_sequence *s = &cache->sequences[i];
        if (!cache->counts[i])
            continue;
        int32_t *table = qsa_page_table(cache, i);
        const int32_t wanted = pages_for(cache, (int64_t)s->length + cache->counts[i]);
        while (s->pages < wanted)
            table[s->pages++] = cache->free_list[--cache->free_pages];
        s->pending = cache->counts[i];
        s->pending_raw = 1;
    }
    memset(cache->written, 0, (size_t)cache->config.layers);
    cache->pending_rows = rows;
}

// The kept raw index keys of the pending rows move from bank 1 to bank 0, where they replace those of older cells.
static void commit_raw(qsa_cache *cache, int32_t sequence) {
    const qsa_sequence *s = &cache->sequences[sequence];
    const int32_t end = s->length + s->pending;
    const int32_t first = end - s->length > cache->keep ? end - cache->keep : s->length;
    for (int32_t layer = 0; layer < cache->config.layers; layer++) {
        for (int32_t cell = first; cell < end; cell++) {
            size_t from = qsa_raw_slot(cache, layer, sequence, cell, 1);
            size_t to = qsa_raw_slot(cache, layer, sequence, cell, 0);
            memcpy(qsa_raw_key_at(cache, to), qsa_raw_key_at(cache, from),
                   (size_t)cache->config.geometry.index_dim * sizeof(float));
            memcpy(qsa_raw_positions_at(cache, to), qsa_raw_positions_at(cache, from), 3 * sizeof(int32_t));
        }
    }
}

qsa_status qsa_cache_commit(qsa_cache *cache) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_commit: cache is null");
    if (!cache->pending_rows)
        return QSA_OK;
    for (int32_t layer = 0; layer < cache->config.layers; layer++)
        QSA_REQUIRE(cache->written[layer], QSA_ERR_STATE,
                    "qsa_cache_commit: layer %d of %d has not been given the pending batch of %d rows", (int)layer,
                    (int)cache->config.layers, (int)cache->pending_rows);
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        qsa_sequence *s = &cache->sequences[i];
        if (!s->pending)
            continue;
        if (cache->keep && s->pending_raw)
            commit_raw(cache, i);
        s->length += s->pending;
        s->pending = 0;
        const int32_t kept = cache->config.rollback == QSA_ROLLBACK_ALL ? 0 : s->length - cache->keep;
        s->raw_first = !s->pending_raw ? s->length : kept > s->raw_first ? kept : s->raw_first;
    }
    cache->pending_rows = 0;
    return QSA_OK;
}

qsa_status qsa_cache_discard(qsa_cache *cache) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_discard: cache is null");
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        qsa_sequence *s = &cache->sequences[i];
        if (!s->pending)
            continue;
        give_back_pages(cache, i, pages_for(cache, s->length));
        s->pending = 0;
    }
    cache->pending_rows = 0;
    return QSA_OK;
}
