// SPDX-License-Identifier: Apache-2.0
//
// Misuse of a cache: events, info, sequences, commit and discard, cells in and out.
// LABELS: small cross
// RUNNER: plain
#include "misuse.h"

// A session with 13 and 6 committed cells in i8, and one sequence that is destroyed again.
static fx_session open_session(fx_world **world, qsa_type kv_type) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {16, 9, 2};
    *world = fx_world_make(101, &g, 2, 3, lengths, 1);
    fx_options o = fx_options_default();
    o.max_sequences = 4;
    o.max_cells = 40;
    o.page_cells = 8;
    o.pages = 6;
    o.rollback = 4;
    o.kv_type = kv_type;
    fx_session s = fx_open(*world, &o);
    const int32_t count[FX_MAX_SEQUENCES] = {13, 6, 0};
    fx_step(&s, count, NULL);
    FX_OK(qsa_sequence_destroy(s.cache, s.sequence[2]));
    misuse_watch(s.cache);
    return s;
}

static void close_session(fx_session *s, fx_world *world) {
    misuse_end();
    fx_close(s);
    fx_world_free(world);
}

static const int32_t no_sequence[] = {-1, 2, 3, 4, INT32_MAX, INT32_MIN}; // 2 is destroyed, 3 was never made

static void numbers(void) {
    fx_world *world;
    fx_session s = open_session(&world, QSA_I8);
    qsa_cache_events events = {.size = sizeof events};
    qsa_cache_info info = {.size = sizeof info};
    misuse_guard(&events, sizeof events);
    misuse_guard(&info, sizeof info);
    REFUSED("qsa_cache_get_events", qsa_cache_get_events(NULL, &events), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_cache_get_events", qsa_cache_get_events(s.cache, NULL), QSA_ERR_ARGUMENT, "events");
    WITH(qsa_cache_events, events, x.size = 0, "qsa_cache_get_events", qsa_cache_get_events(s.cache, &x),
         QSA_ERR_ARGUMENT, "events->size");
    REFUSED("qsa_cache_reset_events", qsa_cache_reset_events(NULL), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_cache_get_info", qsa_cache_get_info(NULL, &info), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_cache_get_info", qsa_cache_get_info(s.cache, NULL), QSA_ERR_ARGUMENT, "info");
    WITH(qsa_cache_info, info, x.size++, "qsa_cache_get_info", qsa_cache_get_info(s.cache, &x), QSA_ERR_ARGUMENT,
         "info->size");
    close_session(&s, world);
}

static void sequences(void) {
    fx_world *world;
    fx_session s = open_session(&world, QSA_I8);
    int32_t number = 99;
    misuse_guard(&number, sizeof number);
    REFUSED("qsa_sequence_create", qsa_sequence_create(NULL, &number), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_create", qsa_sequence_create(s.cache, NULL), QSA_ERR_ARGUMENT, "sequence");
    REFUSED("qsa_sequence_destroy", qsa_sequence_destroy(NULL, 0), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_reset", qsa_sequence_reset(NULL, 0), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_length", qsa_sequence_length(NULL, 0, &number), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_sequence_length", qsa_sequence_length(s.cache, 0, NULL), QSA_ERR_ARGUMENT, "length");
    REFUSED("qsa_cache_commit", qsa_cache_commit(NULL), QSA_ERR_ARGUMENT, "cache");
    REFUSED("qsa_cache_discard", qsa_cache_discard(NULL), QSA_ERR_ARGUMENT, "cache");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++) {
        const int32_t n = no_sequence[i];
        REFUSED("qsa_sequence_destroy", qsa_sequence_destroy(s.cache, n), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_reset", qsa_sequence_reset(s.cache, n), QSA_ERR_ARGUMENT, "sequence");
        REFUSED("qsa_sequence_length", qsa_sequence_length(s.cache, n, &number), QSA_ERR_ARGUMENT, "sequence");
    }
    close_session(&s, world);
}

// Arrays for 20 cells of the small geometry, all in range.
static struct {
    int8_t k[20 * 48 * 4], v[20 * 48 * 4];
    uint16_t k_scales[20 * 2], v_scales[20 * 2];
    float block_keys[6 * 16], index_keys[20 * 16];
    int32_t positions[20 * 3];
} arrays;

static qsa_cells good_cells(int i8, int raw) {
    return (qsa_cells){sizeof(qsa_cells),
                       arrays.k,
                       arrays.v,
                       i8 ? arrays.k_scales : NULL,
                       i8 ? arrays.v_scales : NULL,
                       arrays.block_keys,
                       raw ? arrays.index_keys : NULL,
                       raw ? arrays.positions : NULL};
}

static void reading(void) {
    fx_world *world;
    fx_session s = open_session(&world, QSA_I8);
    const char *read = "qsa_cache_read";
    qsa_cells cells = good_cells(1, 0), raw = good_cells(1, 1);
    misuse_guard(&arrays, sizeof arrays);
    misuse_guard(&cells, sizeof cells);
    REFUSED(read, qsa_cache_read(NULL, 0, 0, 0, 1, &cells), QSA_ERR_ARGUMENT, "cache");
    REFUSED(read, qsa_cache_read(s.cache, 0, 0, 0, 1, NULL), QSA_ERR_ARGUMENT, "cells");
    WITH(qsa_cells, cells, x.size = 3, read, qsa_cache_read(s.cache, 0, 0, 0, 1, &x), QSA_ERR_ARGUMENT, "cells->size");
    const int32_t layers[] = {-1, 2, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++)
        REFUSED(read, qsa_cache_read(s.cache, layers[i], 0, 0, 1, &cells), QSA_ERR_ARGUMENT, "layer");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++)
        REFUSED(read, qsa_cache_read(s.cache, 0, no_sequence[i], 0, 1, &cells), QSA_ERR_ARGUMENT, "sequence");
    const struct {
        int32_t first, count;
    } ranges[] = {{-1, 1},        {0, -1},        {0, 14},        {13, 1},
                  {14, 0},        {12, 2},        {INT32_MAX, 1}, {1, INT32_MAX},
                  {INT32_MAX, 0}, {5, INT32_MIN}, {INT32_MIN, 5}, {INT32_MAX, INT32_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        REFUSED(read, qsa_cache_read(s.cache, 1, 0, ranges[i].first, ranges[i].count, &cells), QSA_ERR_ARGUMENT,
                "first");
    // Raw index keys of the last 4 + 3 cells are kept.
    REFUSED(read, qsa_cache_read(s.cache, 1, 0, 5, 8, &raw), QSA_ERR_STATE, "first is 5");
    WITH(qsa_cells, raw, x.index_keys = NULL, read, qsa_cache_read(s.cache, 1, 0, 5, 8, &x), QSA_ERR_STATE, "raw");
    misuse_end();
    FX_OK(qsa_cache_read(s.cache, 1, 0, 6, 7, &raw));
    const qsa_cells none = {.size = sizeof none};
    qsa_cells nothing = none;
    FX_OK(qsa_cache_read(s.cache, 1, 0, 0, 13, &nothing)); // no array: nothing to do
    FX_OK(qsa_cache_read(s.cache, 1, 0, 13, 0, &cells));
    close_session(&s, world);
    s = open_session(&world, QSA_F16);
    REFUSED(read, qsa_cache_read(s.cache, 0, 0, 0, 1, &cells), QSA_ERR_ARGUMENT, "cells->k_scales");
    WITH(qsa_cells, cells, x.k_scales = NULL, read, qsa_cache_read(s.cache, 0, 0, 0, 1, &x), QSA_ERR_ARGUMENT,
         "cells->v_scales");
    close_session(&s, world);
}

#define WRITE(change, count, word)                                                                                     \
    WITH(qsa_cells, raw, change, write, qsa_cache_write(s.cache, 1, 1, count, &x), QSA_ERR_ARGUMENT, word)

static void writing(void) {
    fx_world *world;
    fx_session s = open_session(&world, QSA_I8); // sequence 1 has 6 cells
    const char *write = "qsa_cache_write";
    memset(&arrays, 0, sizeof arrays);
    const qsa_cells cells = good_cells(1, 0), raw = good_cells(1, 1);
    REFUSED(write, qsa_cache_write(NULL, 0, 0, 1, &raw), QSA_ERR_ARGUMENT, "cache");
    REFUSED(write, qsa_cache_write(s.cache, 0, 0, 1, NULL), QSA_ERR_ARGUMENT, "cells");
    const int32_t layers[] = {-1, 2, INT32_MAX, INT32_MIN}, counts[] = {0, -1, INT32_MIN};
    for (int i = 0; i < 4; i++)
        REFUSED(write, qsa_cache_write(s.cache, layers[i], 0, 1, &raw), QSA_ERR_ARGUMENT, "layer");
    for (size_t i = 0; i < sizeof no_sequence / sizeof *no_sequence; i++)
        REFUSED(write, qsa_cache_write(s.cache, 0, no_sequence[i], 1, &raw), QSA_ERR_ARGUMENT, "sequence");
    for (int i = 0; i < 3; i++)
        REFUSED(write, qsa_cache_write(s.cache, 0, 0, counts[i], &raw), QSA_ERR_ARGUMENT, "count");
    WRITE(x.size = 0, 2, "cells->size");
    WRITE(x.k = NULL, 2, "cells->k");
    WRITE(x.v = NULL, 2, "cells->v");
    WRITE(x.k_scales = NULL, 2, "cells->k_scales");
    WRITE(x.v_scales = NULL, 2, "cells->v_scales");
    WRITE(x.block_keys = NULL, 2, "cells->block_keys"); // 6 + 2 completes a block
    WRITE(x.index_keys = NULL, 2, "cells->index_keys");
    WRITE(x.positions = NULL, 2, "cells->positions");
    for (int32_t i = 0; i < 6; i++) { // a negative position of any axis
        arrays.positions[i] = -1 - i;
        REFUSED(write, qsa_cache_write(s.cache, 1, 1, 2, &raw), QSA_ERR_ARGUMENT, "cells->positions");
        arrays.positions[i] = 0;
    }
    REFUSED(write, qsa_cache_write(s.cache, 1, 1, 3, &cells), QSA_ERR_ARGUMENT, "cells->index_keys"); // 9 cells
    // More cells than there is room for: refused before any array is read, so these may be short.
    REFUSED(write, qsa_cache_write(s.cache, 1, 1, 35, &raw), QSA_ERR_CAPACITY, "max_cells");
    REFUSED(write, qsa_cache_write(s.cache, 1, 1, INT32_MAX, &raw), QSA_ERR_CAPACITY, "max_cells");
    REFUSED(write, qsa_cache_write(s.cache, 1, 1, 34, &raw), QSA_ERR_CAPACITY, "pages");
    // While the batch of another sequence is pending.
    FX_OK(qsa_cache_write(s.cache, 0, 0, 1, &raw));
    misuse_watch(s.cache);
    REFUSED(write, qsa_cache_write(s.cache, 1, 1, 1, &raw), QSA_ERR_STATE, "pending");
    REFUSED(write, qsa_cache_write(s.cache, 1, 0, 2, &raw), QSA_ERR_STATE, "pending");
    REFUSED("qsa_cache_commit", qsa_cache_commit(s.cache), QSA_ERR_STATE, "layer 1");
    REFUSED("qsa_sequence_reset", qsa_sequence_reset(s.cache, 0), QSA_ERR_STATE, "pending");
    REFUSED("qsa_sequence_destroy", qsa_sequence_destroy(s.cache, 0), QSA_ERR_STATE, "pending");
    close_session(&s, world);
    s = open_session(&world, QSA_F32);
    REFUSED(write, qsa_cache_write(s.cache, 0, 0, 1, &raw), QSA_ERR_ARGUMENT, "cells->k_scales");
    WITH(qsa_cells, raw, x.k_scales = NULL, write, qsa_cache_write(s.cache, 0, 0, 1, &x), QSA_ERR_ARGUMENT,
         "cells->v_scales");
    close_session(&s, world);
}

int main(void) {
    PLAIN_RUN(numbers);
    PLAIN_RUN(sequences);
    PLAIN_RUN(reading);
    PLAIN_RUN(writing);
    return plain_finish();
}
