// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: every flipped bit, every length cut short, versions to come and forged numbers with right sums are refused
// with the reason, and no sequence or page has changed; what is shared is written once; another page size, rollback and
// screening give the same cells.
// LABELS: small cross
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include "api/snapshot.h"

#include <stdlib.h>

static struct {
    unsigned char bytes[1 << 20];
    size_t used, at, largest;
} memory;

static int keep(void *user, const void *data, size_t bytes) {
    (void)user;
    memcpy(memory.bytes + memory.used, data, bytes);
    memory.used += bytes;
    memory.largest = bytes > memory.largest ? bytes : memory.largest;
    return 0;
}
static int give(void *user, void *data, size_t bytes) {
    (void)user;
    if (bytes > memory.used - memory.at)
        return 1;
    memcpy(data, memory.bytes + memory.at, bytes);
    memory.at += bytes;
    return 0;
}

static fx_world *world;
static fx_session s;

static fx_options options(void) {
    fx_options o = fx_options_default();
    o.max_sequences = 6;
    o.page_cells = 8;
    o.pages = 24;
    o.max_cells = 40;
    o.rollback = 4;
    return o;
}

// Sequences of 21 and 6 cells, a fork of the first that is 3 longer, and an empty one.
static void open_session(const fx_options *o) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {40, 40}, count[FX_MAX_SEQUENCES] = {21, 6}, more[FX_MAX_SEQUENCES] = {3, 0};
    world = fx_world_make(181, &g, 2, 2, lengths, 3);
    s = fx_open(world, o);
    fx_step(&s, count, NULL);
    int32_t fork, empty;
    FX_OK(qsa_sequence_fork(s.cache, s.sequence[0], &fork));
    FX_OK(qsa_sequence_create(s.cache, &empty));
    fx_step(&s, more, NULL);
    memory.used = memory.largest = 0;
}

static void close_session(void) {
    fx_close(&s);
    fx_world_free(world);
}

static qsa_cache_info info_of(const qsa_cache *cache) {
    qsa_cache_info info = {.size = sizeof info};
    FX_OK(qsa_cache_get_info(cache, &info));
    return info;
}

// Loads memory[0..used); the status, and a check that nothing has changed where it is refused.
static qsa_status load(fx_session *into, int32_t *numbers, int32_t *count) {
    const qsa_cache_info before = info_of(into->cache);
    memory.at = 0;
    const qsa_status status = qsa_snapshot_load(into->cache, give, NULL, 6, numbers, count);
    const qsa_cache_info after = info_of(into->cache);
    const int same = before.sequences == after.sequences && before.free_pages == after.free_pages;
    PLAIN_CHECK(same == (status != QSA_OK));
    return status;
}

static void expect_refused(fx_session *into, qsa_status want, const char *word) {
    int32_t numbers[6] = {-7}, count = -7;
    PLAIN_CHECK_INT(load(into, numbers, &count), want);
    PLAIN_CHECK(strncmp(qsa_last_error(), "qsa_snapshot_load", 17) == 0 && strstr(qsa_last_error(), word) != NULL);
    PLAIN_CHECK(count == -7 && numbers[0] == -7);
}

// A sequence of one cache as one of another: same cells, and the same afterwards.
static void same_cells(qsa_cache *a, int32_t x, qsa_cache *b, int32_t y) {
    int32_t n = -1, m = -2;
    FX_OK(qsa_sequence_length(a, x, &n));
    FX_OK(qsa_sequence_length(b, y, &m));
    PLAIN_CHECK_INT(n, m);
    static unsigned char k[2][40 * 48], v[2][40 * 48];
    static uint16_t ks[2][40 * 2], vs[2][40 * 2];
    static float keys[2][10 * 16], raw[2][4 * 16];
    static int32_t positions[2][4 * 3];
    for (int32_t layer = 0; layer < 2; layer++) {
        for (int i = 0; i < 2; i++) {
            qsa_cells c = {.size = sizeof c, .k = k[i], .v = v[i], .k_scales = ks[i], .v_scales = vs[i]};
            c.block_keys = keys[i];
            qsa_cells open = {.size = sizeof open, .index_keys = raw[i], .positions = positions[i]};
            FX_OK(qsa_cache_read(i ? b : a, layer, i ? y : x, 0, n, &c));
            FX_OK(qsa_cache_read(i ? b : a, layer, i ? y : x, n - n % 4, n % 4, &open));
        }
        PLAIN_CHECK_BYTES(k[1], k[0], (size_t)n * 48);
        PLAIN_CHECK_BYTES(v[1], v[0], (size_t)n * 48);
        PLAIN_CHECK_BYTES(ks[1], ks[0], (size_t)n * 4);
        PLAIN_CHECK_BYTES(vs[1], vs[0], (size_t)n * 4);
        PLAIN_CHECK_BYTES(keys[1], keys[0], (size_t)(n / 4) * 64);
        PLAIN_CHECK_BYTES(raw[1], raw[0], (size_t)(n % 4) * 64);
        PLAIN_CHECK_BYTES(positions[1], positions[0], (size_t)(n % 4) * 12);
    }
}

