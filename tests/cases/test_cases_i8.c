// SPDX-License-Identifier: Apache-2.0
//
// Edges of the cache formats: i8 groups so small that their scale is subnormal or 0 (codes above 127
// elsewhere), so large that it saturates, with infinities and NaN among numbers; halves beyond their
// range. Codes and scales read back, events counted, and no bad value reaches another token.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

enum { ROWS = 40, DIM = 80 }; // a group of 64 and one of 16

static oracle_geometry geometry(void) {
    oracle_geometry g = small_geometry();
    g.head_dim = DIM;
    return g;
}

// Runs the rows and reads the cache back.
static void run(const oracle_geometry *g, const rig_rows *rows, qsa_type type, const char *where, rig *r,
                rig_result *result, rig_stored *stored) {
    rig_config config = rig_defaults(g, ROWS);
    config.kv_type = type;
    config.where = where;
    rig_open(r, &config);
    rig_result_init(result, r, ROWS);
    rig_run(r, rows, 6, QSA_RULE_OFFICIAL, false, result);
    rig_read(r, 0, 0, stored);
}

static void finish(rig *r, rig_result *result, rig_stored *stored) {
    rig_stored_free(stored);
    rig_result_free(result);
    rig_close(r);
}

static void check_events(const rig *r, uint64_t nan, uint64_t infinite, uint64_t saturated) {
    qsa_cache_events events = {.size = sizeof events};
    RIG_OK(qsa_cache_get_events(r->cache, &events));
    PLAIN_CHECK_INT(events.nan, nan);
    PLAIN_CHECK_INT(events.infinite, infinite);
    PLAIN_CHECK_INT(events.saturated, saturated);
}

// The value row of KV head 1 of token 9 holds `first` at dim 3 (or 70), halves of it elsewhere.
static const struct {
    float at3, others;
    uint16_t scale;
    int8_t code3, code_others;
    uint64_t nan, infinite, saturated;
} edges[] = {
    {1e-4f, 5e-5f, 0x000d, 127, 65, 0, 0, 0},      // 13 * 2^-24: 129.06 clamped, 64.5 above it
    {-1e-5f, 5e-6f, 0x0001, -127, 84, 0, 0, 0},    // 2^-24: -167.8 clamped, 83.9
    {3.8e-6f, -1.9e-6f, 0x0001, 64, -32, 0, 0, 0}, // 63.8, -31.9
    {3.7e-6f, 1e-6f, 0x0000, 0, 0, 0, 0, 0},       // below half of 2^-24: scale 0
    {0, 0, 0x0000, 0, 0, 0, 0, 0},                 // all zeros
    {8.32e6f, 4.16e6f, 0x7bff, 127, 64, 0, 0, 0},  // 65512 rounds to 65504: 127.01, 63.5 above it
    {1e7f, -1e5f, 0x7bff, 127, -2, 0, 0, 1},       // the scale saturates: 152.7 clamped and counted
    {-3e38f, 1e5f, 0x7bff, -127, 2, 0, 0, 1},      //
    {INFINITY, 1e5f, 0x7bff, 127, 2, 0, 1, 0},     // the rest of the group keeps what 65504 leaves of it
    {-INFINITY, 1.0f, 0x7bff, -127, 0, 0, 1, 0},   //
    {NAN, 127.0f, 0x3c00, 0, 127, 1, 0, 0},        // NaN is no maximum: scale 1
    {-NAN, -1e-5f, 0x0001, 0, -127, 1, 0, 0},      //
    {NAN, 0, 0x0000, 0, 0, 1, 0, 0},               //
};

static void i8_groups(void) {
    const oracle_geometry g = geometry();
    rig_rows rows;
    rig plain_rig;
    rig_result plain_result;
    rig_stored plain_stored;
    const char *wheres[16];
    const int kernels = rig_wheres(wheres);
    rig_rows_init(&rows, &g, ROWS, 81);
    run(&g, &rows, QSA_I8, NULL, &plain_rig, &plain_result, &plain_stored);
    const size_t row = (size_t)g.kv_heads * (size_t)DIM;
    for (int e = 0; e < COUNT(edges); e++) {
        for (int group = 0; group < 2; group++) {
            const int begin = group ? 64 : 0, end = group ? DIM : 64, at = group ? 70 : 3;
            rig r;
            rig_result result;
            rig_stored s;
            rig_rows_free(&rows);
            rig_rows_init(&rows, &g, ROWS, 81);
            float *value = rig_v(&rows, &g, 9) + DIM; // KV head 1
            for (int d = begin; d < end; d++)
                value[d] = d == at ? edges[e].at3 : edges[e].others;
            run(&g, &rows, QSA_I8, wheres[e % kernels], &r, &result, &s);
            const int8_t *codes = (int8_t *)s.v_bits + 9 * row + DIM;
            const uint16_t *scales = s.v_scales + (9 * g.kv_heads + 1) * 2;
            PLAIN_CHECK_INT(scales[group], edges[e].scale);
            for (int d = begin; d < end; d++)
                PLAIN_CHECK_INT(codes[d], d == at ? edges[e].code3 : edges[e].code_others);
            check_events(&r, edges[e].nan, edges[e].infinite, edges[e].saturated);
            PLAIN_CHECK(all_finite(result.out, (size_t)ROWS * (size_t)g.heads * (size_t)DIM));
            // Nothing else in the cache has changed: not the other group, head or tokens, nor the keys.
            PLAIN_CHECK_INT(scales[!group], plain_stored.v_scales[(9 * g.kv_heads + 1) * 2 + !group]);
            memcpy((int8_t *)s.v_bits + 9 * row + DIM + begin, (int8_t *)plain_stored.v_bits + 9 * row + DIM + begin,
                   (size_t)end - (size_t)begin);
            PLAIN_CHECK_BYTES(s.v_bits, plain_stored.v_bits, ROWS * row);
            PLAIN_CHECK_BYTES(s.k_bits, plain_stored.k_bits, ROWS * row);
            PLAIN_CHECK(same_rows(&r, &result, 0, &plain_result, 0, 9)); // rows before the token
            finish(&r, &result, &s);
        }
    }
    finish(&plain_rig, &plain_result, &plain_stored);
    rig_rows_free(&rows);
}

