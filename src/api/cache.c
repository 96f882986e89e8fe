// SPDX-License-Identifier: Apache-2.0
//
// Creation of a cache: checks, memory plan, and the counters. Sequences and the pending batch are in sequence.c.

#include "api/device.h"

#include <string.h>

void qsa_cache_config_init(qsa_cache_config *config, const qsa_geometry *geometry, int32_t cells) {
    if (!config)
        return;
    *config = (qsa_cache_config){.size = sizeof *config,
                                 .layers = 1,
                                 .kv_type = QSA_I8,
                                 .block_key_type = QSA_F32,
                                 .max_sequences = 1,
                                 .rollback = 64};
    if (!geometry || cells < 0 || geometry->ratio < 1 || geometry->ratio > QSA_MAX_RATIO)
        return;
    config->geometry = *geometry;
    config->page_cells = (64 + geometry->ratio - 1) / geometry->ratio * geometry->ratio;
    config->max_cells = cells > 0 ? cells : 1;
    config->pages = (int32_t)(((int64_t)config->max_cells + config->page_cells - 1) / config->page_cells);
}

#define AT_LEAST(field, low)                                                                                           \
    QSA_REQUIRE_ARG(c->field >= (low), "%s: config->%s is %d, must be at least %d", call, #field, (int)c->field,       \
                    (int)(low))

static qsa_status check_config(const char *call, const qsa_cache_config *c) {
    QSA_REQUIRE_ARG(c, "%s: config is null", call);
    QSA_REQUIRE_ARG(c->size == sizeof *c, "%s: config->size is %zu, this library's is %zu", call, c->size, sizeof *c);
    QSA_TRY(qsa_check_geometry(call, &c->geometry));
    AT_LEAST(layers, 1);
    AT_LEAST(page_cells, 1);
    AT_LEAST(pages, 1);
    AT_LEAST(max_sequences, 1);
    AT_LEAST(max_cells, 1);
    AT_LEAST(rollback, QSA_ROLLBACK_ALL);
    QSA_REQUIRE_ARG(qsa_is_float_type(c->kv_type) || c->kv_type == QSA_I8,
                    "%s: config->kv_type is %d, must be f32 (1), f16 (2), bf16 (3) or i8 (4)", call, (int)c->kv_type);
    QSA_REQUIRE_ARG(qsa_is_float_type(c->block_key_type),
                    "%s: config->block_key_type is %d, must be f32 (1), f16 (2) or bf16 (3)", call,
                    (int)c->block_key_type);
    QSA_REQUIRE_ARG(c->screen == 0 || c->screen == 1, "%s: config->screen is %d, must be 0 or 1", call, (int)c->screen);
    QSA_REQUIRE_ARG(c->page_cells % c->geometry.ratio == 0, "%s: config->page_cells is %d, no multiple of ratio %d",
                    call, (int)c->page_cells, (int)c->geometry.ratio);
    int64_t rows = (int64_t)c->pages * c->page_cells;
    QSA_REQUIRE_ARG(rows <= INT32_MAX && rows * c->geometry.kv_heads <= INT32_MAX,
                    "%s: config->pages %d of page_cells %d times kv_heads %d exceed %d rows", call, (int)c->pages,
                    (int)c->page_cells, (int)c->geometry.kv_heads, INT32_MAX);
    QSA_REQUIRE_ARG(c->max_cells <= INT32_MAX - QSA_MAX_RATIO, "%s: config->max_cells is %d, above %d", call,
                    (int)c->max_cells, INT32_MAX - QSA_MAX_RATIO);
    QSA_REQUIRE_ARG(c->rollback <= INT32_MAX - QSA_MAX_RATIO, "%s: config->rollback is %d, above %d", call,
                    (int)c->rollback, INT32_MAX - QSA_MAX_RATIO);
    return QSA_OK;
}

