// SPDX-License-Identifier: Apache-2.0
//
// `qsa size` says to the byte what the creation of such a cache takes from the allocator hook, over every format, rollback,
// page size and number of sequences, up to a million cells; its parts make the sum, and what they hold is counted here a
// second time.
#include "cases/lazy_memory.h" // first: it asks for mmap's flags

#include "tool_test.h"

#include "qsa/qsa.h"
#include "support/rng.h"

typedef struct settings {
    int32_t ctx, layers, sequences, page_cells, rollback;
    int kv, keys, screen;
} settings;

static const char *const types[] = {"", "f32", "f16", "bf16", "i8"};
static const size_t element[] = {0, 4, 2, 2, 1};

static json_t *ask(const settings *s) {
    char rollback[16];
    snprintf(rollback, sizeof rollback, s->rollback < 0 ? "all" : "%d", (int)s->rollback);
    return run_json(tool_run("size --ctx %d --layers %d --sequences %d --page-cells %d --rollback %s --kv %s "
                             "--block-keys %s %s --json",
                             (int)s->ctx, (int)s->layers, (int)s->sequences, (int)s->page_cells, rollback, types[s->kv],
                             types[s->keys], s->screen ? "--screen" : ""),
                    0);
}

static size_t number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return (size_t)json_integer_value(value);
}

// Live bytes at the hook of a cache with these settings; memory that is not written to does not exist.
static size_t live_bytes(const settings *s, int32_t pages) {
    hook h = {0};
    qsa_context_config c;
    qsa_context_config_init(&c);
    c.allocator = (qsa_allocator){hook_alloc, hook_free, &h};
    qsa_context *context = NULL;
    assert_int_equal(qsa_context_create(&c, &context), QSA_OK);
    const size_t before = h.held;
    qsa_geometry g;
    qsa_geometry_preset("qwen3.8-flash-next", &g);
    const qsa_cache_config config = {.size = sizeof config,
                                     .geometry = g,
                                     .layers = s->layers,
                                     .kv_type = (qsa_type)s->kv,
                                     .block_key_type = (qsa_type)s->keys,
                                     .page_cells = s->page_cells,
                                     .pages = pages,
                                     .max_sequences = s->sequences,
                                     .max_cells = s->ctx,
                                     .rollback = s->rollback,
                                     .screen = s->screen};
    qsa_cache *cache = NULL;
    assert_int_equal(qsa_cache_create(context, &config, &cache), QSA_OK);
    const size_t held = h.held - before;
    qsa_cache_destroy(cache);
    qsa_context_destroy(context);
    assert_int_equal(h.held, 0);
    return held;
}

static size_t up64(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void check(const settings *s) {
    json_t *object = ask(s);
    const size_t pages = number(object, "pages"), layers = (size_t)s->layers, sequences = (size_t)s->sequences;
    const size_t cells = pages * (size_t)s->page_cells, blocks = cells / 4;
    assert_int_equal(pages, ((size_t)s->ctx + (size_t)s->page_cells - 1) / (size_t)s->page_cells * sequences);
    assert_int_equal(number(object, "bytes"), live_bytes(s, (int32_t)pages));
    // 2 KV heads of 256 numbers, K and V; 4 scales each; a block key of 128 numbers.
    assert_int_equal(number(object, "keys_bytes"), 2 * up64(layers * cells * 512 * element[s->kv]));
    assert_int_equal(number(object, "scales_bytes"), s->kv == QSA_I8 ? 2 * up64(layers * cells * 16) : 0);
    assert_int_equal(number(object, "block_keys_bytes"), up64(layers * blocks * 128 * element[s->keys]));
    assert_int_equal(number(object, "screen_bytes"),
                     s->screen ? up64(layers * blocks * 128) + 2 * up64(layers * blocks * 4) : 0);
    const size_t raw = layers * (s->rollback < 0 ? cells : 2 * sequences * ((size_t)s->rollback + 3));
    assert_int_equal(number(object, "index_keys_bytes"), up64(raw * 512) + up64(raw * 12));
    const char *const parts[] = {"keys_bytes",   "scales_bytes",     "block_keys_bytes",
                                 "screen_bytes", "index_keys_bytes", "tables_bytes"};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += number(object, parts[i]);
    assert_int_equal(sum, number(object, "bytes"));
    json_decref(object);
}

static void every_format(void **state) {
    (void)state;
    rng r = rng_make(3);
    for (int kv = QSA_F32; kv <= QSA_I8; kv++)
        for (int keys = QSA_F32; keys <= QSA_BF16; keys++)
            for (int32_t rollback = -1; rollback < 2; rollback++)
                for (int screen = 0; screen < 2; screen++) {
                    const settings s = {.ctx = rng_range(&r, 1, 5000),
                                        .layers = rng_range(&r, 1, 13),
                                        .sequences = rng_range(&r, 1, 9),
                                        .page_cells = 4 * rng_range(&r, 1, 40),
                                        .rollback = rollback > 0 ? rng_range(&r, 1, 200) : rollback,
                                        .kv = kv,
                                        .keys = keys,
                                        .screen = screen};
                    check(&s);
                }
}

static void long_contexts(void **state) {
    (void)state;
    const int32_t lengths[] = {32768, 262144, 1048576};
    for (int i = 0; i < 3; i++)
        for (int kv = QSA_F32; kv <= QSA_I8; kv++) {
            const settings s = {.ctx = lengths[i],
                                .layers = 12,
                                .sequences = 1,
                                .page_cells = 64,
                                .rollback = kv % 2 ? 64 : QSA_ROLLBACK_ALL,
                                .kv = kv,
                                .keys = 1 + (kv + i) % 3,
                                .screen = kv % 2};
            check(&s);
        }
}

// Without options but the length: the defaults that the help page names.
static void defaults(void **state) {
    (void)state;
    const settings s = {262144, 12, 1, 64, 64, QSA_I8, QSA_F32, 0};
    json_t *plain = run_json(tool_run("size --ctx 262144 --json"), 0), *full = ask(&s);
    assert_true(json_equal(plain, full));
    json_decref(plain);
    json_decref(full);
    const ran table = tool_run("size --ctx 262144");
    assert_int_equal(table.code, 0);
    char bytes[32];
    full = ask(&s);
    snprintf(bytes, sizeof bytes, "%zu", number(full, "bytes"));
    assert_non_null(strstr(table.out, bytes));
    json_decref(full);
    ran_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),
        cmocka_unit_test(long_contexts),
        cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests(tests, tool_test_begin, tool_test_end);
}
