// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: loading snapshots. Each input is tried twice, as the stream itself and as the records and cells of a stream
// whose head and sums are right: chance never finds those. A refusal leaves one line and the cache as it was; what is
// loaded can be read, goes on, and gives every page back.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEQUENCES = 5, PAGES = 20, MOST = 40, ROOM = 1 << 16 };

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s (%s)\n", what, qsa_last_error());
        abort();
    }
}

typedef struct stream {
    unsigned char bytes[ROOM];
    size_t used, at;
} stream;

static int take(void *user, void *to, size_t bytes) {
    stream *s = user;
    if (bytes > s->used - s->at)
        return 1;
    memcpy(to, s->bytes + s->at, bytes);
    s->at += bytes;
    return 0;
}

static void put(stream *s, const void *from, size_t bytes) {
    require(s->used + bytes <= ROOM, "the stream has room");
    memcpy(s->bytes + s->used, from, bytes);
    s->used += bytes;
}

static void put_sum(stream *s, size_t first) {
    qsa_sum sum;
    qsa_sum_init(&sum);
    qsa_sum_add(&sum, s->bytes + first, s->used - first);
    const uint64_t value = qsa_sum_value(&sum);
    put(s, &value, sizeof value);
}

static qsa_cache_config config_of(void) {
    qsa_cache_config c;
    const qsa_geometry g = {sizeof g, 2, 1, 4, 1, 4, 2, {1, 0, 0}, 2, 4, 1e-6f, 1e4};
    qsa_cache_config_init(&c, &g, MOST);
    c.page_cells = 4;
    c.pages = PAGES;
    c.max_sequences = SEQUENCES;
    c.rollback = 3;
    c.screen = 1;
    return c;
}

// A number of a record: small ones are all that get far.
static int32_t number_at(const uint8_t *data, size_t size, size_t at) {
    return at < size ? (int8_t)data[at] : 0;
}

// Head, records from the first bytes, cells from the rest, repeated.
static void make_stream(const qsa_cache_config *c, const uint8_t *data, size_t size, stream *s) {
    qsa_snapshot_record records[8];
    qsa_snapshot_head head = {.count = size ? data[0] % 8 : 0, .layers = c->layers, .geometry = c->geometry};
    head.kv_type = (int32_t)c->kv_type;
    head.block_key_type = (int32_t)c->block_key_type;
    head.total = QSA_SNAPSHOT_HEAD + 16 + (uint64_t)head.count * QSA_SNAPSHOT_RECORD;
    size_t at = 1;
    uint64_t cells[8] = {0};
    for (int32_t k = 0; k < head.count; k++, at += 6) {
        int32_t n[6];
        for (size_t i = 0; i < 6; i++)
            n[i] = number_at(data, size, at + i);
        records[k] = (qsa_snapshot_record){n[0], n[1], n[2], n[3], n[4], n[5]};
        const bool sane = n[0] >= n[4] && n[4] >= 0 && n[0] >= n[2] && n[2] >= 0;
        cells[k] = sane ? qsa_snapshot_cells(c, &records[k]) : 8;
        head.total += cells[k];
    }
    unsigned char bytes[QSA_SNAPSHOT_HEAD];
    qsa_snapshot_pack_head(&head, bytes);
    s->used = s->at = 0;
    put(s, bytes, sizeof bytes);
    put_sum(s, 0);
    const size_t first = s->used;
    for (int32_t k = 0; k < head.count; k++)
        put(s, &records[k], QSA_SNAPSHOT_RECORD);
    put_sum(s, first);
    for (int32_t k = 0; k < head.count && s->used + cells[k] <= ROOM; k++) {
        const size_t start = s->used;
        for (uint64_t i = 8; i < cells[k]; i++) {
            const unsigned char byte = at < size ? data[at + i % (size - at)] : 0;
            put(s, &byte, 1);
        }
        put_sum(s, start);
    }
}

// All that a loaded sequence promises.
static void check_sequence(qsa_cache *cache, int32_t sequence) {
    static unsigned char k[MOST * 4], v[MOST * 4];
    static uint16_t k_scales[MOST], v_scales[MOST];
    static float block_keys[MOST * 4], index_keys[MOST * 4];
    static int32_t positions[MOST * 3];
    qsa_sequence_info info = {.size = sizeof info};
    int32_t fork;
    require(qsa_sequence_get_info(cache, sequence, &info) == QSA_OK && info.length <= MOST, "length");
    qsa_cells cells = {.size = sizeof cells, .k = k, .v = v, .k_scales = k_scales, .v_scales = v_scales};
    cells.block_keys = block_keys;
    qsa_cells raw = {.size = sizeof raw, .index_keys = index_keys, .positions = positions};
    const int32_t open = info.length - info.length % 2;
    require(qsa_cache_read(cache, 0, sequence, 0, info.length, &cells) == QSA_OK, "cells can be read");
    require(qsa_cache_read(cache, 0, sequence, open, info.length - open, &raw) == QSA_OK,
            "so can the open block's keys");
    require(qsa_sequence_truncate(cache, sequence, open) == QSA_OK, "a multiple of the ratio is exact");
    if (qsa_sequence_fork(cache, sequence, &fork) == QSA_OK)
        require(qsa_sequence_destroy(cache, fork) == QSA_OK, "a fork can end");
}

static void load(qsa_cache *cache, stream *s) {
    int32_t numbers[SEQUENCES], count = -1;
    qsa_cache_info info = {.size = sizeof info};
    const qsa_status status = qsa_snapshot_load(cache, take, s, SEQUENCES, numbers, &count);
    require(qsa_cache_get_info(cache, &info) == QSA_OK, "info");
    if (status != QSA_OK) {
        require(qsa_last_error()[0] && count == -1, "a refusal says why and gives nothing");
    } else {
        require(count == info.sequences && s->at <= s->used, "what is loaded is counted");
        for (int32_t i = 0; i < count; i++)
            check_sequence(cache, numbers[i]);
        for (int32_t i = 0; i < count; i++)
            require(qsa_sequence_destroy(cache, numbers[i]) == QSA_OK, "a sequence can end");
    }
    require(qsa_cache_get_info(cache, &info) == QSA_OK, "info");
    require(info.sequences == 0 && info.free_pages == PAGES, "every page is free again");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static stream s;
    static qsa_context *context;
    static qsa_cache *cache;
    const qsa_cache_config config = config_of();
    if (!cache)
        require(qsa_context_create(NULL, &context) == QSA_OK && qsa_cache_create(context, &config, &cache) == QSA_OK,
                "a cache");
    s.at = 0;
    s.used = size < ROOM ? size : ROOM;
    memcpy(s.bytes, data, s.used);
    load(cache, &s);
    make_stream(&config, data, size, &s);
    load(cache, &s);
    return 0;
}