// Random groups of every size of number, spoilt here and there: codes, scales and counts are the oracle's.
static void i8_random(const char *where) {
    const oracle_geometry g = geometry();
    rig_rows rows;
    rig r;
    rig_result result;
    rig_stored s;
    oracle_events events = {0};
    rng random = rng_make(82);
    rig_rows_init(&rows, &g, ROWS, 83);
    for (int32_t i = 0; i < ROWS; i++) {
        for (int h = 0; h < g.kv_heads; h++) {
            const float size = ldexpf(1, rng_range(&random, -40, 60));
            for (int d = 0; d < DIM; d++) {
                const uint32_t odd = rng_below(&random, 200);
                float *x = &rig_v(&rows, &g, i)[h * DIM + d];
                *x = odd == 0 ? NAN : odd == 1 ? INFINITY : odd == 2 ? -INFINITY : odd == 3 ? 1e7f : *x * size;
            }
        }
    }
    run(&g, &rows, QSA_I8, where, &r, &result, &s);
    for (int32_t v = 0; v < ROWS * g.kv_heads; v++) {
        double wide[DIM];
        int8_t codes[DIM];
        uint16_t scales[2];
        oracle_widen(DIM, rows.v + v * DIM, wide);
        oracle_i8_encode(DIM, wide, codes, scales, &events);
        PLAIN_CHECK_BYTES((int8_t *)s.v_bits + v * DIM, codes, sizeof codes);
        PLAIN_CHECK_BYTES(s.v_scales + v * 2, scales, sizeof scales);
    }
    PLAIN_CHECK(events.nans > 5 && events.infinities > 5 && events.saturated > 5);
    check_events(&r, (uint64_t)events.nans, (uint64_t)events.infinities, (uint64_t)events.saturated);
    PLAIN_CHECK(all_finite(result.out, (size_t)ROWS * (size_t)g.heads * (size_t)DIM));
    RIG_OK(qsa_cache_reset_events(r.cache));
    check_events(&r, 0, 0, 0);
    finish(&r, &result, &s);
    rig_rows_free(&rows);
}

// Finite values that would round to infinity are stored as the largest and counted (65520 and above as
// f16); infinities and NaN stay, in one form.
static void halves(const char *where) {
    const oracle_geometry g = geometry();
    const struct {
        float x;
        uint16_t f16, bf16;
    } values[] = {{65504, 0x7bff, 0x4780},   {65519.996f, 0x7bff, 0x4780}, {65520, 0x7bff, 0x4780},
                  {-65536, 0xfbff, 0xc780},  {1e30f, 0x7bff, 0x714a},      {0x1.fep127f, 0x7bff, 0x7f7f},
                  {3.4e38f, 0x7bff, 0x7f7f}, {INFINITY, 0x7c00, 0x7f80},   {-INFINITY, 0xfc00, 0xff80},
                  {NAN, 0x7e00, 0x7fc0},     {-NAN, 0x7e00, 0x7fc0},       {6e-8f, 0x0001, 0x3381},
                  {-0.0f, 0x8000, 0x8000},   {2.9e-8f, 0x0000, 0x32f9},    {-3.4028235e38f, 0xfbff, 0xff7f}};
    for (int t = 1; t <= 2; t++) {
        rig_rows rows;
        rig r;
        rig_result result;
        rig_stored s;
        rig_rows_init(&rows, &g, ROWS, 84);
        for (int i = 0; i < COUNT(values); i++)
            rig_v(&rows, &g, ROWS - 1)[i] = values[i].x;
        run(&g, &rows, kv_types[t], where, &r, &result, &s);
        const uint16_t *bits = (uint16_t *)s.v_bits + (ROWS - 1) * g.kv_heads * DIM;
        for (int i = 0; i < COUNT(values); i++)
            PLAIN_CHECK_INT(bits[i], t == 1 ? values[i].f16 : values[i].bf16);
        // f16: 65520, -65536, 1e30 and the three largest; bf16: 3.4e38 and -3.4028235e38
        check_events(&r, 2, 2, t == 1 ? 6 : 2);
        finish(&r, &result, &s);
        rig_rows_free(&rows);
    }
}

static void random_groups_and_halves(void) {
    const char *wheres[16];
    for (int i = 0, count = rig_wheres(wheres); i < count; i++) {
        i8_random(wheres[i]);
        halves(wheres[i]);
    }
}

int main(void) {
    PLAIN_RUN(i8_groups);
    PLAIN_RUN(random_groups_and_halves);
    return plain_finish();
}
