// SPDX-License-Identifier: Apache-2.0
//
// Byte offsets above 2^31 and 2^32 in every array of a cache, by layers and within one (int32 offsets at
// 349,525 cells x 12 layers overflow elsewhere). Looks inside the library for one thing: the order in
// which pages are taken.
// LABELS: real
// RUNNER: plain
#include "lazy_memory.h"

#include "api/cache.h"
#include "cases.h"

enum { SHORT = 150 };

// False, and the test skipped, where the system promises no more memory than it has.
static bool can_map(size_t bytes, const char *test) {
    hook h = {0};
    void *p = hook_alloc(&h, bytes, 64);
    if (!p) {
        plain_skip(test, "no address space without a reservation");
        return false;
    }
    hook_free(&h, p, bytes);
    return true;
}

// One batch of every layer, each layer with rows of its own and with another set of kernels.
static void run_layers(rig *r, const rig_rows *rows, int32_t first, int32_t count, rig_result *results) {
    const oracle_geometry *g = &r->config.geometry;
    const char *wheres[16];
    const int kernels = rig_wheres(wheres);
    for (int32_t layer = 0; layer < r->config.layers; layer++) {
        const qsa_batch batch = rig_batch(&rows[layer], g, first, count, true);
        rig_result view = results[layer];
        view.selection.ids += first * view.selection.stride;
        view.selection.count += first;
        view.selection.cut_index += first;
        view.selection.cut_cells += first;
        view.out += (size_t)first * (size_t)g->heads * (size_t)g->head_dim;
        view.lse += first * g->heads;
        rig_force(r->context, wheres[layer % kernels]);
        rig_forward(r, layer, &batch, QSA_RULE_OFFICIAL, &view);
    }
    RIG_OK(qsa_cache_commit(r->cache));
}

static void compare_layer(const rig *near, const rig *far, int32_t layer, const rig_rows *rows, const rig_result *want,
                          const rig_result *got) {
    const rig_config *c = &near->config;
    const size_t row = (size_t)c->geometry.kv_heads * (size_t)c->geometry.head_dim * rig_element(c->kv_type);
    const size_t key = (size_t)c->geometry.index_dim * rig_element(c->block_key_type);
    const int32_t blocks = SHORT / c->geometry.ratio;
    rig_stored a, b;
    rig_read(near, layer, 0, &a);
    rig_read(far, layer, 0, &b);
    PLAIN_CHECK_BYTES(b.k_bits, a.k_bits, SHORT * row);
    PLAIN_CHECK_BYTES(b.v_bits, a.v_bits, SHORT * row);
    PLAIN_CHECK_BYTES(b.key_bits, a.key_bits, (size_t)blocks * key);
    for (int32_t i = 0; i < SHORT; i++)
        PLAIN_CHECK(!rows->attend[i] || same_rows(near, want, i, got, i, 1));
    rig_stored_free(&a);
    rig_stored_free(&b);
}

// 150 cells in the pages at the end of a pool of `cells` cells, in many layers of different contents, against
// the same cells in a small cache. The order of the free list is turned around by hand, since pages
// are taken from the front and filling them would take all this memory.
static void far_offsets(const oracle_geometry *g, qsa_type kv_type, qsa_type key_type, int32_t layers, int32_t cells,
                        int32_t rollback) {
    hook h = {0};
    rig far, near;
    rig_result *got = rig_new((size_t)layers, sizeof *got), *want = rig_new((size_t)layers, sizeof *want);
    rig_rows *rows = rig_new((size_t)layers, sizeof *rows);
    rig_config config = rig_defaults(g, SHORT);
    config.kv_type = kv_type;
    config.block_key_type = key_type;
    config.rollback = rollback;
    config.layers = layers;
    rig_open(&near, &config);
    config.page_cells = 64;
    config.pages = cells / 64;
    config.hook = (qsa_allocator){hook_alloc, hook_free, &h};
    rig_open(&far, &config);
    for (int32_t i = 0; i < config.pages; i++)
        far.cache->free_list[i] = i;
    for (int32_t layer = 0; layer < layers; layer++) {
        rig_rows_init(&rows[layer], g, SHORT, 93 + (uint64_t)layer);
        for (int32_t i = 0; i < SHORT; i++)
            rows[layer].attend[i] = i % 8 == 0 || i == SHORT - 1;
        rig_result_init(&want[layer], &near, SHORT);
        rig_result_init(&got[layer], &far, SHORT);
    }
    for (int32_t first = 0; first < SHORT; first += 61) {
        const int32_t count = SHORT - first < 61 ? SHORT - first : 61;
        run_layers(&near, rows, first, count, want);
        run_layers(&far, rows, first, count, got);
    }
    const qsa_layout *l = &far.cache->layout;
    printf("%d layers: cache %.1f GiB; keys of a layer %.2f GiB, of all %.2f; block keys %.2f and %.2f\n", layers,
           (double)l->total / 0x1p30, (double)l->kv_layer / 0x1p30, (double)l->kv_layer * layers / 0x1p30,
           (double)l->block_layer / 0x1p30, (double)l->block_layer * layers / 0x1p30);
    PLAIN_CHECK((uint64_t)l->kv_layer * (uint64_t)layers > UINT64_C(1) << 32);
    for (int32_t layer = 0; layer < layers; layer++) {
        compare_layer(&near, &far, layer, &rows[layer], &want[layer], &got[layer]);
        rig_result_free(&got[layer]);
        rig_result_free(&want[layer]);
        rig_rows_free(&rows[layer]);
    }
    rig_close(&near);
    rig_close(&far);
    free(got);
    free(want);
    free(rows);
}

// The real geometry's slice of one KV head, twelve layers and more: offsets grow by layers.
static void offsets_by_layer(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.heads = 12;
    g.kv_heads = 1;
    g.budget = 64;
    if (!can_map((size_t)20 << 30, __func__))
        return;
    far_offsets(&g, QSA_I8, QSA_F32, 20, 1048576, 64);
    far_offsets(&g, QSA_F16, QSA_F16, 12, 1048576, QSA_ROLLBACK_ALL);
}

// The largest heads, in blocks of one cell: keys and block keys of one layer take 5 GiB each, as do the
// raw index keys, which are all kept, so that every kernel's own offsets pass 2^32.
static void offsets_within_a_layer(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.heads = 2;
    g.kv_heads = 1;
    g.head_dim = 1024;
    g.index_dim = 1024;
    g.index_heads = 1;
    g.ratio = 1;
    g.budget = 64;
    if (!can_map((size_t)128 << 30, __func__))
        return;
    far_offsets(&g, QSA_F32, QSA_F32, 5, 1048576 + 262144, QSA_ROLLBACK_ALL);
}

int main(void) {
    PLAIN_RUN(offsets_by_layer);
    PLAIN_RUN(offsets_within_a_layer);
    return plain_finish();
}
