// SPDX-License-Identifier: Apache-2.0
//
// The cache's memory. One allocation holds everything, at offsets computed from the configuration (on a device two: what comes
// before k stays in host memory, and the page tables have a copy there):
//
//   per layer and page   k, v            [page][kv_head][cell of page][head_dim]   codes or numbers
//                        k_scales, ...   [page][kv_head][cell of page][groups]     halves, i8 only
//                        block_keys      [page][block of page][index_dim]
//                        screen_codes    [page][block of page][qsa_screen_stride(index_dim)] with config.screen, and
//                        screen_scales, screen_residuals   [page][block of page] floats: what the kernel screen_key makes
//   raw index keys       rollback N:     two banks [layer][sequence][N + r - 1][index_dim] with positions: bank 0 holds the
//                                        last committed cells (cell c at c % keep), bank 1 those of the pending batch, so
//                                        that nothing committed is overwritten before commit
//                        rollback all:   [layer][page][cell of page][index_dim]
//   per sequence         page table, state
//   per page             how many sequences and holds refer to it, how many of these are holds
//
// A page that more than one refers to is never written: pages.c copies the last page of a sequence before a batch goes there.
//
// Keeping a block's cells of one KV head together makes each selected block one contiguous read (1 KiB in i8 at the preset).

#ifndef QSA_API_CACHE_H
#define QSA_API_CACHE_H

#include "api/internal.h"

#include <stdatomic.h>

typedef struct qsa_layout {
    size_t k, v, k_scales, v_scales, block_keys; // offsets of layer 0
    size_t kv_layer, scales_layer, block_layer;  // bytes per layer of each of these arrays
    size_t screen_codes, screen_scales, screen_residuals;
    size_t screen_layer, screen_floats; // bytes per layer of the codes, and of scales and residuals each
    size_t raw, positions;              // raw index keys and [3] positions
    size_t tables, sequences, free_list, pages, written, counts, last_row, records;
    size_t total;
} qsa_layout;

typedef struct qsa_sequence {
    int32_t alive;
    int32_t length;      // committed cells
    int32_t pages;       // in the page table, pending ones included
    int32_t pending;     // rows behind length
    int32_t raw_first;   // raw index keys of cells raw_first..length-1 are kept
    int32_t pending_raw; // 1 while every pending row has its raw index key
    int32_t shared;      // 1 + the page that the one at `length` is a copy of until commit or discard, 0: none
    int32_t table_known; // entries of its page table that a device has
} qsa_sequence;

typedef struct qsa_page {
    uint32_t references; // page tables that name it, sequences' `shared`, and holds; 0: free
    int32_t holds;
    int32_t index; // with holds: its place in the page tables of sequences
    int32_t raw;   // with holds and rollback all: 1 if the raw index keys of its cells are there
} qsa_page;

// A sequence in a snapshot (api/snapshot.h).
typedef struct qsa_snapshot_record {
    int32_t length;
    int32_t raw_first; // raw index keys of cells raw_first.. were kept
    int32_t raw_from;  // those of cells raw_from.. are in the snapshot
    int32_t base;      // record that has the first `shared` cells, -1: none
    int32_t shared;    // a multiple of ratio, or length
    int32_t listed;    // place in the caller's list
} qsa_snapshot_record;

struct qsa_cache {
    qsa_allocator allocator;
    qsa_cache_config config;
    qsa_layout layout;
    int32_t page_blocks; // page_cells / ratio
    int32_t table_pages; // pages per page table
    int32_t keep;        // raw index keys kept per sequence (rollback N)
    int32_t free_pages;
    int32_t held_pages;
    int32_t alive;
    int32_t pending_rows;
    unsigned char *base;          // of the allocation in host memory
    size_t host_bytes;            // its size
    unsigned char *data;          // the arrays from layout.k on: behind base, or on a device
    qsa_sequence *sequences;      // [max_sequences]
    int32_t *free_list;           // [pages], the first free_pages are free
    qsa_page *pages;              // [pages]
    uint8_t *written;             // [layers] layers that hold the pending batch
    int32_t *counts;              // [max_sequences] scratch of the writer: rows of the batch being checked
    int32_t *last_row;            // [max_sequences] scratch of the writer
    qsa_snapshot_record *records; // [max_sequences] scratch of the writer
    _Atomic uint64_t events[3];
    // On a device: the context's that made the cache, on whose stream its own work is queued, and what else lies there.
    qsa_device *device;
    size_t device_bytes;
    int32_t *device_tables; // [max_sequences][table_pages]
    int32_t *device_spans;  // [max_sequences][3]
    unsigned long long *device_events;
    int32_t *spans;            // [max_sequences][3] host scratch of commit
    _Atomic int *device_error; // the first error of a copy that could not return it
};

