// SPDX-License-Identifier: Apache-2.0
//
// Frequencies and angles far out: q and index_q of the library against the oracle at positions up to
// 1,048,575 (and the largest there are), for several rotary widths and bases, text and image positions.
// Frequencies with one rounding instead of two are off by 3e-4 in q at position 6000 already.
// LABELS: small cross
// RUNNER: plain
#include "support/plain_runner.h"
#include "support/rig.h"
#include "support/rng.h"

#include <stdlib.h>

enum { POSITIONS = 48 };

static double worst_near, worst_far;

static int32_t position(rng *random, int i) {
    const int32_t edges[] = {0,      1,      2,      6000,    65535,   65536,   262143,  262144,
                             349525, 524287, 524288, 1000000, 1048573, 1048574, 1048575, 1048576};
    if (i < 16)
        return edges[i];
    return i < 40 ? rng_range(random, 0, 1048575) : i < 47 ? rng_range(random, 0, INT32_MAX) : INT32_MAX;
}

static void check(const oracle_geometry *g, uint64_t seed, bool image) {
    rng random = rng_make(seed);
    rig_rows rows;
    rig r;
    rig_result result;
    rig_config config = rig_defaults(g, POSITIONS);
    rig_rows_init(&rows, g, POSITIONS, seed);
    for (int i = 0; i < POSITIONS; i++)
        for (int axis = 0; axis < 3; axis++)
            rows.positions[3 * i + axis] = axis && !image ? rows.positions[3 * i] : position(&random, i);
    rig_open(&r, &config);
    rig_result_init(&result, &r, POSITIONS);
    const qsa_batch batch = rig_batch(&rows, g, 0, POSITIONS, false);
    rig_observe(&r, 0, &batch, &result);
    const size_t q = (size_t)g->heads * (size_t)g->head_dim, iq = (size_t)g->index_heads * (size_t)g->index_dim;
    double *want = rig_new(q > iq ? q : iq, sizeof *want);
    for (int i = 0; i < POSITIONS; i++) {
        const int32_t *at = rows.positions + 3 * i;
        double *worst = at[0] > 1048575 || at[1] > 1048575 || at[2] > 1048575 ? &worst_far : &worst_near;
        oracle_query(g, &r.norms, rig_q(&rows, g, i), at, want, NULL);
        const double q_error = oracle_max_abs_f32(q, result.q + (size_t)i * q, want);
        oracle_index_query(g, &r.norms, rig_index(&rows, g, i), at, want);
        const double iq_error = oracle_max_abs_f32(iq, result.index_q + (size_t)i * iq, want);
        PLAIN_CHECK(q_error <= 4e-6);
        PLAIN_CHECK(iq_error <= 4e-6);
        *worst = fmax(*worst, fmax(q_error, iq_error));
    }
    free(want);
    rig_result_free(&result);
    rig_rows_free(&rows);
    rig_close(&r);
}

static void far_positions(void) {
    const double thetas[] = {1e7, 1e4, 5e5, 1e6, 1};
    const int rotary[] = {64, 2, 6, 34, 100, 128};
    oracle_geometry g = oracle_geometry_flash_next();
    uint64_t seed = 0;
    g.heads = 2;
    g.kv_heads = 1;
    for (int t = 0; t < 5; t++) {
        for (int w = 0; w < 6; w++, seed += 2) {
            const int half = rotary[w] / 2;
            g.theta = thetas[t];
            g.rotary_dim = rotary[w];
            g.sections[1] = half / 3;
            g.sections[2] = (half - 1) / 3;
            g.sections[0] = half - g.sections[1] - g.sections[2];
            check(&g, seed, w % 2);
            check(&g, seed + 1, w % 2 == 0);
        }
    }
    printf("max abs of q and index_q: %.2e up to position 1048575, %.2e beyond\n", worst_near, worst_far);
}

int main(void) {
    PLAIN_RUN(far_positions);
    return plain_finish();
}
