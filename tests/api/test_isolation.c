// SPDX-License-Identifier: Apache-2.0
//
// What a row must not depend on: later tokens, what unused memory holds, cells that it does not select, bad values in
// other tokens. And events: what bad values are counted, exactly.
// LABELS: small cross
// RUNNER: plain
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <math.h>
#include <stdlib.h>

static const qsa_type kv_types[] = {QSA_F32, QSA_F16, QSA_BF16, QSA_I8};

static fx_world *make_world(uint64_t seed, int32_t length) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {length, 9};
    return fx_world_make(seed, &g, 1, 2, lengths, 1);
}

// All values and the positions of one token become others, `bad` ones if not 0.
static void change_token(fx_world *world, int32_t token, float bad) {
    for (int array = 0; array < FX_ARRAYS; array++) {
        int32_t heads, dim;
        fx_shape(&world->geometry, (fx_array)array, &heads, &dim);
        float *x = fx_values(world, 0, (fx_array)array, token);
        for (int32_t i = 0; i < heads * dim; i++)
            x[i] = bad != 0 ? bad : x[i] + 0.5f;
    }
    world->positions[3 * token] += 5;
}

static void causality(void) {
    for (int32_t changed = 0; changed < 40; changed++) {
        fx_world *world = make_world(71, 40), *other = make_world(71, 40);
        fx_options o = fx_options_default();
        o.kv_type = kv_types[changed % 4];
        o.rule = (qsa_rule)(changed % 2);
        o.stages = changed / 2 % 2;
        change_token(other, changed, changed % 3 == 0 ? NAN : changed % 3 == 1 ? INFINITY : 0);
        fx_results *base = fx_run(world, &o), *r = fx_run(other, &o);
        for (int32_t token = 0; token < world->tokens; token++) {
            const char *what = fx_token_difference(r, base, 0, token);
            if (token < changed || token >= 40)
                PLAIN_CHECK(!what);
            if (token == changed)
                PLAIN_CHECK(what != NULL);
        }
        fx_results_free(base);
        fx_results_free(r);
        fx_world_free(world);
        fx_world_free(other);
    }
}

static void unused_memory(void) {
    const int fills[] = {0x00, 0xff, 0x7f, HEAP_RANDOM};
    fx_world *world = make_world(72, 45);
    for (size_t kv = 0; kv < 4; kv++) {
        fx_results *base = NULL;
        for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
            heap h = heap_make(fills[i]);
            h.state = 1000 * kv;
            fx_options o = fx_options_default();
            o.heap = &h;
            o.kv_type = kv_types[kv];
            o.rollback = kv == 1 ? QSA_ROLLBACK_ALL : 5;
            o.chunk = 7;
            o.interleave = 1;
            o.page_cells = 32;
            fx_results *r = fx_run(world, &o);
            PLAIN_CHECK(h.live_bytes == 0 && h.wrong == 0);
            if (base) {
                FX_SAME(r, base);
                fx_results_free(r);
            } else {
                base = r;
            }
        }
        fx_results_free(base);
    }
    fx_world_free(world);
}

// The cells that row `token` selects, by the result's ids.
static void selected_cells(const fx_world *world, const fx_results *r, int32_t token, int32_t n, uint8_t *selected) {
    const qsa_geometry *g = &world->geometry;
    int32_t count, ids[8];
    memcpy(&count, fx_at(r, 0, FX_COUNT, token), 4);
    memcpy(ids, fx_at(r, 0, FX_IDS, token), r->row[FX_IDS]);
    memset(selected, 0, (size_t)n);
    for (int32_t k = 0; k < count; k++)
        memset(selected + ids[k] * g->ratio, 1, (size_t)g->ratio);
    memset(selected + n / g->ratio * g->ratio, 1, (size_t)(n % g->ratio));
}

