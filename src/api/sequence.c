// SPDX-License-Identifier: Apache-2.0
//
// Sequences, their pages, and the pending batch: rows written behind the lengths until commit moves them.

#include "api/device.h"

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

int32_t qsa_free_sequence(const qsa_cache *cache) {
    for (int32_t i = 0; i < cache->config.max_sequences; i++)
        if (!cache->sequences[i].alive)
            return i;
    return -1;
}

qsa_status qsa_sequence_create(qsa_cache *cache, int32_t *sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_create: cache is null");
    QSA_REQUIRE_ARG(sequence, "qsa_sequence_create: sequence is null");
    const int32_t made = qsa_free_sequence(cache);
    QSA_REQUIRE(made >= 0, QSA_ERR_CAPACITY, "qsa_sequence_create: all %d sequences (max_sequences) are alive",
                (int)cache->config.max_sequences);
    cache->sequences[made] = (qsa_sequence){.alive = 1};
    cache->alive++;
    *sequence = made;
    return QSA_OK;
}

qsa_status qsa_check_no_pending(const char *call, const qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE(cache->sequences[sequence].pending == 0, QSA_ERR_STATE,
                "%s: sequence %d has %d pending rows; commit or discard them first", call, (int)sequence,
                (int)cache->sequences[sequence].pending);
    return QSA_OK;
}

qsa_status qsa_sequence_destroy(qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_destroy: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_destroy", cache, sequence));
    QSA_TRY(qsa_check_no_pending("qsa_sequence_destroy", cache, sequence));
    qsa_pages_cut(cache, sequence, 0);
    cache->sequences[sequence] = (qsa_sequence){0};
    cache->alive--;
    return QSA_OK;
}

qsa_status qsa_sequence_reset(qsa_cache *cache, int32_t sequence) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_reset: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_reset", cache, sequence));
    QSA_TRY(qsa_check_no_pending("qsa_sequence_reset", cache, sequence));
    qsa_pages_cut(cache, sequence, 0);
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

qsa_status qsa_sequence_get_info(const qsa_cache *cache, int32_t sequence, qsa_sequence_info *info) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_get_info: cache is null");
    QSA_REQUIRE_STRUCT("qsa_sequence_get_info", info, "info");
    QSA_TRY(qsa_check_sequence("qsa_sequence_get_info", cache, sequence));
    const qsa_sequence *s = &cache->sequences[sequence];
    *info = (qsa_sequence_info){.size = sizeof *info,
                                .length = s->length,
                                .pending_rows = s->pending,
                                .pages = s->pages,
                                .index_keys_from = s->raw_first};
    for (int32_t i = 0; i < s->pages; i++)
        info->shared_pages += cache->pages[qsa_page_table(cache, sequence)[i]].references > 1;
    return QSA_OK;
}

qsa_status qsa_sequence_truncate(qsa_cache *cache, int32_t sequence, int32_t cells) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_truncate: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_truncate", cache, sequence));
    qsa_sequence *s = &cache->sequences[sequence];
    QSA_REQUIRE_ARG(cells >= 0 && cells <= s->length, "qsa_sequence_truncate: cells is %d, sequence %d has %d",
                    (int)cells, (int)sequence, (int)s->length);
    QSA_TRY(qsa_check_no_pending("qsa_sequence_truncate", cache, sequence));
    const int32_t ratio = cache->config.geometry.ratio, open = cells - cells % ratio;
    QSA_REQUIRE(cells == open || open >= s->raw_first, QSA_ERR_STATE,
                "qsa_sequence_truncate: %d cells open the block of cells %d..%d, but raw index keys of sequence %d are "
                "kept from cell %d on only; multiples of ratio %d are exact",
                (int)cells, (int)open, (int)open + ratio - 1, (int)sequence, (int)s->raw_first, (int)ratio);
    qsa_pages_cut(cache, sequence, qsa_pages_for(cache, cells));
    s->length = cells;
    s->raw_first = s->raw_first < cells ? s->raw_first : cells;
    return QSA_OK;
}

