// SPDX-License-Identifier: Apache-2.0
//
// Misuse of what shortens, copies, shares, saves and loads sequences: every argument null or out of range, every state in
// which it may not be, and that nothing changes then.
// LABELS: small cross
// RUNNER: plain
#include "misuse.h"

static fx_world *world;
static fx_session s;
static int32_t number = 99, held = -1;

// 13 and 6 committed cells, pages of 4 cells, raw index keys of the last 2 + 3 cells; a third sequence is destroyed again.
static void open_session(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {30, 30, 2}, count[FX_MAX_SEQUENCES] = {13, 6, 0};
    world = fx_world_make(171, &g, 2, 3, lengths, 1);
    fx_options o = fx_options_default();
    o.max_sequences = 3;
    o.max_cells = 20;
    o.page_cells = 4;
    o.pages = 8;
    o.rollback = 2;
    s = fx_open(world, &o);
    fx_step(&s, count, NULL);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[2]));
    FX_OK(qsa_page_hold(s.cache, 0, 1, &held));
    misuse_watch(s.cache);
    misuse_guard(&number, sizeof number);
}

static void close_session(void) {
    misuse_end();
    fx_close(&s);
    fx_world_free(world);
}

// Pending rows, in layer 0 only unless both.
static void begin_batch(const int32_t *count, int both) {
    int32_t tokens[64];
    const int32_t rows = fx_next(&s, count, tokens);
    for (int32_t layer = 0; layer < 1 + both; layer++) {
        fx_batch batch = fx_batch_make(&s, layer, rows, tokens);
        fx_compute(&s, layer, &batch, NULL);
        fx_batch_free(&batch);
    }
    misuse_watch(s.cache);
}

static const int32_t no_sequence[] = {-1, 2, 3, INT32_MAX, INT32_MIN}; // 2 is destroyed