static void other_caches(void) {
    const int32_t rollbacks[] = {0, 4, 64, QSA_ROLLBACK_ALL}, page_cells[] = {4, 8, 20, 40};
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 16; to++) {
            fx_options o = options();
            o.rollback = rollbacks[from];
            open_session(&o);
            FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
            PLAIN_CHECK(memory.largest <= 8192);
            o.rollback = rollbacks[to % 4];
            o.page_cells = page_cells[to / 4];
            o.pages = 60;
            o.screen = to % 2;
            fx_session other = fx_open(world, &o);
            int32_t numbers[6], count = -1;
            PLAIN_CHECK_INT(load(&other, numbers, &count), QSA_OK);
            PLAIN_CHECK_INT(count, 4);
            PLAIN_CHECK_INT(memory.at, memory.used);
            for (int32_t i = 0; i < 4; i++) {
                PLAIN_CHECK_INT(numbers[i], 2 + i); // two are alive there
                same_cells(s.cache, i, other.cache, numbers[i]);
            }
            fx_close(&other);
            close_session();
        }
}

// The same tokens make the same stream on every machine, so one may load what another has saved. A change of the form needs
// another version.
static void the_same_everywhere(void) {
    const uint64_t known[] = {0xbf8eea39636aaa2f, 0xb7c40e4097fe2e4d, 0x068f88c6a99e262f, 0x07648f52c636fd37};
    for (int kv = QSA_F32; kv <= QSA_I8; kv++) {
        fx_options o = options();
        o.kv_type = (qsa_type)kv;
        o.block_key_type = (qsa_type)(1 + kv % 3);
        open_session(&o);
        FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
        qsa_sum sum;
        qsa_sum_init(&sum);
        qsa_sum_add(&sum, memory.bytes, memory.used);
        char text[80];
        snprintf(text, sizeof text, "the stream of type %d sums to 0x%016llx", kv,
                 (unsigned long long)qsa_sum_value(&sum));
        plain_check(qsa_sum_value(&sum) == known[kv - 1], __FILE__, __LINE__, text);
        close_session();
    }
}

static void sharing_is_kept(void) {
    fx_options o = options();
    open_session(&o);
    // 24, 6 and 21 cells: the first two pages of the first are also the third's.
    PLAIN_CHECK_INT(info_of(s.cache).free_pages, 24 - 3 - 1 - 1);
    FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
    const size_t all = memory.used;
    size_t alone = 0;
    for (int32_t i = 0; i < 4; i++) {
        memory.used = 0;
        FX_OK(qsa_snapshot_save(s.cache, 1, &i, keep, NULL));
        alone += memory.used;
    }
    // 16 cells of two layers (K and V with scales, four block keys) and three heads less.
    PLAIN_CHECK_INT(alone - all, 16 * 2 * (96 + 8) + 4 * 2 * 64 + 3 * 112);
    memory.used = 0;
    const int32_t list[] = {3, 2, 1, 0}; // in any order
    FX_OK(qsa_snapshot_save(s.cache, 4, list, keep, NULL));
    PLAIN_CHECK_INT(memory.used, all);
    fx_session other = fx_open(world, &o);
    int32_t numbers[6], count = -1;
    PLAIN_CHECK_INT(load(&other, numbers, &count), QSA_OK);
    PLAIN_CHECK_INT(info_of(other.cache).free_pages, 24 - 3 - 1 - 1);
    for (int32_t i = 0; i < 4; i++)
        same_cells(s.cache, list[i], other.cache, numbers[i]);
    // Both of the shared go on for themselves.
    for (int32_t i = 0; i < 4; i++)
        FX_OK(qsa_sequence_destroy(other.cache, numbers[i]));
    PLAIN_CHECK_INT(info_of(other.cache).free_pages, 24);
    fx_close(&other);
    close_session();
}

static void damaged(void) {
    fx_options o = options();
    open_session(&o);
    FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
    const size_t whole = memory.used;
    fx_session other = fx_open(world, &o);
    // Every bit of the head and records, every byte of the rest in one of its bits.
    for (size_t i = 0; i < whole; i++)
        for (int bit = 0; bit < 8; bit++) {
            if (i >= 208 && bit != (int)(i % 8))
                continue;
            memory.bytes[i] ^= (unsigned char)(1 << bit);
            const char *word = i < 8 ? "no snapshot" : i < 12 ? "version" : i < 104 ? "head" : "damaged";
            expect_refused(&other, QSA_ERR_DATA, word);
            memory.bytes[i] ^= (unsigned char)(1 << bit);
        }
    for (memory.used = 0; memory.used < whole; memory.used += memory.used < 300 ? 1 : 97)
        expect_refused(&other, QSA_ERR_IO, "ends early");
    memory.used = whole;
    memory.bytes[8] = 2; // the next version, everything else right
    expect_refused(&other, QSA_ERR_DATA, "version 2");
    memory.bytes[8] = 1;
    int32_t numbers[6], count;
    PLAIN_CHECK_INT(load(&other, numbers, &count), QSA_OK); // control: whole again
    fx_close(&other);
    close_session();
}