// Adds an array of a * b * c * d bytes behind *total, aligned to 64; *total becomes SIZE_MAX when it does not fit.
static size_t place(size_t *total, size_t a, size_t b, size_t c, size_t d) {
    const size_t factors[4] = {a, b, c, d};
    size_t bytes = 1, at = *total;
    for (int i = 0; i < 4; i++) {
        if (factors[i] && bytes > SIZE_MAX / factors[i])
            *total = SIZE_MAX;
        bytes *= factors[i];
    }
    if (*total == SIZE_MAX || bytes > SIZE_MAX - 63 || (bytes + 63) / 64 * 64 > SIZE_MAX - 1 - *total)
        *total = SIZE_MAX;
    else
        *total += (bytes + 63) / 64 * 64;
    return at;
}

qsa_status qsa_cache_plan(const char *call, const qsa_cache_config *config, qsa_layout *l) {
    QSA_TRY(check_config(call, config));
    const qsa_geometry *g = &config->geometry;
    const size_t pages = (size_t)config->pages, layers = (size_t)config->layers, cells = (size_t)config->page_cells;
    const size_t rows = pages * cells * (size_t)g->kv_heads, groups = (size_t)qsa_groups(g->head_dim);
    const size_t blocks = pages * (cells / (size_t)g->ratio), dim = (size_t)g->index_dim;
    const size_t sequences = (size_t)config->max_sequences;
    const size_t table = ((size_t)config->max_cells + cells - 1) / cells;
    *l = (qsa_layout){.kv_layer = rows * qsa_kv_row_bytes(config),
                      .scales_layer = config->kv_type == QSA_I8 ? rows * groups * 2 : 0,
                      .block_layer = blocks * dim * (config->block_key_type == QSA_F32 ? 4 : 2),
                      .screen_layer = config->screen ? blocks * (size_t)qsa_screen_stride(g->index_dim) : 0,
                      .screen_floats = config->screen ? blocks * sizeof(float) : 0};
    size_t total = 0;
    place(&total, sizeof(qsa_cache), 1, 1, 1);
    l->sequences = place(&total, sequences, sizeof(qsa_sequence), 1, 1);
    l->tables = place(&total, sequences, table, sizeof(int32_t), 1);
    l->free_list = place(&total, pages, sizeof(int32_t), 1, 1);
    l->pages = place(&total, pages, sizeof(qsa_page), 1, 1);
    l->written = place(&total, layers, 1, 1, 1);
    l->counts = place(&total, sequences, sizeof(int32_t), 1, 1);
    l->last_row = place(&total, sequences, sizeof(int32_t), 1, 1);
    l->records = place(&total, sequences, sizeof(qsa_snapshot_record), 1, 1);
    l->k = place(&total, layers, l->kv_layer, 1, 1);
    l->v = place(&total, layers, l->kv_layer, 1, 1);
    l->k_scales = place(&total, layers, l->scales_layer, 1, 1);
    l->v_scales = place(&total, layers, l->scales_layer, 1, 1);
    l->block_keys = place(&total, layers, l->block_layer, 1, 1);
    l->screen_codes = place(&total, layers, l->screen_layer, 1, 1);
    l->screen_scales = place(&total, layers, l->screen_floats, 1, 1);
    l->screen_residuals = place(&total, layers, l->screen_floats, 1, 1);
    size_t keep, owners;
    if (config->rollback == QSA_ROLLBACK_ALL) {
        keep = cells, owners = pages;
    } else {
        keep = (size_t)config->rollback + (size_t)g->ratio - 1, owners = 2 * sequences;
    }
    if (keep && owners > SIZE_MAX / keep)
        total = SIZE_MAX;
    l->raw = place(&total, layers, owners * keep, dim, sizeof(float));
    l->positions = place(&total, layers, owners * keep, 3, sizeof(int32_t));
    QSA_REQUIRE_ARG(total < SIZE_MAX / 2, "%s: config asks for more memory than an address holds: pages %d, layers %d",
                    call, (int)config->pages, (int)config->layers);
    l->total = total;
    return QSA_OK;
}