static void sequences(void) {
    open_session();
    qsa_sequence_info info = {.size = sizeof info};
    misuse_guard(&info, sizeof info);
    REFUSED("qsa_sequence_get_info", qsa_sequence_get_info(NULL, 0, &info), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_get_info", qsa_sequence_get_info(s.cache, 0, NULL), QSA_ERR_ARGUMENT, "info");
    WITH(qsa_sequence_info, info, x.size--, "qsa_sequence_get_info", qsa_sequence_get_info(s.cache, 0, &x),
         QSA_ERR_ARGUMENT, "info->size");
    REFUSED("qsa_sequence_fork", qsa_sequence_fork(NULL, 0, &number), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_fork", qsa_sequence_fork(s.cache, 0, NULL), QSA_ERR_ARGUMENT, "sequence");
    REFUSED("qsa_sequence_truncate", qsa_sequence_truncate(NULL, 0, 0), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_shift", qsa_sequence_shift(NULL, 0, 0, 0), QSA_ERR_ARGUMENT, "cache");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++) {
        const int32_t n = no_sequence[i];
        REFUSED("qsa_sequence_get_info", qsa_sequence_get_info(s.cache, n, &info), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_fork", qsa_sequence_fork(s.cache, n, &number), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_truncate", qsa_sequence_truncate(s.cache, n, 0), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_shift", qsa_sequence_shift(s.cache, n, 0, 0), QSA_ERR_ARGUMENT, "sequence");
    }
    const int32_t lengths[] = {-1, 14, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        REFUSED("qsa_sequence_truncate", qsa_sequence_truncate(s.cache, 0, lengths[i]), QSA_ERR_ARGUMENT, "cells");
        REFUSED("qsa_sequence_shift", qsa_sequence_shift(s.cache, 0, lengths[i], 0), QSA_ERR_ARGUMENT, "first");
    }
    // Kept from cell 8 on: 1, 2, 3, 5, 6, 7 are inside blocks that cannot be opened again.
    for (int32_t cells = 1; cells < 8; cells++)
        if (cells % 4)
            REFUSED("qsa_sequence_truncate", qsa_sequence_truncate(s.cache, 0, cells), QSA_ERR_STATE, "from cell 8 on");
    const int32_t deltas[] = {1, -1, 4, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 5; i++)
        for (int32_t first = 0; first < 13; first++)
            REFUSED("qsa_sequence_shift", qsa_sequence_shift(s.cache, 0, first, deltas[i]), QSA_ERR_UNSUPPORTED,
                    "rotated");
    FX_OK(qsa_sequence_shift(s.cache, 0, 3, 0)); // nothing to do
    FX_OK(qsa_sequence_shift(s.cache, 0, 13, 7));
    const int32_t count[FX_MAX_SEQUENCES] = {2, 0, 0};
    begin_batch(count, 1);
    REFUSED("qsa_sequence_fork", qsa_sequence_fork(s.cache, 0, &number), QSA_ERR_STATE, "pending");
    REFUSED("qsa_sequence_truncate", qsa_sequence_truncate(s.cache, 0, 12), QSA_ERR_STATE, "pending");
    REFUSED("qsa_sequence_shift", qsa_sequence_shift(s.cache, 0, 13, 0), QSA_ERR_STATE, "pending");
    FX_OK(qsa_cache_discard(s.cache));
    int32_t last;
    FX_OK(qsa_sequence_create(s.cache, &last));
    misuse_watch(s.cache);
    REFUSED("qsa_sequence_fork", qsa_sequence_fork(s.cache, 0, &number), QSA_ERR_CAPACITY, "max_sequences");
    close_session();
}

static void accepting(void) {
    open_session();
    const char *accept = "qsa_cache_accept";
    const int32_t zero[] = {0, 0}, one[] = {1}, order[] = {1, 0}, twice[] = {1, 1};
    REFUSED(accept, qsa_cache_accept(NULL, 1, zero, zero), QSA_ERR_ARGUMENT, "cache");
    REFUSED(accept, qsa_cache_accept(s.cache, -1, zero, zero), QSA_ERR_ARGUMENT, "count");
    REFUSED(accept, qsa_cache_accept(s.cache, 1, NULL, zero), QSA_ERR_ARGUMENT, "sequences");
    REFUSED(accept, qsa_cache_accept(s.cache, 1, zero, NULL), QSA_ERR_ARGUMENT, "rows");
    REFUSED(accept, qsa_cache_accept(s.cache, 1, zero, one), QSA_ERR_ARGUMENT, "rows[0]"); // nothing is pending
    FX_OK(qsa_cache_accept(s.cache, 0, NULL, NULL));
    FX_OK(qsa_cache_accept(s.cache, 2, order, zero));
    const int32_t count[FX_MAX_SEQUENCES] = {7, 2, 0};
    begin_batch(count, 0);
    REFUSED(accept, qsa_cache_accept(s.cache, 1, zero, zero), QSA_ERR_STATE, "layer 1");
    FX_OK(qsa_cache_discard(s.cache));
    begin_batch(count, 1);
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++)
        REFUSED(accept, qsa_cache_accept(s.cache, 1, &no_sequence[i], zero), QSA_ERR_ARGUMENT, "sequence");
    const int32_t wrong[] = {-1, 3, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++)
        REFUSED(accept, qsa_cache_accept(s.cache, 1, one, &wrong[i]), QSA_ERR_ARGUMENT, "rows[0]");
    REFUSED(accept, qsa_cache_accept(s.cache, 2, twice, zero), QSA_ERR_ARGUMENT, "sequences[1]");
    // 13 + 7 rows, raw index keys from cell 15 on: 13 + 1 needs those from 12 on.
    REFUSED(accept, qsa_cache_accept(s.cache, 1, zero, one), QSA_ERR_STATE, "from cell 14 on");
    const int32_t two[] = {2};
    REFUSED(accept, qsa_cache_accept(s.cache, 1, zero, two), QSA_ERR_STATE, "from cell 15 on");
    const int32_t three[] = {3}; // 16 cells
    FX_OK(qsa_cache_accept(s.cache, 1, zero, three));
    close_session();
}

static void pages(void) {
    open_session();
    REFUSED("qsa_page_hold", qsa_page_hold(NULL, 0, 0, &number), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_page_hold", qsa_page_hold(s.cache, 0, 0, NULL), QSA_ERR_ARGUMENT, "page");
    REFUSED("qsa_page_release", qsa_page_release(NULL, held), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(NULL, 0, 1, &held), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, 0, -1, &held), QSA_ERR_ARGUMENT, "count");
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, 0, 1, NULL), QSA_ERR_ARGUMENT, "pages");
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, 0, 1, &held), QSA_ERR_ARGUMENT, "page_cells");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++) {
        REFUSED("qsa_page_hold", qsa_page_hold(s.cache, no_sequence[i], 0, &number), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, no_sequence[i], 1, &held), QSA_ERR_ARGUMENT,
                "sequence");
    }
    const int32_t indices[] = {-1, 3, 4, INT32_MAX, INT32_MIN}; // page 3 has one cell
    for (int i = 0; i < 5; i++)
        REFUSED("qsa_page_hold", qsa_page_hold(s.cache, 0, indices[i], &number), QSA_ERR_ARGUMENT, "index");
    int32_t fresh;
    FX_OK(qsa_sequence_create(s.cache, &fresh));
    misuse_watch(s.cache);
    const int32_t numbers[] = {-1, 8, INT32_MAX, INT32_MIN, (held + 1) % 8};
    for (int i = 0; i < 5; i++) {
        const char *word = i < 4 ? "outside" : "not held";
        REFUSED("qsa_page_release", qsa_page_release(s.cache, numbers[i]), QSA_ERR_ARGUMENT, word);
        REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, fresh, 1, &numbers[i]), QSA_ERR_ARGUMENT, word);
    }
    // Cells 4..7 would become cells 0..3.
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, fresh, 1, &held), QSA_ERR_UNSUPPORTED, "rotated");
    const int32_t six[6] = {held, held, held, held, held, held};
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, fresh, 6, six), QSA_ERR_CAPACITY, "max_cells");
    FX_OK(qsa_sequence_attach(s.cache, fresh, 0, NULL));
    s.sequence[2] = fresh;
    const int32_t count[FX_MAX_SEQUENCES] = {0, 0, 1};
    begin_batch(count, 1);
    REFUSED("qsa_sequence_attach", qsa_sequence_attach(s.cache, fresh, 0, NULL), QSA_ERR_STATE, "pending");
    FX_OK(qsa_cache_discard(s.cache));
    FX_OK(qsa_page_release(s.cache, held));
    misuse_watch(s.cache);
    REFUSED("qsa_page_release", qsa_page_release(s.cache, held), QSA_ERR_ARGUMENT, "not held");
    close_session();
}

