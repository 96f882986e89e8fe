// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: their form, shared by both directions, and saving. Saving needs no memory: the order and the sharing of
// sequences are found anew for each pass, by comparing page tables.

#include "api/snapshot.h"

#include <string.h>

// -- form

// A field of the head or a record, to or from bytes.
static void pass(unsigned char **at, void *field, size_t bytes, int pack) {
    memcpy(pack ? *at : field, pack ? field : *at, bytes);
    *at += bytes;
}

static void pass_head(unsigned char *at, qsa_snapshot_head *h, int pack) {
    qsa_geometry *g = &h->geometry;
    int32_t *const numbers[] = {&h->count,    &h->layers,      &h->kv_type,     &h->block_key_type, &g->heads,
                                &g->kv_heads, &g->head_dim,    &g->index_heads, &g->index_dim,      &g->rotary_dim,
                                g->sections,  g->sections + 1, g->sections + 2, &g->ratio,          &g->budget};
    pass(&at, &h->total, sizeof h->total, pack);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        pass(&at, numbers[i], sizeof(int32_t), pack);
    pass(&at, &g->eps, sizeof g->eps, pack);
    pass(&at, &g->theta, sizeof g->theta, pack);
}

void qsa_snapshot_pack_head(const qsa_snapshot_head *head, unsigned char bytes[QSA_SNAPSHOT_HEAD]) {
    const uint32_t version = QSA_SNAPSHOT_VERSION;
    qsa_snapshot_head copy = *head;
    memset(bytes, 0, QSA_SNAPSHOT_HEAD);
    memcpy(bytes, QSA_SNAPSHOT_MAGIC, 8);
    memcpy(bytes + 8, &version, sizeof version);
    pass_head(bytes + QSA_SNAPSHOT_LEAD, &copy, 1);
}

void qsa_snapshot_unpack_head(const unsigned char bytes[QSA_SNAPSHOT_HEAD], qsa_snapshot_head *head) {
    unsigned char copy[QSA_SNAPSHOT_HEAD];
    memcpy(copy, bytes, sizeof copy);
    *head = (qsa_snapshot_head){.geometry.size = sizeof head->geometry};
    pass_head(copy + QSA_SNAPSHOT_LEAD, head, 0);
}