qsa_status qsa_cache_size(const qsa_cache_config *config, size_t *bytes) {
    QSA_REQUIRE_ARG(bytes, "qsa_cache_size: bytes is null");
    qsa_layout layout;
    QSA_TRY(qsa_cache_plan("qsa_cache_size", config, &layout));
    *bytes = layout.total;
    return QSA_OK;
}

qsa_status qsa_cache_get_parts(const qsa_cache_config *config, qsa_cache_parts *parts) {
    QSA_REQUIRE_STRUCT("qsa_cache_get_parts", parts, "parts");
    qsa_layout l;
    QSA_TRY(qsa_cache_plan("qsa_cache_get_parts", config, &l));
    // The arrays follow each other in this order.
    *parts = (qsa_cache_parts){.size = sizeof *parts,
                               .bytes = l.total,
                               .tables = l.k,
                               .keys = l.k_scales - l.k,
                               .scales = l.block_keys - l.k_scales,
                               .block_keys = l.screen_codes - l.block_keys,
                               .screen = l.raw - l.screen_codes,
                               .index_keys = l.total - l.raw};
    return QSA_OK;
}

// The pages, and behind them the page tables' copy, the counters and commit's list, in one allocation of the device.
static qsa_status open_on_device(qsa_context *context, qsa_cache *cache) {
    const char *call = "qsa_cache_create";
    const qsa_device *device = context->device;
    const size_t sequences = (size_t)cache->config.max_sequences, arrays = cache->layout.total - cache->layout.k;
    const size_t tables = sequences * (size_t)cache->table_pages * sizeof(int32_t);
    const size_t spans = sequences * 3 * sizeof(int32_t), events = 3 * sizeof(uint64_t);
    const size_t bytes = arrays + events + tables + spans; // arrays end at a multiple of 64
    void *memory;
    QSA_TRY(qsa_device_check(call, device, device->ops->alloc(device->handle, bytes, &memory)));
    cache->device = context->device;

    cache->device_bytes = bytes;
    cache->data = memory;
    cache->device_events = (unsigned long long *)(cache->data + arrays);
    cache->device_tables = (int32_t *)(cache->data + arrays + events);
    cache->device_spans = (int32_t *)(cache->data + arrays + events + tables);
    cache->spans = (int32_t *)(cache->base + cache->layout.k);
    cache->device_error = (_Atomic int *)(cache->spans + sequences * 3);
    atomic_init(cache->device_error, 0);
    QSA_TRY(qsa_device_check(
        call, device,
        device->ops->fill(device->handle, cache->device_events, 0, events + tables, cache->device->stream)));
    return QSA_OK;
}

qsa_status qsa_cache_create(qsa_context *context, const qsa_cache_config *config, qsa_cache **cache) {
    QSA_REQUIRE_ARG(context, "qsa_cache_create: context is null");
    QSA_REQUIRE_ARG(cache, "qsa_cache_create: cache is null");
    qsa_layout layout;
    QSA_TRY(qsa_cache_plan("qsa_cache_create", config, &layout));
    QSA_REQUIRE(!context->device || !config->screen, QSA_ERR_UNSUPPORTED,
                "qsa_cache_create: config->screen is 1, backend cuda has no screening");
    const size_t sequences = (size_t)config->max_sequences;
    const size_t host_bytes =
        context->device ? layout.k + sequences * 3 * sizeof(int32_t) + sizeof(_Atomic int) : layout.total;
    unsigned char *base = context->allocator.alloc(context->allocator.user, host_bytes, 64);
    QSA_REQUIRE(base, QSA_ERR_MEMORY, "qsa_cache_create: no memory for a cache of %zu bytes", host_bytes);
    qsa_cache *made = (qsa_cache *)base;
    memset(made, 0, sizeof *made);
    made->allocator = context->allocator;
    made->config = *config;
    made->layout = layout;
    made->page_blocks = config->page_cells / config->geometry.ratio;
    made->table_pages = (int32_t)(((int64_t)config->max_cells + config->page_cells - 1) / config->page_cells);
    made->keep = config->rollback == QSA_ROLLBACK_ALL ? 0 : config->rollback + config->geometry.ratio - 1;
    made->free_pages = config->pages;
    made->base = base;
    made->host_bytes = host_bytes;
    made->data = base + layout.k;
    made->sequences = (qsa_sequence *)(base + layout.sequences);
    made->free_list = (int32_t *)(base + layout.free_list);
    made->pages = (qsa_page *)(base + layout.pages);
    made->written = base + layout.written;
    made->counts = (int32_t *)(base + layout.counts);
    made->last_row = (int32_t *)(base + layout.last_row);
    made->records = (qsa_snapshot_record *)(base + layout.records);
    memset(made->sequences, 0, (size_t)config->max_sequences * sizeof(qsa_sequence));
    memset(made->pages, 0, (size_t)config->pages * sizeof(qsa_page));
    memset(made->written, 0, (size_t)config->layers);
    for (int32_t i = 0; i < config->pages; i++) // taken from the end: page 0 first
        made->free_list[i] = config->pages - 1 - i;
    const qsa_status status = context->device ? open_on_device(context, made) : QSA_OK;
    if (status != QSA_OK) {
        qsa_cache_destroy(made);
        return status;
    }
    *cache = made;
    return QSA_OK;
}