// Puts a number into the snapshot at `at` and makes the sum of bytes first..end-1, which stands at end, right.
static void forge(size_t at, const void *number, size_t bytes, size_t first, size_t end) {
    memcpy(memory.bytes + at, number, bytes);
    qsa_sum sum;
    qsa_sum_init(&sum);
    qsa_sum_add(&sum, memory.bytes + first, end - first);
    const uint64_t value = qsa_sum_value(&sum);
    memcpy(memory.bytes + end, &value, sizeof value);
}

static void forged(void) {
    fx_options o = options();
    open_session(&o);
    FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
    const size_t whole = memory.used, records = 104, sums = records + 4 * 24;
    unsigned char *copy = fx_alloc(whole);
    memcpy(copy, memory.bytes, whole);
    fx_session other = fx_open(world, &o);
    const int32_t values[] = {-1, 0, 1, 2, 3, 5, 7, 41, 1 << 20, INT32_MAX, INT32_MIN};
    int32_t numbers[6], count;
    long refused = 0, loaded = 0;
    for (size_t field = 12; field < sums; field += 4) // every number of head and records
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            if ((field >= 92 && field < records) || memcmp(copy + field, &values[i], 4) == 0)
                continue;
            memcpy(memory.bytes, copy, whole);
            if (field < 96)
                forge(field, &values[i], 4, 0, 96);
            else
                forge(field, &values[i], 4, records, sums);
            if (load(&other, numbers, &count) != QSA_OK) {
                refused++;
                continue;
            }
            PLAIN_CHECK(field >= records && (field - records) % 24 == 4); // how far raw index keys reached is a hint
            loaded++;
            for (int32_t k = 0; k < count; k++)
                FX_OK(qsa_sequence_destroy(other.cache, numbers[k]));
        }
    PLAIN_CHECK(refused > 300 && loaded > 0);
    // A code, a scale, a position that no cache holds, with the right sum of the first sequence's cells.
    const qsa_snapshot_record *r = &other.cache->records[0];
    memcpy(memory.bytes, copy, whole);
    PLAIN_CHECK_INT(load(&other, numbers, &count), QSA_OK);
    for (int32_t k = 0; k < count; k++)
        FX_OK(qsa_sequence_destroy(other.cache, numbers[k]));
    const size_t first = sums + 8, end = first + (size_t)qsa_snapshot_cells(&other.config, r) - 8;
    const size_t codes = 24 * 48 * 2, layer = (end - first) / 2;
    const unsigned char code = 0x80, half[2] = {0, 0x7c}, negative[4] = {0xff, 0xff, 0xff, 0xff};
    const struct {
        size_t at, bytes;
        const void *number;
    } bad[] = {{first + 5, 1, &code}, {first + codes, 2, half}, {first + layer - 12, 4, negative}};
    for (int i = 0; i < 3; i++) {
        memcpy(memory.bytes, copy, whole);
        forge(bad[i].at, bad[i].number, bad[i].bytes, first, end);
        expect_refused(&other, QSA_ERR_DATA, "no cache holds");
    }
    free(copy);
    fx_close(&other);
    close_session();
}

static void other_configurations(void) {
    fx_options o = options();
    open_session(&o);
    FX_OK(qsa_snapshot_save(s.cache, 0, NULL, keep, NULL));
    fx_options others[5] = {o, o, o, o, o};
    others[0].kv_type = QSA_F16;
    others[1].block_key_type = QSA_BF16;
    others[2].layers = 1;
    others[3].max_cells = 23;
    others[4].pages = 4;
    const char *const words[] = {"kv_type", "block_key_type", "layers", "max_cells", "pages"};
    for (int i = 0; i < 5; i++) {
        fx_session other = fx_open(world, &others[i]);
        expect_refused(&other, i < 3 ? QSA_ERR_ARGUMENT : QSA_ERR_CAPACITY, words[i]);
        fx_close(&other);
    }
    qsa_geometry g = world->geometry;
    g.theta = 1e6;
    const int32_t lengths[] = {4};
    fx_world *another = fx_world_make(182, &g, 2, 1, lengths, 1);
    fx_session other = fx_open(another, &o);
    expect_refused(&other, QSA_ERR_ARGUMENT, "theta");
    fx_close(&other);
    fx_world_free(another);
    close_session();
}

int main(void) {
    PLAIN_RUN(other_caches);
    PLAIN_RUN(the_same_everywhere);
    PLAIN_RUN(sharing_is_kept);
    PLAIN_RUN(damaged);
    PLAIN_RUN(forged);
    PLAIN_RUN(other_configurations);
    return plain_finish();
}
