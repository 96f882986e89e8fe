// SPDX-License-Identifier: Apache-2.0
//
// The memory hook: every allocation of every *_create fails in turn; what is taken is what is given back, and a cache takes
// exactly qsa_cache_size. The hook's blocks are aligned to 64 bytes and no further, with guards around them.
// LABELS: small cross
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

// Something that *_create may not touch upon failure.
static char untouched;

static void context_failures(void) {
    const int32_t threads[] = {1, 2, 5};
    for (size_t t = 0; t < 3; t++) {
        heap h = heap_make(0xff);
        qsa_context_config c;
        qsa_context_config_init(&c);
        c.threads = threads[t];
        c.allocator = heap_hook(&h);
        qsa_status status = QSA_ERR_MEMORY;
        long fail = 0;
        for (; status != QSA_OK && fail < 10; fail++) {
            h = heap_make(0xff);
            h.fail_at = fail;
            qsa_context *context = (qsa_context *)&untouched;
            status = qsa_context_create(&c, &context);
            if (status == QSA_OK) {
                PLAIN_CHECK(h.live_bytes > 0);
                qsa_context_destroy(context);
            } else {
                PLAIN_CHECK_INT(status, QSA_ERR_MEMORY);
                PLAIN_CHECK(context == (qsa_context *)&untouched);
                PLAIN_CHECK(strstr(qsa_last_error(), "memory") != NULL);
                PLAIN_CHECK_INT(h.failures, 1);
            }
            PLAIN_CHECK_INT(h.live_bytes, 0);
            PLAIN_CHECK_INT(h.wrong, 0);
        }
        PLAIN_CHECK(status == QSA_OK && fail - 1 == (threads[t] > 1 ? 2 : 1));
    }
}

static fx_world *make_world(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {9, 30};
    return fx_world_make(3, &g, 2, 2, lengths, 1);
}

static void layer_and_cache_failures(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    heap h = heap_make(0);
    o.heap = &h;
    fx_session s = fx_open(world, &o);
    const int32_t count[FX_MAX_SEQUENCES] = {5, 6};
    fx_step(&s, count, NULL);
    size_t bytes, after;
    unsigned char *before = fx_cache_bytes(s.cache, &bytes);
    const size_t live = h.live_bytes;
    h.fail_at = h.calls;
    qsa_layer *layer = (qsa_layer *)&untouched;
    const qsa_layer_config lc = {sizeof lc,          world->geometry,    QSA_NORM_FACTOR,    QSA_F32,
                                 world->norms[0][0], world->norms[0][1], world->norms[0][2], world->norms[0][3]};
    PLAIN_CHECK_INT(qsa_layer_create(s.context, &lc, &layer), QSA_ERR_MEMORY);
    PLAIN_CHECK(layer == (qsa_layer *)&untouched);
    PLAIN_CHECK(strstr(qsa_last_error(), "memory") != NULL);
    h.fail_at = h.calls;
    qsa_cache *cache = (qsa_cache *)&untouched;
    PLAIN_CHECK_INT(qsa_cache_create(s.context, &s.config, &cache), QSA_ERR_MEMORY);
    PLAIN_CHECK(cache == (qsa_cache *)&untouched);
    PLAIN_CHECK(strstr(qsa_last_error(), "memory") != NULL);
    PLAIN_CHECK_INT(h.failures, 2);
    PLAIN_CHECK_INT(h.live_bytes, live);
    unsigned char *now = fx_cache_bytes(s.cache, &after);
    PLAIN_CHECK_BYTES(now, before, bytes);
    free(now);
    free(before);
    // Once there is memory again, both work.
    h.fail_at = -1;
    FX_OK(qsa_layer_create(s.context, &lc, &layer));
    FX_OK(qsa_cache_create(s.context, &s.config, &cache));
    qsa_cache_destroy(cache);
    qsa_layer_destroy(layer);
    PLAIN_CHECK_INT(h.live_bytes, live);
    fx_close(&s);
    PLAIN_CHECK_INT(h.live_bytes, 0);
    PLAIN_CHECK_INT(h.frees, h.calls - h.failures);
    PLAIN_CHECK_INT(h.wrong, 0);
    fx_world_free(world);
}

