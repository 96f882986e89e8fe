// SPDX-License-Identifier: Apache-2.0
//
// A cache whose pages are on a device: copies into and out of them, the page tables' copy there, and what moves at commit.

#include "api/device.h"

#include <string.h>

// Most bytes that qsa_device_ops.stage gives.
enum { STAGED = QSA_DEVICE_ROWS * sizeof(qsa_cuda_row) };

static void note(const qsa_cache *cache, int number) {
    int none = 0;
    if (number)
        atomic_compare_exchange_strong(&cache->device_error[0], &none, number);
}

void qsa_device_move(const qsa_cache *cache, void *to, const void *from, size_t bytes) {
    note(cache, cache->device->ops->copy(cache->device->handle, to, from, bytes, cache->device->stream));
}

void qsa_device_move_rows(const qsa_cache *cache, void *to, size_t to_stride, const void *from, size_t from_stride,
                          size_t bytes, size_t rows) {
    note(cache, cache->device->ops->copy_rows(cache->device->handle, to, to_stride, from, from_stride, bytes, rows,
                                              cache->device->stream));
}

void qsa_device_arrive(const qsa_cache *cache) {
    note(cache, cache->device->ops->wait(cache->device->handle, cache->device->stream));
}

qsa_status qsa_device_settle(const char *call, const qsa_cache *cache) {
    return cache->device ? qsa_device_check(call, cache->device, atomic_exchange(&cache->device_error[0], 0)) : QSA_OK;
}

static qsa_status send_table(const char *call, qsa_cache *cache, int32_t sequence, void *stream) {
    const qsa_device *device = cache->device;
    qsa_sequence *s = &cache->sequences[sequence];
    while (s->table_known < s->pages) {
        int capturing;
        QSA_TRY(qsa_device_check(call, device, device->ops->capturing(device->handle, stream, &capturing)));
        QSA_REQUIRE(!capturing, QSA_ERR_STATE, "%s: the stream is being captured, and the pages of sequence %d changed",
                    call, (int)sequence);
        const int32_t first = s->table_known, most = STAGED / (int32_t)sizeof(int32_t);
        const int32_t count = s->pages - first < most ? s->pages - first : most;
        const size_t bytes = (size_t)count * sizeof(int32_t);
        void *staged = device->ops->stage(device->handle, bytes);
        QSA_REQUIRE(staged, QSA_ERR_DEVICE, "%s: %s gives no memory to send %zu bytes from", call,
                    device->ops->name(device->handle), bytes);
        memcpy(staged, qsa_page_table(cache, sequence) + first, bytes);
        int32_t *to = cache->device_tables + (size_t)sequence * (size_t)cache->table_pages + first;
        QSA_TRY(qsa_device_check(call, device, device->ops->send(device->handle, to, bytes, stream)));
        s->table_known = first + count;
    }
    return QSA_OK;
}

qsa_status qsa_device_tables(const char *call, qsa_cache *cache, void *stream) {
    for (int32_t i = 0; i < cache->config.max_sequences; i++)
        if (cache->sequences[i].alive)
            QSA_TRY(send_table(call, cache, i, stream));
    return QSA_OK;
}

void qsa_device_tables_changed(qsa_cache *cache) {
    if (cache->device && qsa_device_tables("cache", cache, cache->device->stream) != QSA_OK)
        note(cache, QSA_DEVICE_TABLES_FAILED);
}

qsa_cuda_cache qsa_device_cache(const qsa_cache *cache, int32_t layer_index) {
    const size_t bank = (size_t)cache->config.max_sequences * (size_t)cache->keep;
    const size_t first = cache->keep
                             ? 2 * bank * (size_t)layer_index
                             : (size_t)layer_index * (size_t)cache->config.pages * (size_t)cache->config.page_cells;
    return (qsa_cuda_cache){.geometry = cache->config.geometry,
                            .kv_type = cache->config.kv_type,
                            .block_key_type = cache->config.block_key_type,
                            .page_cells = cache->config.page_cells,
                            .table_pages = cache->table_pages,
                            .tables = cache->device_tables,
                            .k = qsa_cache_k(cache, layer_index),
                            .v = qsa_cache_v(cache, layer_index),
                            .k_scales = qsa_cache_k_scales(cache, layer_index),
                            .v_scales = qsa_cache_v_scales(cache, layer_index),
                            .block_keys = qsa_cache_blocks(cache, layer_index),
                            .keep = cache->keep,
                            .raw = qsa_raw_key_at(cache, first),
                            .raw_pending = qsa_raw_key_at(cache, first + bank),
                            .raw_positions = qsa_raw_positions_at(cache, first),
                            .raw_positions_pending = qsa_raw_positions_at(cache, first + bank),
                            .events = cache->device_events};
}

qsa_status qsa_device_commit(const char *call, const qsa_cache *cache, int32_t count) {
    const qsa_device *device = cache->device;
    if (count == 0)
        return QSA_OK;
    const qsa_cuda_cache layer = qsa_device_cache(cache, 0);
    const size_t most = STAGED / (3 * sizeof(int32_t));
    for (size_t first = 0; first < (size_t)count; first += most) {
        const size_t rest = (size_t)count - first, here = rest < most ? rest : most;
        const size_t bytes = here * 3 * sizeof(int32_t);
        void *staged = device->ops->stage(device->handle, bytes);
        QSA_REQUIRE(staged, QSA_ERR_DEVICE, "%s: %s gives no memory to send %zu bytes from", call,
                    device->ops->name(device->handle), bytes);
        memcpy(staged, cache->spans + 3 * first, bytes);
        int32_t *spans = cache->device_spans + 3 * first;
        QSA_TRY(qsa_device_check(call, device, device->ops->send(device->handle, spans, bytes, cache->device->stream)));
        const qsa_cuda_commit_args args = {.index_dim = cache->config.geometry.index_dim,
                                           .keep = cache->keep,
                                           .layers = cache->config.layers,
                                           .raw = layer.raw,
                                           .raw_pending = layer.raw_pending,
                                           .raw_positions = layer.raw_positions,
                                           .raw_positions_pending = layer.raw_positions_pending,
                                           .layer_slots = 2 * (int64_t)cache->config.max_sequences * cache->keep,
                                           .spans = spans,
                                           .count = (int32_t)here};
        QSA_TRY(qsa_device_check(call, device, device->ops->commit(device->handle, &args, cache->device->stream)));
    }
    return QSA_OK;
}