static unsigned char bytes[1 << 16];
static size_t used, at;

static int keep(void *user, const void *data, size_t size) {
    (void)user;
    memcpy(bytes + used, data, size);
    used += size;
    return 0;
}
static int give(void *user, void *data, size_t size) {
    (void)user;
    if (size > used - at)
        return 1;
    memcpy(data, bytes + at, size);
    at += size;
    return 0;
}
static int fail_write(void *user, const void *data, size_t size) {
    (void)user, (void)data, (void)size;
    return -1;
}
static int fail_read(void *user, void *data, size_t size) {
    (void)user, (void)data, (void)size;
    return 7;
}

static void snapshots(void) {
    open_session();
    const char *save = "qsa_snapshot_save", *load = "qsa_snapshot_load";
    int32_t made[3] = {7, 7, 7}, count = 7;
    const int32_t both[] = {1, 0};
    misuse_guard(made, sizeof made);
    misuse_guard(&count, sizeof count);
    REFUSED(save, qsa_snapshot_save(NULL, 2, both, keep, NULL), QSA_ERR_ARGUMENT, "cache");
    REFUSED(save, qsa_snapshot_save(s.cache, 2, both, NULL, NULL), QSA_ERR_ARGUMENT, "write");
    REFUSED(save, qsa_snapshot_save(s.cache, -1, both, keep, NULL), QSA_ERR_ARGUMENT, "count");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++)
        REFUSED(save, qsa_snapshot_save(s.cache, 1, &no_sequence[i], keep, NULL), QSA_ERR_ARGUMENT, "sequence");
    REFUSED(save, qsa_snapshot_save(s.cache, 2, both, fail_write, NULL), QSA_ERR_IO, "write");
    PLAIN_CHECK_INT(used, 0); // nothing was written by refused calls
    FX_OK(qsa_snapshot_save(s.cache, 1, both, keep, NULL));
    REFUSED(load, qsa_snapshot_load(NULL, give, NULL, 3, made, &count), QSA_ERR_ARGUMENT, "cache");
    REFUSED(load, qsa_snapshot_load(s.cache, NULL, NULL, 3, made, &count), QSA_ERR_ARGUMENT, "read");
    REFUSED(load, qsa_snapshot_load(s.cache, give, NULL, -1, made, &count), QSA_ERR_ARGUMENT, "capacity");
    REFUSED(load, qsa_snapshot_load(s.cache, give, NULL, 3, NULL, &count), QSA_ERR_ARGUMENT, "sequences");
    REFUSED(load, qsa_snapshot_load(s.cache, give, NULL, 3, made, NULL), QSA_ERR_ARGUMENT, "count");
    PLAIN_CHECK_INT(at, 0);
    REFUSED(load, qsa_snapshot_load(s.cache, fail_read, NULL, 3, made, &count), QSA_ERR_IO, "ends early");
    REFUSED(load, qsa_snapshot_load(s.cache, give, NULL, 0, NULL, &count), QSA_ERR_CAPACITY, "capacity");
    misuse_end(); // the guards: from here on `made` changes
    at = 0;
    FX_OK(qsa_snapshot_load(s.cache, give, NULL, 3, made, &count));
    PLAIN_CHECK_INT(count, 1);
    PLAIN_CHECK_INT(at, used);
    misuse_watch(s.cache);
    at = 0;
    REFUSED(load, qsa_snapshot_load(s.cache, give, NULL, 3, made, &count), QSA_ERR_CAPACITY, "not alive");
    close_session();
}