// The last token again, over a cache in which cells 0..n-2 are copied and the ones that it does not select are NaN (float
// formats) or the largest codes and scales (i8).
static void run_poisoned(const fx_world *world, const fx_options *o, const uint8_t *selected, int poison_all,
                         fx_results *r) {
    const qsa_geometry *g = &world->geometry;
    const int32_t n = world->length[0];
    const int32_t count[FX_MAX_SEQUENCES] = {n - 1, 0}, one[FX_MAX_SEQUENCES] = {1, 0};
    fx_session from = fx_open(world, o), to = fx_open(world, o);
    fx_step(&from, count, NULL);
    const size_t heads = (size_t)g->kv_heads, vectors = (size_t)n * heads, dim = (size_t)g->head_dim;
    const size_t element = o->kv_type == QSA_I8 ? 1 : fx_element(o->kv_type);
    unsigned char *kv[2] = {fx_alloc(vectors * dim * element), fx_alloc(vectors * dim * element)};
    uint16_t *scales[2] = {fx_alloc(vectors * 2), fx_alloc(vectors * 2)};
    qsa_cells cells = {.size = sizeof cells, .k = kv[0], .v = kv[1], .block_keys = fx_alloc(vectors * 64)};
    cells.index_keys = fx_alloc((size_t)n * 64);
    cells.positions = fx_alloc((size_t)n * 12);
    if (o->kv_type == QSA_I8)
        cells.k_scales = scales[0], cells.v_scales = scales[1];
    FX_OK(qsa_cache_read(from.cache, 0, from.sequence[0], 0, n - 1, &cells));
    for (int32_t cell = 0; cell < n - 1; cell++)
        for (int part = 0; part < 2 && (poison_all || !selected[cell]); part++)
            for (size_t i = (size_t)cell * heads * dim; i < ((size_t)cell + 1) * heads * dim; i++) {
                if (o->kv_type == QSA_I8) {
                    kv[part][i] = i % 2 ? 127 : 0x81;
                    scales[part][i / dim] = 0x7bff;
                } else {
                    fx_encode(NAN, o->kv_type, kv[part] + i * element);
                }
            }
    FX_OK(qsa_cache_write(to.cache, 0, to.sequence[0], n - 1, &cells));
    FX_OK(qsa_cache_commit(to.cache));
    to.done[0] = n - 1;
    fx_step(&to, one, r);
    void *const memory[] = {kv[0], kv[1], scales[0], scales[1], cells.block_keys, cells.index_keys, cells.positions};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    fx_close(&from);
    fx_close(&to);
}

static void unselected_cells(void) {
    for (int32_t n = 21; n < 60; n++) {
        fx_world *world = make_world(1000 + (uint64_t)n, n);
        fx_options o = fx_options_default();
        o.rollback = QSA_ROLLBACK_ALL;
        o.kv_type = kv_types[n % 4];
        o.stages = n % 3 == 0;
        fx_results *base = fx_run(world, &o), *r = fx_run(world, &o);
        uint8_t selected[64];
        selected_cells(world, base, n - 1, n, selected);
        int32_t unselected = 0;
        for (int32_t cell = 0; cell < n; cell++)
            unselected += !selected[cell];
        PLAIN_CHECK_INT(unselected, n - 16 - n % 4);
        memset(fx_at(r, 0, FX_OUT, n - 1), 0, r->row[FX_OUT]);
        run_poisoned(world, &o, selected, 0, r);
        PLAIN_CHECK(!fx_token_difference(r, base, 0, n - 1));
        run_poisoned(world, &o, selected, 1, r); // control: the poison would be seen
        PLAIN_CHECK(fx_token_difference(r, base, 0, n - 1) != NULL);
        fx_results_free(base);
        fx_results_free(r);
        fx_world_free(world);
    }
}