uint64_t qsa_snapshot_plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b) {
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static size_t block_key_bytes(const qsa_cache_config *c) {
    return (size_t)c->geometry.index_dim * (c->block_key_type == QSA_F32 ? 4 : 2);
}

uint64_t qsa_snapshot_cells(const qsa_cache_config *c, const qsa_snapshot_record *r) {
    const qsa_geometry *g = &c->geometry;
    const uint64_t scales = c->kv_type == QSA_I8 ? (uint64_t)qsa_groups(g->head_dim) * 2 : 0;
    const uint64_t cell = 2 * (uint64_t)g->kv_heads * (qsa_kv_row_bytes(c) + scales);
    const uint64_t raw = (uint64_t)g->index_dim * sizeof(float) + 3 * sizeof(int32_t);
    uint64_t bytes = times((uint64_t)(r->length - r->shared), cell);
    bytes = qsa_snapshot_plus(bytes, (uint64_t)(r->length / g->ratio - r->shared / g->ratio) * block_key_bytes(c));
    bytes = qsa_snapshot_plus(bytes, times((uint64_t)(r->length - r->raw_from), raw));
    return qsa_snapshot_plus(times(bytes, (uint64_t)c->layers), sizeof(uint64_t));
}

// The rows of all KV heads, cell by cell.
static void each_row(qsa_snapshot_walk *walk, qsa_snapshot_item item, unsigned char *array, size_t bytes,
                     qsa_snapshot_kind kind) {
    const qsa_cache *cache = walk->cache;
    const size_t page_cells = (size_t)cache->config.page_cells;
    for (int32_t cell = walk->record->shared; cell < walk->record->length; cell++) {
        const size_t row = (size_t)qsa_cell_row(cache, qsa_page_table(cache, walk->sequence), cell);
        for (size_t head = 0; head < (size_t)cache->config.geometry.kv_heads; head++)
            item(walk, array + (row + head * page_cells) * bytes, bytes, kind);
    }
}

// Raw index keys. A cell that has no place here is walked over with memory NULL.
static void each_raw(qsa_snapshot_walk *walk, qsa_snapshot_item item) {
    const qsa_cache *cache = walk->cache;
    const size_t bytes = (size_t)cache->config.geometry.index_dim * sizeof(float);
    for (int positions = 0; positions < 2; positions++)
        for (int32_t cell = walk->record->raw_from; cell < walk->record->length; cell++) {
            void *memory = NULL;
            if (cell >= walk->raw_kept) {
                const size_t slot = qsa_raw_slot(cache, walk->layer, walk->sequence, cell, 0);
                memory = positions ? (void *)qsa_raw_positions_at(cache, slot) : (void *)qsa_raw_key_at(cache, slot);
            }
            item(walk, memory, positions ? 3 * sizeof(int32_t) : bytes,
                 positions ? QSA_SNAPSHOT_POSITIONS : QSA_SNAPSHOT_NUMBERS);
        }
}

void qsa_snapshot_each(qsa_snapshot_walk *walk, qsa_snapshot_item item) {
    const qsa_cache *cache = walk->cache;
    const qsa_geometry *g = &cache->config.geometry;
    const int i8 = cache->config.kv_type == QSA_I8;
    const qsa_snapshot_kind kind = i8 ? QSA_SNAPSHOT_CODES : QSA_SNAPSHOT_NUMBERS;
    const size_t row = qsa_kv_row_bytes(&cache->config), scales = (size_t)qsa_groups(g->head_dim) * 2;
    each_row(walk, item, qsa_cache_k(cache, walk->layer), row, kind);
    each_row(walk, item, qsa_cache_v(cache, walk->layer), row, kind);
    if (i8) {
        each_row(walk, item, (unsigned char *)qsa_cache_k_scales(cache, walk->layer), scales, QSA_SNAPSHOT_SCALES);
        each_row(walk, item, (unsigned char *)qsa_cache_v_scales(cache, walk->layer), scales, QSA_SNAPSHOT_SCALES);
    }
    for (int32_t b = walk->record->shared / g->ratio; b < walk->record->length / g->ratio; b++)
        item(walk, qsa_block_key(cache, walk->layer, walk->sequence, b), block_key_bytes(&cache->config),
             QSA_SNAPSHOT_NUMBERS);
    each_raw(walk, item);
}

// -- saving

// The sequences to save: a list, or all that are alive.
typedef struct save_set {
    const qsa_cache *cache;
    const int32_t *sequences; // or null
    int32_t count;            // of the list, or max_sequences
} save_set;

// Number of the sequence at a place of the list, -1 for none there.
static int32_t sequence_at(const save_set *set, int32_t place) {
    if (set->sequences)
        return set->sequences[place];
    return set->cache->sequences[place].alive ? place : -1;
}

static int32_t length_at(const save_set *set, int32_t place) {
    return set->cache->sequences[sequence_at(set, place)].length;
}

// Longest first, then by place.
static int precedes(const save_set *set, int32_t a, int32_t b) {
    const int32_t x = length_at(set, a), y = length_at(set, b);
    return x > y || (x == y && a < b);
}

// The place that comes after `place` in the snapshot; -1: the first, and no more.
static int32_t next_place(const save_set *set, int32_t place) {
    int32_t best = -1;
    for (int32_t i = 0; i < set->count; i++)
        if (sequence_at(set, i) >= 0 && (place < 0 || precedes(set, place, i)) && (best < 0 || precedes(set, i, best)))
            best = i;
    return best;
}

// Record number of a place.
static int32_t rank_of(const save_set *set, int32_t place) {
    int32_t rank = 0;
    for (int32_t i = 0; i < set->count; i++)
        rank += sequence_at(set, i) >= 0 && precedes(set, i, place);
    return rank;
}

// Cells that two sequences share from their first on, a being at least as long.
static int32_t common_cells(const qsa_cache *cache, int32_t a, int32_t b) {
    const int32_t *x = qsa_page_table(cache, a), *y = qsa_page_table(cache, b);
    const int32_t length = cache->sequences[b].length, pages = qsa_pages_for(cache, length);
    int32_t same = 0;
    while (same < pages && x[same] == y[same])
        same++;
    return same == pages ? length : same * cache->config.page_cells;
}

static qsa_snapshot_record record_of(const save_set *set, int32_t place) {
    const qsa_cache *cache = set->cache;
    const int32_t sequence = sequence_at(set, place);
    const qsa_sequence *s = &cache->sequences[sequence];
    qsa_snapshot_record r = {.length = s->length, .raw_first = s->raw_first, .base = -1};
    int32_t base = -1;
    for (int32_t i = 0; i < set->count; i++) {
        if (sequence_at(set, i) < 0)
            continue;
        r.listed += i < place;
        const int32_t common = precedes(set, i, place) ? common_cells(cache, sequence_at(set, i), sequence) : 0;
        if (common > r.shared) {
            r.shared = common;
            base = i;
        }
    }
    if (base >= 0)
        r.base = rank_of(set, base);
    const int32_t all = cache->config.rollback == QSA_ROLLBACK_ALL;
    const int32_t keep = all ? QSA_SNAPSHOT_ROLLBACK + cache->config.geometry.ratio - 1 : cache->keep;
    const int32_t last = s->length - keep < r.shared ? s->length - keep : r.shared;
    r.raw_from = last > s->raw_first ? last : s->raw_first;
    return r;
}

static void put_item(qsa_snapshot_walk *walk, void *memory, size_t bytes, qsa_snapshot_kind kind) {
    (void)kind;
    unsigned char row[QSA_SNAPSHOT_ITEM];
    if (walk->cache->device) {
        qsa_move(walk->cache, row, memory, bytes);
        qsa_arrive(walk->cache);
        memory = row;
    }
    qsa_stream_put(walk->stream, memory, bytes);
}

static void put_cells(qsa_stream *stream, const save_set *set, int32_t place) {
    const qsa_snapshot_record record = record_of(set, place);
    qsa_snapshot_walk walk = {
        .cache = set->cache, .sequence = sequence_at(set, place), .record = &record, .stream = stream};
    for (walk.layer = 0; walk.layer < set->cache->config.layers && !stream->failed; walk.layer++)
        qsa_snapshot_each(&walk, put_item);
    qsa_stream_put_sum(stream);
}

static void put_all(qsa_stream *stream, const save_set *set) {
    const qsa_cache_config *c = &set->cache->config;
    qsa_snapshot_head head = {.total = QSA_SNAPSHOT_HEAD + 2 * sizeof(uint64_t),
                              .layers = c->layers,
                              .kv_type = (int32_t)c->kv_type,
                              .block_key_type = (int32_t)c->block_key_type,
                              .geometry = c->geometry};
    for (int32_t i = next_place(set, -1); i >= 0; i = next_place(set, i)) {
        const qsa_snapshot_record record = record_of(set, i);
        head.total += QSA_SNAPSHOT_RECORD + qsa_snapshot_cells(c, &record);
        head.count++;
    }
    unsigned char bytes[QSA_SNAPSHOT_HEAD];
    qsa_snapshot_pack_head(&head, bytes);
    qsa_stream_put(stream, bytes, sizeof bytes);
    qsa_stream_put_sum(stream);
    for (int32_t i = next_place(set, -1); i >= 0; i = next_place(set, i)) {
        const qsa_snapshot_record r = record_of(set, i);
        const int32_t numbers[] = {r.length, r.raw_first, r.raw_from, r.base, r.shared, r.listed};
        qsa_stream_put(stream, numbers, sizeof numbers);
    }
    qsa_stream_put_sum(stream);
    for (int32_t i = next_place(set, -1); i >= 0 && !stream->failed; i = next_place(set, i))
        put_cells(stream, set, i);
    qsa_stream_flush(stream);
}

qsa_status qsa_snapshot_save(const qsa_cache *cache, int32_t count, const int32_t *sequences, qsa_write write,
                             void *user) {
    QSA_REQUIRE_ARG(cache, "qsa_snapshot_save: cache is null");
    QSA_REQUIRE_ARG(write, "qsa_snapshot_save: write is null");
    QSA_REQUIRE_ARG(!sequences || count >= 0, "qsa_snapshot_save: count is %d, must not be negative", (int)count);
    for (int32_t i = 0; sequences && i < count; i++)
        QSA_TRY(qsa_check_sequence("qsa_snapshot_save", cache, sequences[i]));
    const save_set set = {cache, sequences, sequences ? count : cache->config.max_sequences};
    qsa_stream stream;
    stream = (qsa_stream){.write = write, .user = user};
    qsa_sum_init(&stream.sum);
    put_all(&stream, &set);
    QSA_REQUIRE(!stream.failed, QSA_ERR_IO, "qsa_snapshot_save: the write function failed");
    return qsa_device_settle("qsa_snapshot_save", cache);
}