qsa_status qsa_sequence_shift(qsa_cache *cache, int32_t sequence, int32_t first, int32_t delta) {
    QSA_REQUIRE_ARG(cache, "qsa_sequence_shift: cache is null");
    QSA_TRY(qsa_check_sequence("qsa_sequence_shift", cache, sequence));
    const int32_t length = cache->sequences[sequence].length;
    QSA_REQUIRE_ARG(first >= 0 && first <= length, "qsa_sequence_shift: first is %d, sequence %d has %d cells",
                    (int)first, (int)sequence, (int)length);
    QSA_TRY(qsa_check_no_pending("qsa_sequence_shift", cache, sequence));
    QSA_REQUIRE(delta == 0 || first == length, QSA_ERR_UNSUPPORTED,
                "qsa_sequence_shift: the keys of cells %d..%d of sequence %d are stored rotated at their positions and "
                "rounded; rotated by %d more they would not have the bits of cells appended there: append them again",
                (int)first, (int)length - 1, (int)sequence, (int)delta);
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
            needed += qsa_pages_for(cache, cells) - s->pages + qsa_pages_shared_end(cache, i);
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
        const int32_t wanted = qsa_pages_for(cache, (int64_t)s->length + cache->counts[i]);
        if (qsa_pages_shared_end(cache, i))
            qsa_pages_own_end(cache, i);
        while (s->pages < wanted)
            table[s->pages++] = qsa_page_take(cache);
        s->pending = cache->counts[i];
        s->pending_raw = 1;
    }
    memset(cache->written, 0, (size_t)cache->config.layers);
    cache->pending_rows = rows;
}

// First cell whose raw index key is kept once the first `rows` pending rows are committed. Bank 1 has those of the last
// `keep` pending rows, which may begin behind the first of them: then nothing older joins on to them.
static int32_t raw_first_after(const qsa_cache *cache, const qsa_sequence *s, int32_t rows) {
    const int32_t end = s->length + rows;
    if (rows == 0)
        return s->raw_first;
    if (!s->pending_raw)
        return end;
    if (cache->config.rollback == QSA_ROLLBACK_ALL)
        return s->raw_first;
    const int32_t oldest = s->length + s->pending - cache->keep, kept = end - cache->keep;
    if (oldest > s->length)
        return oldest < end ? oldest : end;
    return kept > s->raw_first ? kept : s->raw_first;
}

// The kept raw index keys of the first `rows` pending rows move from bank 1 to bank 0, where they replace those of older
// cells.
static void commit_raw(qsa_cache *cache, int32_t sequence, int32_t rows, int32_t raw_first) {
    const qsa_sequence *s = &cache->sequences[sequence];
    const int32_t end = s->length + rows, first = raw_first > s->length ? raw_first : s->length;
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

// Keeps the first `rows` pending rows of a sequence and takes the others back.
static void accept_rows(qsa_cache *cache, int32_t sequence, int32_t rows) {
    qsa_sequence *s = &cache->sequences[sequence];
    const int32_t raw_first = raw_first_after(cache, s, rows);
    if (cache->keep && !cache->device)
        commit_raw(cache, sequence, rows, raw_first);
    qsa_pages_cut(cache, sequence, qsa_pages_for(cache, (int64_t)s->length + rows));
    if (s->shared && rows)
        qsa_page_drop(cache, s->shared - 1);
    else if (s->shared)
        qsa_pages_share_end(cache, sequence);
    s->shared = 0;
    s->length += rows;
    s->pending = 0;
    s->raw_first = raw_first;
}

// The same on a device, of all sequences in one launch, and before anything else changes. kept: rows to keep of each
// sequence, null: all pending ones.
static qsa_status commit_on_device(const char *call, qsa_cache *cache, const int32_t *kept) {
    int32_t count = 0;
    for (int32_t i = 0; cache->device && cache->keep && i < cache->config.max_sequences; i++) {
        const qsa_sequence *s = &cache->sequences[i];
        const int32_t rows = kept ? kept[i] : s->pending;
        if (!s->pending || !rows)
            continue;
        const int32_t raw_first = raw_first_after(cache, s, rows),
                      first = raw_first > s->length ? raw_first : s->length;
        int32_t *span = cache->spans + 3 * (size_t)count;
        span[0] = i;
        span[1] = first;
        span[2] = s->length + rows - first;
        count += span[2] > 0;
    }
    return cache->device ? qsa_device_commit(call, cache, count) : QSA_OK;
}

static qsa_status check_all_written(const char *call, const qsa_cache *cache) {
    for (int32_t layer = 0; layer < cache->config.layers; layer++)
        QSA_REQUIRE(cache->written[layer], QSA_ERR_STATE,
                    "%s: layer %d of %d has not been given the pending batch of %d rows", call, (int)layer,
                    (int)cache->config.layers, (int)cache->pending_rows);
    return QSA_OK;
}

qsa_status qsa_cache_commit(qsa_cache *cache) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_commit: cache is null");
    if (!cache->pending_rows)
        return QSA_OK;
    QSA_TRY(check_all_written("qsa_cache_commit", cache));
    QSA_TRY(commit_on_device("qsa_cache_commit", cache, NULL));
    for (int32_t i = 0; i < cache->config.max_sequences; i++)
        if (cache->sequences[i].pending)
            accept_rows(cache, i, cache->sequences[i].pending);
    cache->pending_rows = 0;
    qsa_device_tables_changed(cache);
    return QSA_OK;
}