// Bad k and v values in one token: rows that do not select it are as before; those that do are finite in i8, where NaN is 0
// and infinity 127 codes, and NaN in the other formats.
static void bad_values(void) {
    for (int round = 0; round < 16; round++) {
        fx_world *world = make_world(80, 50), *other = make_world(80, 50);
        fx_options o = fx_options_default();
        o.kv_type = kv_types[round % 4];
        const int32_t bad = 10 + round;
        fx_values(other, 0, FX_K, bad)[3] = NAN;
        fx_values(other, 0, FX_V, bad)[round] = NAN;
        fx_results *base = fx_run(world, &o), *r = fx_run(other, &o);
        int dependent = 0, independent = 0;
        for (int32_t token = 0; token < 50; token++) {
            uint8_t selected[64];
            selected_cells(world, base, token, token + 1, selected);
            if (token < bad || !selected[bad]) {
                PLAIN_CHECK(!fx_token_difference(r, base, 0, token));
                independent += token > bad;
                continue;
            }
            dependent++;
            float out[4 * 24];
            memcpy(out, fx_at(r, 0, FX_OUT, token), sizeof out);
            int nans = 0;
            for (int i = 0; i < 4 * 24; i++)
                nans += isnan(out[i]);
            // The first KV head's two query heads read the NaN.
            PLAIN_CHECK_INT(nans, o.kv_type == QSA_I8 ? 0 : 2 * 24);
        }
        PLAIN_CHECK(dependent > 0 && independent > 0);
        fx_results_free(base);
        fx_results_free(r);
        fx_world_free(world);
        fx_world_free(other);
    }
}

// Bad raw values into v, which is stored as it is: each is counted once. Keys are normed first: one NaN makes the sum of
// squares NaN, and with it all 24 dims of the vector.
static void events(void) {
    // 1e9 and -3.4e38: the largest f16 is 65504, the largest bf16 3.39e38; in i8 the scale saturates, and both codes.
    const int32_t saturated[] = {0, 2, 1, 2};
    for (size_t kv = 0; kv < 4; kv++)
        for (int threads = 1; threads <= 2; threads++) {
            fx_world *world = make_world(90, 30);
            fx_options o = fx_options_default();
            o.kv_type = kv_types[kv];
            o.threads = threads;
            o.interleave = 1;
            float *v = fx_values(world, 0, FX_V, 7);
            v[0] = NAN;
            v[5] = INFINITY;
            v[25] = -INFINITY;
            v[26] = NAN;
            fx_values(world, 0, FX_V, 29)[1] = NAN;
            fx_values(world, 0, FX_V, 3)[1] = 1e9f;
            fx_values(world, 0, FX_V, 3)[2] = -3.4e38f;
            fx_values(world, 0, FX_K, 12)[20] = NAN;
            fx_session s = fx_open(world, &o);
            fx_run_on(&s, NULL);
            qsa_cache_events e = {.size = sizeof e};
            FX_OK(qsa_cache_get_events(s.cache, &e));
            PLAIN_CHECK_INT(e.nan, 3 + 24);
            PLAIN_CHECK_INT(e.infinite, 2);
            PLAIN_CHECK_INT(e.saturated, saturated[kv]);
            FX_OK(qsa_cache_reset_events(s.cache));
            FX_OK(qsa_cache_get_events(s.cache, &e));
            PLAIN_CHECK(e.nan == 0 && e.infinite == 0 && e.saturated == 0);
            // The stored codes of token 7: 0 for NaN, +-127 for the infinities.
            if (kv == 3) {
                int8_t codes[2 * 24] = {0};
                qsa_cells cells = {.size = sizeof cells, .v = codes};
                FX_OK(qsa_cache_read(s.cache, 0, s.sequence[0], 7, 1, &cells));
                PLAIN_CHECK(codes[0] == 0 && codes[5] == 127 && codes[25] == -127 && codes[26] == 0);
            }
            fx_close(&s);
            fx_world_free(world);
        }
}

int main(void) {
    PLAIN_RUN(causality);
    PLAIN_RUN(unused_memory);
    PLAIN_RUN(unselected_cells);
    PLAIN_RUN(bad_values);
    PLAIN_RUN(events);
    return plain_finish();
}
