// SPDX-License-Identifier: Apache-2.0
//
// Memory that a row does not select takes no part in it (0 x NaN is NaN): whatever the allocator leaves in
// it, and whatever was written there. And what is allocated: once, as much as was announced.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

// An allocator that fills with one byte, or with none (-1), and counts.
typedef struct {
    int fill;
    size_t held, peak, last;
    long allocations;
} hook;

static void *hook_alloc(void *user, size_t bytes, size_t align) {
    hook *h = user;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (p && h->fill >= 0)
        memset(p, h->fill, bytes);
    h->last = bytes;
    h->held += bytes;
    h->peak = h->held > h->peak ? h->held : h->peak;
    h->allocations++;
    return p;
}

static void hook_free(void *user, void *memory, size_t bytes) {
    hook *h = user;
    h->held -= bytes;
    free(memory);
}

enum { ROWS = 90 };

// ff: NaN in f32 and the halves, as scale too; 7f: huge in f32 and bf16; 7e: NaN as half.
static void allocator_fill(void) {
    const oracle_geometry g = small_geometry();
    const int fills[] = {0x00, 0xff, 0x7f, 0x7e, 0x80};
    rig_rows rows;
    rig_rows_init(&rows, &g, ROWS, 51);
    for (int t = 0; t < COUNT(kv_types); t++) {
        rig r[COUNT(fills)];
        rig_result result[COUNT(fills)];
        hook hooks[COUNT(fills)];
        for (int f = 0; f < COUNT(fills); f++) {
            hooks[f] = (hook){.fill = fills[f]};
            rig_config config = rig_defaults(&g, ROWS);
            config.kv_type = kv_types[t];
            config.block_key_type = key_types[t % 3];
            config.page_cells = 32; // the last page stays partly unwritten
            config.threads = 2;
            config.hook = (qsa_allocator){hook_alloc, hook_free, &hooks[f]};
            rig_open(&r[f], &config);
            rig_result_init(&result[f], &r[f], ROWS);
            rig_run(&r[f], &rows, 9, rules[t % 2], true, &result[f]);
            PLAIN_CHECK(same_rows(&r[0], &result[0], 0, &result[f], 0, ROWS));
            PLAIN_CHECK(all_finite(result[f].out, (size_t)ROWS * (size_t)g.heads * (size_t)g.head_dim));
            PLAIN_CHECK(all_finite(result[f].lse, (size_t)ROWS * (size_t)g.heads));
        }
        for (int f = 0; f < COUNT(fills); f++) {
            rig_result_free(&result[f]);
            rig_close(&r[f]);
            PLAIN_CHECK_INT(hooks[f].held, 0);
        }
    }
    rig_rows_free(&rows);
}

// 64 cells written straight into the cache, then rows that take 4 or 5 of the 16 blocks: the others hold
// NaN (f32, f16, bf16) or the largest codes and scales (i8), or zeros.
static void unselected_rows(void) {
    const oracle_geometry g = small_geometry();
    const size_t kv = (size_t)g.kv_heads * (size_t)g.head_dim, cells = 64;
    float *k = rig_new(cells * kv, sizeof *k), *v = rig_new(cells * kv, sizeof *v);
    float keys[16 * 24];
    rig_rows rows;
    rig_rows_init(&rows, &g, 7, 52);
    for (int32_t i = 0; i < rows.rows; i++)
        steer(&rows, &g, i, 0.9);
    for (int t = 0; t < COUNT(kv_types); t++) {
        rig r[2];
        rig_result result[2];
        for (int poison = 0; poison < 2; poison++) {
            const float junk = !poison ? 0 : kv_types[t] == QSA_I8 ? 8e6f : NAN;
            rng random = rng_make(53);
            rng_fill_normal(&random, cells * kv, 1, k);
            rng_fill_normal(&random, cells * kv, 1, v);
            memset(keys, 0, sizeof keys);
            for (size_t c = 0; c < cells; c++) {
                // The rule cut takes a part of a fifth block.
                const bool best = c / 4 == 2 || c / 4 == 3 || c / 4 == 8 || c / 4 == 15;
                const bool selected = best || c / 4 == 11;
                keys[c / 4 * 24 + 23] = best ? 1 : selected ? 0.5f : 0.25f;
                for (size_t d = 0; d < kv && !selected; d++)
                    k[c * kv + d] = v[c * kv + d] = junk;
            }
            rig_config config = rig_defaults(&g, 80);
            config.seed = 0;
            config.kv_type = kv_types[t];
            config.threads = 1 + poison;
            rig_open(&r[poison], &config);
            rig_result_init(&result[poison], &r[poison], rows.rows);
            rig_write(&r[poison], 0, 0, (int32_t)cells, k, v, keys);
            RIG_OK(qsa_cache_commit(r[poison].cache));
            rig_run(&r[poison], &rows, 7, rules[t % 2], false, &result[poison]);
        }
        PLAIN_CHECK(same_rows(&r[0], &result[0], 0, &result[1], 0, rows.rows));
        PLAIN_CHECK(all_finite(result[1].out, (size_t)rows.rows * (size_t)g.heads * (size_t)g.head_dim));
        for (int poison = 0; poison < 2; poison++) {
            rig_result_free(&result[poison]);
            rig_close(&r[poison]);
        }
    }
    free(k);
    free(v);
    rig_rows_free(&rows);
}

// The cache is one allocation of qsa_cache_size bytes; calls allocate nothing.
static void announced(void) {
    const oracle_geometry g = small_geometry();
    rig_rows rows;
    rig_rows_init(&rows, &g, ROWS, 54);
    for (int t = 0; t < COUNT(kv_types); t++) {
        hook h = {.fill = -1};
        rig r;
        rig_result result;
        rig_config config = rig_defaults(&g, ROWS);
        config.kv_type = kv_types[t];
        config.layers = 3;
        config.max_sequences = 2;
        config.rollback = t % 2 ? QSA_ROLLBACK_ALL : 5;
        config.hook = (qsa_allocator){hook_alloc, hook_free, &h};
        rig_open(&r, &config);
        qsa_cache_info info = {.size = sizeof info};
        RIG_OK(qsa_cache_get_info(r.cache, &info));
        PLAIN_CHECK_INT(h.last, info.bytes);
        const long allocations = h.allocations;
        const size_t held = h.held;
        rig_result_init(&result, &r, ROWS);
        const qsa_batch batch = rig_batch(&rows, &g, 0, ROWS, true);
        for (int32_t layer = 0; layer < 3; layer++)
            rig_stages(&r, layer, &batch, rules[t % 2], &result);
        for (int32_t layer = 0; layer < 3; layer++)
            rig_forward(&r, layer, &batch, rules[t % 2], &result);
        RIG_OK(qsa_cache_commit(r.cache));
        PLAIN_CHECK_INT(h.allocations, allocations);
        PLAIN_CHECK_INT(h.peak, held);
        rig_result_free(&result);
        rig_close(&r);
        PLAIN_CHECK_INT(h.held, 0);
    }
    rig_rows_free(&rows);
}

int main(void) {
    PLAIN_RUN(allocator_fill);
    PLAIN_RUN(unselected_rows);
    PLAIN_RUN(announced);
    return plain_finish();
}