// cache->counts becomes the rows to keep of every sequence.
static qsa_status plan_accept(qsa_cache *cache, int32_t count, const int32_t *sequences, const int32_t *rows) {
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        cache->counts[i] = cache->sequences[i].pending;
        cache->last_row[i] = -1;
    }
    for (int32_t i = 0; i < count; i++) {
        QSA_TRY(qsa_check_sequence("qsa_cache_accept", cache, sequences[i]));
        const qsa_sequence *s = &cache->sequences[sequences[i]];
        QSA_REQUIRE_ARG(cache->last_row[sequences[i]] < 0,
                        "qsa_cache_accept: sequences[%d] and sequences[%d] are both %d",
                        (int)cache->last_row[sequences[i]], (int)i, (int)sequences[i]);
        QSA_REQUIRE_ARG(rows[i] >= 0 && rows[i] <= s->pending,
                        "qsa_cache_accept: rows[%d] is %d, sequence %d has %d pending rows", (int)i, (int)rows[i],
                        (int)sequences[i], (int)s->pending);
        cache->last_row[sequences[i]] = i;
        cache->counts[sequences[i]] = rows[i];
    }
    const int32_t ratio = cache->config.geometry.ratio;
    for (int32_t i = 0; i < cache->config.max_sequences; i++) {
        const qsa_sequence *s = &cache->sequences[i];
        const int32_t end = s->length + cache->counts[i], first = raw_first_after(cache, s, cache->counts[i]);
        QSA_REQUIRE(
            end % ratio == 0 || end - end % ratio >= first, QSA_ERR_STATE,
            "qsa_cache_accept: %d of %d rows leave sequence %d with an open block from cell %d on, raw index keys "
            "would be kept from cell %d on",
            (int)cache->counts[i], (int)s->pending, (int)i, (int)(end - end % ratio), (int)first);
    }
    return QSA_OK;
}

qsa_status qsa_cache_accept(qsa_cache *cache, int32_t count, const int32_t *sequences, const int32_t *rows) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_accept: cache is null");
    QSA_REQUIRE_ARG(count >= 0, "qsa_cache_accept: count is %d, must not be negative", (int)count);
    QSA_REQUIRE_ARG(sequences || count == 0, "qsa_cache_accept: sequences is null");
    QSA_REQUIRE_ARG(rows || count == 0, "qsa_cache_accept: rows is null");
    QSA_TRY(plan_accept(cache, count, sequences, rows));
    if (!cache->pending_rows)
        return QSA_OK;
    QSA_TRY(check_all_written("qsa_cache_accept", cache));
    QSA_TRY(commit_on_device("qsa_cache_accept", cache, cache->counts));
    for (int32_t i = 0; i < cache->config.max_sequences; i++)
        if (cache->sequences[i].pending)
            accept_rows(cache, i, cache->counts[i]);
    cache->pending_rows = 0;
    qsa_device_tables_changed(cache);
    return QSA_OK;
}

qsa_status qsa_cache_discard(qsa_cache *cache) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_discard: cache is null");
    for (int32_t i = 0; i < cache->config.max_sequences; i++)
        if (cache->sequences[i].pending)
            accept_rows(cache, i, 0);
    cache->pending_rows = 0;
    qsa_device_tables_changed(cache);
    return QSA_OK;
}