void qsa_cache_destroy(qsa_cache *cache) {
    if (!cache)
        return;
    if (cache->device) // waits for all work that is queued and reads it
        cache->device->ops->free(cache->device->handle, cache->data);
    qsa_allocator allocator = cache->allocator;
    allocator.free(allocator.user, cache->base, cache->host_bytes);
}

qsa_status qsa_cache_get_events(const qsa_cache *cache, qsa_cache_events *events) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_get_events: cache is null");
    QSA_REQUIRE_STRUCT("qsa_cache_get_events", events, "events");
    uint64_t counted[3];
    for (int i = 0; i < 3; i++)
        counted[i] = atomic_load(&cache->events[i]);
    if (cache->device) {
        qsa_move(cache, counted, cache->device_events, sizeof counted);
        qsa_arrive(cache);
        QSA_TRY(qsa_device_settle("qsa_cache_get_events", cache));
    }
    events->nan = counted[0];
    events->infinite = counted[1];
    events->saturated = counted[2];
    return QSA_OK;
}

qsa_status qsa_cache_reset_events(qsa_cache *cache) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_reset_events: cache is null");
    for (int i = 0; i < 3; i++)
        atomic_store(&cache->events[i], 0);
    if (!cache->device)
        return QSA_OK;
    static const uint64_t zeros[3] = {0};
    qsa_move(cache, cache->device_events, zeros, sizeof zeros);
    return qsa_device_settle("qsa_cache_reset_events", cache);
}

qsa_status qsa_cache_get_info(const qsa_cache *cache, qsa_cache_info *info) {
    QSA_REQUIRE_ARG(cache, "qsa_cache_get_info: cache is null");
    QSA_REQUIRE_STRUCT("qsa_cache_get_info", info, "info");
    *info = (qsa_cache_info){.size = sizeof *info,
                             .bytes = cache->host_bytes + cache->device_bytes,
                             .pages = cache->config.pages,
                             .free_pages = cache->free_pages,
                             .held_pages = cache->held_pages,
                             .sequences = cache->alive,
                             .pending_rows = cache->pending_rows};
    return QSA_OK;
}

size_t qsa_raw_slot(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t cell, int pending) {
    const qsa_cache_config *config = &cache->config;
    if (config->rollback == QSA_ROLLBACK_ALL) {
        size_t page = (size_t)qsa_page_table(cache, sequence)[cell / config->page_cells];
        return ((size_t)layer * (size_t)config->pages + page) * (size_t)config->page_cells +
               (size_t)(cell % config->page_cells);
    }
    size_t bank = pending ? 1 : 0;
    size_t owner = ((size_t)layer * 2 + bank) * (size_t)config->max_sequences + (size_t)sequence;
    return owner * (size_t)cache->keep + (size_t)(cell % cache->keep);
}