static inline unsigned char *qsa_cache_array(const qsa_cache *cache, size_t offset) {
    return cache->data + (offset - cache->layout.k);
}

// Copies into, out of and inside `data`, in the order of the calls. What a device sends to the host is there after
// qsa_arrive.
void qsa_device_move(const qsa_cache *cache, void *to, const void *from, size_t bytes);
void qsa_device_move_rows(const qsa_cache *cache, void *to, size_t to_stride, const void *from, size_t from_stride,
                          size_t bytes, size_t rows);
void qsa_device_arrive(const qsa_cache *cache);
// After a sequence got pages otherwise than by a batch (fork, attach, load, a batch taken back): readers find them on the device.
void qsa_device_tables_changed(qsa_cache *cache);
static inline void qsa_move(const qsa_cache *cache, void *to, const void *from, size_t bytes) {
    if (cache->device)
        qsa_device_move(cache, to, from, bytes);
    else
        memcpy(to, from, bytes);
}
static inline void qsa_move_rows(const qsa_cache *cache, void *to, size_t to_stride, const void *from,
                                 size_t from_stride, size_t bytes, size_t rows) {
    if (cache->device) {
        qsa_device_move_rows(cache, to, to_stride, from, from_stride, bytes, rows);
        return;
    }
    for (size_t i = 0; i < rows; i++)
        memcpy((unsigned char *)to + i * to_stride, (const unsigned char *)from + i * from_stride, bytes);
}
static inline void qsa_arrive(const qsa_cache *cache) {
    if (cache->device)
        qsa_device_arrive(cache);
}

static inline int32_t qsa_pages_for(const qsa_cache *cache, int64_t cells) {
    return (int32_t)((cells + cache->config.page_cells - 1) / cache->config.page_cells);
}

// Checks a configuration and computes its memory.
qsa_status qsa_cache_plan(const char *call, const qsa_cache_config *config, qsa_layout *layout);

static inline int32_t *qsa_page_table(const qsa_cache *cache, int32_t sequence) {
    return (int32_t *)(cache->base + cache->layout.tables) + (size_t)sequence * (size_t)cache->table_pages;
}

// Row number of a cell for KV head 0 in a layer's k and v; KV head g lies g * page_cells rows further.
static inline int32_t qsa_cell_row(const qsa_cache *cache, const int32_t *table, int32_t cell) {
    const int32_t page_cells = cache->config.page_cells;
    return table[cell / page_cells] * page_cells * cache->config.geometry.kv_heads + cell % page_cells;
}