static void parts(void) {
    const qsa_geometry g = fx_geometry_small();
    qsa_cache_config config;
    qsa_cache_config_init(&config, &g, 100);
    qsa_cache_parts out = {.size = sizeof out};
    misuse_guard(&out, sizeof out);
    REFUSED("qsa_cache_get_parts", qsa_cache_get_parts(NULL, &out), QSA_ERR_ARGUMENT, "config");
    REFUSED("qsa_cache_get_parts", qsa_cache_get_parts(&config, NULL), QSA_ERR_ARGUMENT, "parts");
    WITH(qsa_cache_parts, out, x.size = 1, "qsa_cache_get_parts", qsa_cache_get_parts(&config, &x), QSA_ERR_ARGUMENT,
         "parts->size");
    WITH(qsa_cache_config, config, x.layers = 0, "qsa_cache_get_parts", qsa_cache_get_parts(&x, &out), QSA_ERR_ARGUMENT,
         "layers");
    misuse_end();
    size_t bytes_of = 0;
    for (int screen = 0; screen < 2; screen++) {
        config.screen = screen;
        FX_OK(qsa_cache_get_parts(&config, &out));
        FX_OK(qsa_cache_size(&config, &bytes_of));
        PLAIN_CHECK_INT(out.bytes, bytes_of);
        PLAIN_CHECK_INT(out.keys + out.scales + out.block_keys + out.screen + out.index_keys + out.tables, bytes_of);
        PLAIN_CHECK(!out.screen == !screen);
    }
}

int main(void) {
    PLAIN_RUN(sequences);
    PLAIN_RUN(accepting);
    PLAIN_RUN(pages);
    PLAIN_RUN(snapshots);
    PLAIN_RUN(parts);
    return plain_finish();
}