static void cache_size_is_exact(void) {
    rng r = rng_make(5);
    heap h = heap_make(HEAP_RANDOM);
    qsa_context_config c;
    qsa_context_config_init(&c);
    c.allocator = heap_hook(&h);
    qsa_context *context = NULL;
    FX_OK(qsa_context_create(&c, &context));
    for (int round = 0; round < 60; round++) {
        const qsa_geometry g = fx_geometry_random(&r);
        qsa_cache_config config;
        qsa_cache_config_init(&config, &g, rng_range(&r, 0, 500));
        config.layers = rng_range(&r, 1, 4);
        config.kv_type = (qsa_type)rng_range(&r, QSA_F32, QSA_I8);
        config.block_key_type = (qsa_type)rng_range(&r, QSA_F32, QSA_BF16);
        config.max_sequences = rng_range(&r, 1, 9);
        config.page_cells = g.ratio * rng_range(&r, 1, 20);
        config.rollback = rng_range(&r, -1, 80);
        size_t bytes = 0;
        FX_OK(qsa_cache_size(&config, &bytes));
        const size_t live = h.live_bytes;
        const long calls = h.calls;
        qsa_cache *cache = NULL;
        FX_OK(qsa_cache_create(context, &config, &cache));
        PLAIN_CHECK_INT(h.live_bytes - live, bytes);
        PLAIN_CHECK_INT(h.calls - calls, 1);
        qsa_cache_info info = {.size = sizeof info};
        FX_OK(qsa_cache_get_info(cache, &info));
        PLAIN_CHECK_INT(info.bytes, bytes);
        PLAIN_CHECK_INT(info.free_pages, config.pages);
        qsa_cache_destroy(cache);
        PLAIN_CHECK_INT(h.live_bytes, live);
    }
    qsa_context_destroy(context);
    PLAIN_CHECK_INT(h.live_bytes, 0);
    PLAIN_CHECK_INT(h.wrong, 0);
}

static unsigned char stream[1 << 18];
static size_t written, taken;
static int keep(void *user, const void *data, size_t bytes) {
    (void)user;
    memcpy(stream + written, data, bytes);
    written += bytes;
    return 0;
}
static int give(void *user, void *data, size_t bytes) {
    (void)user;
    memcpy(data, stream + taken, bytes);
    taken += bytes;
    return 0;
}

// Forks, drafts, truncations, held pages, saving and loading work when there is no memory at all: they ask for none.
static void nothing_else_allocates(void) {
    fx_world *world = make_world();
    fx_options o = fx_options_default();
    heap h = heap_make(0);
    o.heap = &h;
    o.page_cells = 4;
    o.pages = 40;
    o.max_sequences = 6;
    fx_session s = fx_open(world, &o);
    const int32_t count[FX_MAX_SEQUENCES] = {5, 10}, more[FX_MAX_SEQUENCES] = {2, 3}, rows[] = {1, 0};
    fx_step(&s, count, NULL);
    h.fail_at = h.calls;
    int32_t fork, page, loaded, numbers[6], tokens[64];
    FX_OK(qsa_sequence_fork(s.cache, s.sequence[0], &fork));
    const int32_t batch_rows = fx_next(&s, more, tokens);
    for (int32_t layer = 0; layer < 2; layer++) {
        fx_batch batch = fx_batch_make(&s, layer, batch_rows, tokens);
        fx_compute(&s, layer, &batch, NULL);
        fx_batch_free(&batch);
    }
    FX_OK(qsa_cache_accept(s.cache, 2, s.sequence, rows));
    FX_OK(qsa_sequence_truncate(s.cache, s.sequence[1], 7));
    FX_OK(qsa_page_hold(s.cache, s.sequence[1], 0, &page));
    FX_OK(qsa_sequence_reset(s.cache, s.sequence[1]));
    FX_OK(qsa_sequence_attach(s.cache, s.sequence[1], 1, &page));
    FX_OK(qsa_page_release(s.cache, page));
    FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
    FX_OK(qsa_snapshot_load(s.cache, give, NULL, 6, numbers, &loaded));
    PLAIN_CHECK_INT(loaded, 3);
    PLAIN_CHECK_INT(h.calls, h.fail_at);
    PLAIN_CHECK_INT(h.failures, 0);
    fx_close(&s);
    PLAIN_CHECK_INT(h.live_bytes, 0);
    fx_world_free(world);
}

// A free of another size and a byte past the block are noticed by the hook itself.
static void control(void) {
    heap h = heap_make(0);
    const qsa_allocator hook = heap_hook(&h);
    unsigned char *block = hook.alloc(hook.user, 100, 64);
    hook.free(hook.user, block, 99);
    PLAIN_CHECK_INT(h.wrong, 1);
    block[100] ^= 1;
    hook.free(hook.user, block, 100);
    PLAIN_CHECK_INT(h.wrong, 2);
    block[100] ^= 1;
    PLAIN_CHECK_INT(h.live_bytes, 100);
    hook.free(hook.user, block, 100);
    PLAIN_CHECK_INT(h.wrong, 2);
    PLAIN_CHECK_INT(h.live_bytes, 0);
}

int main(void) {
    PLAIN_RUN(control);
    PLAIN_RUN(context_failures);
    PLAIN_RUN(layer_and_cache_failures);
    PLAIN_RUN(cache_size_is_exact);
    PLAIN_RUN(nothing_else_allocates);
    return plain_finish();
}