static inline size_t qsa_kv_row_bytes(const qsa_cache_config *config) {
    size_t element = config->kv_type == QSA_I8 ? 1 : config->kv_type == QSA_F32 ? 4 : 2;
    return element * (size_t)config->geometry.head_dim;
}
static inline unsigned char *qsa_cache_k(const qsa_cache *cache, int32_t layer) {
    return qsa_cache_array(cache, cache->layout.k) + (size_t)layer * cache->layout.kv_layer;
}
static inline unsigned char *qsa_cache_v(const qsa_cache *cache, int32_t layer) {
    return qsa_cache_array(cache, cache->layout.v) + (size_t)layer * cache->layout.kv_layer;
}
static inline uint16_t *qsa_cache_k_scales(const qsa_cache *cache, int32_t layer) {
    return (uint16_t *)(qsa_cache_array(cache, cache->layout.k_scales) + (size_t)layer * cache->layout.scales_layer);
}
static inline uint16_t *qsa_cache_v_scales(const qsa_cache *cache, int32_t layer) {
    return (uint16_t *)(qsa_cache_array(cache, cache->layout.v_scales) + (size_t)layer * cache->layout.scales_layer);
}
static inline unsigned char *qsa_cache_blocks(const qsa_cache *cache, int32_t layer) {
    return qsa_cache_array(cache, cache->layout.block_keys) + (size_t)layer * cache->layout.block_layer;
}
// Where the key of a block lies in a layer's block keys.
static inline unsigned char *qsa_block_key(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t block) {
    const qsa_cache_config *config = &cache->config;
    size_t page = (size_t)qsa_page_table(cache, sequence)[block / cache->page_blocks];
    size_t row = page * (size_t)cache->page_blocks + (size_t)(block % cache->page_blocks);
    size_t element = config->block_key_type == QSA_F32 ? 4 : 2;
    return qsa_cache_blocks(cache, layer) + row * element * (size_t)config->geometry.index_dim;
}
static inline int8_t *qsa_cache_screen_codes(const qsa_cache *cache, int32_t layer) {
    return (int8_t *)(qsa_cache_array(cache, cache->layout.screen_codes) + (size_t)layer * cache->layout.screen_layer);
}
static inline float *qsa_cache_screen_scales(const qsa_cache *cache, int32_t layer) {
    return (float *)(qsa_cache_array(cache, cache->layout.screen_scales) + (size_t)layer * cache->layout.screen_floats);
}
static inline float *qsa_cache_screen_residuals(const qsa_cache *cache, int32_t layer) {
    return (float *)(qsa_cache_array(cache, cache->layout.screen_residuals) +
                     (size_t)layer * cache->layout.screen_floats);
}
// Makes the screening copy of a block key that has been stored, if the cache has one.
void qsa_screen_block(const qsa_cache *cache, qsa_screen_key_fn screen_key, int32_t layer, int32_t sequence,
                      int32_t block);

// Number of a cell's raw index key among all; pending cells live in bank 1 (rollback N).
size_t qsa_raw_slot(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t cell, int pending);
static inline float *qsa_raw_key_at(const qsa_cache *cache, size_t slot) {
    return (float *)qsa_cache_array(cache, cache->layout.raw) + slot * (size_t)cache->config.geometry.index_dim;
}
static inline int32_t *qsa_raw_positions_at(const qsa_cache *cache, size_t slot) {
    return (int32_t *)qsa_cache_array(cache, cache->layout.positions) + slot * 3;
}

// QSA_OK if the number names a living sequence.
qsa_status qsa_check_sequence(const char *call, const qsa_cache *cache, int32_t sequence);
qsa_status qsa_check_layer_index(const char *call, const qsa_cache *cache, int32_t layer);

// QSA_ERR_STATE if it has pending rows.
qsa_status qsa_check_no_pending(const char *call, const qsa_cache *cache, int32_t sequence);
// The lowest number that is not alive, or -1.
int32_t qsa_free_sequence(const qsa_cache *cache);

// A page from the free list, with one reference; there must be one.
int32_t qsa_page_take(qsa_cache *cache);
// Takes one reference away; the last one frees the page.
void qsa_page_drop(qsa_cache *cache, int32_t page);
// Drops all pages of a sequence but the first `keep`.
void qsa_pages_cut(qsa_cache *cache, int32_t sequence, int32_t keep);
// Copies the first cells of a page, of all layers, and the keys of their complete blocks.
void qsa_page_copy(qsa_cache *cache, int32_t from, int32_t to, int32_t cells);
// 1 if appending to the sequence writes into a page that others refer to.
int qsa_pages_shared_end(const qsa_cache *cache, int32_t sequence);
// Puts a copy there, and the page itself back.
void qsa_pages_own_end(qsa_cache *cache, int32_t sequence);
void qsa_pages_share_end(qsa_cache *cache, int32_t sequence);

// Makes cache->counts the pending batch of `rows` rows: reserves pages for it, or checks that it is the one that is pending.
// Nothing has changed when this fails. qsa_pending_check does the checking alone.
qsa_status qsa_pending_check(const char *call, const qsa_cache *cache, int32_t rows);
void qsa_pending_begin(qsa_cache *cache, int32_t rows);

#endif
