// SPDX-License-Identifier: Apache-2.0
//
// Histories: settings from a seed, opening and closing, and tokens through forward.
#include "history.h"
#include "host/host_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

qsa_backend hx_backend = QSA_BACKEND_CPU;

void hx_fail(hx_state *h, const char *format, ...) {
    if (h->failure[0])
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(h->failure, sizeof h->failure, format, list);
    va_end(list);
}

static hx_setup setup_of(rng *r) {
    hx_setup s = {.threads = rng_range(r, 1, 2), .positions_per_row = rng_below(r, 2) ? 3 : 1};
    const uint32_t which = rng_below(r, 4);
    s.geometry = which == 0 ? fx_geometry_random(r) : which == 1 ? fx_geometry_wide() : fx_geometry_small();
    const int32_t rollbacks[] = {0, 3, 64, QSA_ROLLBACK_ALL};
    const int32_t page_cells = s.geometry.ratio * rng_range(r, 1, 12), cells = rng_range(r, 60, HX_MAX_CELLS);
    s.cache = (qsa_cache_config){.size = sizeof s.cache,
                                 .geometry = s.geometry,
                                 .layers = HX_LAYERS,
                                 .kv_type = (qsa_type)rng_range(r, QSA_F32, QSA_I8),
                                 .block_key_type = (qsa_type)rng_range(r, QSA_F32, QSA_BF16),
                                 .page_cells = page_cells,
                                 .pages = rng_range(r, 1, 4) * (cells / page_cells + 1),
                                 .max_sequences = HX_SLOTS,
                                 .max_cells = cells,
                                 .rollback = rollbacks[rng_below(r, 4)],
                                 .screen = (int32_t)rng_below(r, 2)};
    if (hx_backend == QSA_BACKEND_CUDA)
        s.cache.screen = 0;
    return s;
}

hx_state *hx_open(uint64_t seed, hx_fault fault) {
    hx_state *h = fx_alloc(sizeof *h);
    memset(h, 0, sizeof *h);
    h->random = rng_make(seed);
    h->setup = setup_of(&h->random);
    h->fault = fault;
    const int32_t tokens = HX_TOKENS;
    h->world = fx_world_make(seed ^ 0x5eed, &h->setup.geometry, HX_LAYERS, 1, &tokens, 1);
    h->memory = heap_make(HEAP_RANDOM);
    qsa_context_config c;
    qsa_context_config_init(&c);
    c.threads = h->setup.threads;
    c.backend = hx_backend;
    c.allocator = heap_hook(&h->memory);
    FX_OK(qsa_context_create(&c, &h->context));
    for (int32_t i = 0; i < HX_LAYERS; i++)
        h->layers[i] = fx_make_layer(h->context, h->world, i);
    FX_OK(qsa_cache_create(h->context, &h->setup.cache, &h->cache));
    return h;
}

void hx_close(hx_state *h) {
    qsa_cache_destroy(h->cache);
    for (int32_t i = 0; i < HX_LAYERS; i++)
        qsa_layer_destroy(h->layers[i]);
    qsa_context_destroy(h->context);
    fx_world_free(h->world);
    free(h->saved);
    free(h);
}

// The raw rows of tokens, one array.
static qsa_rows gather(const hx_state *h, int32_t layer, fx_array array, const hx_rows *rows, float **memory) {
    int32_t heads, dim;
    fx_shape(&h->setup.geometry, array, &heads, &dim);
    const size_t row = (size_t)heads * (size_t)dim;
    *memory = fx_alloc((size_t)rows->count * row * sizeof(float));
    for (int32_t i = 0; i < rows->count; i++)
        memcpy(*memory + (size_t)i * row, fx_values(h->world, layer, array, rows->tokens[i]), row * sizeof(float));
    return (qsa_rows){*memory, QSA_F32, (int64_t)(row * sizeof(float)), (int64_t)((size_t)dim * sizeof(float))};
}

qsa_status hx_forward(hx_state *h, qsa_cache *cache, int32_t layer, const hx_rows *rows, float *out,
                      qsa_selection *give, float *lse) {
    const qsa_geometry *g = &h->setup.geometry;
    const size_t row = (size_t)g->heads * (size_t)g->head_dim;
    float *memory[FX_ARRAYS], *own = out ? NULL : fx_alloc((size_t)rows->count * row * sizeof(float));
    const int32_t axes = h->setup.positions_per_row;
    int32_t *positions = fx_alloc((size_t)rows->count * 3 * sizeof(int32_t));
    for (int32_t i = 0; i < rows->count; i++) // a function of cell and token alone
        for (int32_t axis = 0; axis < axes; axis++)
            positions[i * axes + axis] = rows->cells[i] + rows->tokens[i] * (axis + 1) % 5;
    qsa_batch batch = {.size = sizeof batch,
                       .rows = rows->count,
                       .sequences = rows->sequences,
                       .positions = positions,
                       .positions_per_row = axes,
                       .q = gather(h, layer, FX_Q, rows, &memory[FX_Q]),
                       .k = gather(h, layer, FX_K, rows, &memory[FX_K]),
                       .v = gather(h, layer, FX_V, rows, &memory[FX_V]),
                       .index_q = gather(h, layer, FX_INDEX_Q, rows, &memory[FX_INDEX_Q]),
                       .index_k = gather(h, layer, FX_INDEX_K, rows, &memory[FX_INDEX_K]),
                       .gate = gather(h, layer, FX_GATE, rows, &memory[FX_GATE])};
    const qsa_rows_out to = {out ? out : own, QSA_F32, (int64_t)(row * 4), (int64_t)g->head_dim * 4};
    const qsa_forward_options options = {.size = sizeof options, .give = give, .lse = lse};
    qsa_status status;
    if (host_is_device(h->context)) {
        status = host_forward(h->context, g, h->layers[layer], cache, layer, &batch, &options, &to);
    } else {
        size_t bytes;
        FX_OK(qsa_workspace_size(h->context, cache, QSA_STAGE_FORWARD, rows->count, &bytes));
        void *workspace = fx_alloc(bytes);
        status = qsa_forward(h->context, h->layers[layer], cache, layer, &batch, &options, &to, workspace, bytes);
        free(workspace);
    }
    for (int i = 0; i < FX_ARRAYS; i++)
        free(memory[i]);
    free(positions);
    free(own);
    return status;
}
