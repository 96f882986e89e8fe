// SPDX-License-Identifier: Apache-2.0
//
// Empty splits merge to nothing: records with l = 0, whatever else they hold, in any place (the first
// chunk fully masked poisoned the row elsewhere), and rows of none.
// LABELS: small cross
// RUNNER: plain
#include "cases.h"

enum { CHUNKS = 5, HEADS = 6, DIM = 100, RECORD = 2 + DIM };

static float records[CHUNKS][HEADS][RECORD], holed[CHUNKS][HEADS][RECORD], packed[CHUNKS][HEADS][RECORD];

static void fill(rng *random) {
    for (int c = 0; c < CHUNKS; c++) {
        for (int h = 0; h < HEADS; h++) {
            rng_fill_normal(random, RECORD, 3, records[c][h]);
            records[c][h][1] = 1 + 63 * (float)rng_uniform(random);
        }
    }
}

static void merge(qsa_context *context, const oracle_geometry *g, const float *from, int32_t chunks, bool gated,
                  float *out, float *lse) {
    const qsa_geometry geometry = rig_geometry(g);
    static float gates[HEADS * DIM];
    for (int i = 0; i < HEADS * DIM; i++)
        gates[i] = (float)(i % 17 - 8);
    const qsa_rows gate = {gates, QSA_F32, sizeof gates, DIM * sizeof(float)};
    const qsa_rows_out to = {out, QSA_F32, HEADS * DIM * sizeof(float), DIM * sizeof(float)};
    memset(out, 0xff, HEADS * DIM * sizeof(float));
    memset(lse, 0xff, HEADS * sizeof(float));
    RIG_OK(qsa_merge(context, &geometry, 1, from, (int64_t)CHUNKS * HEADS * RECORD, &chunks, gated ? &gate : NULL, &to,
                     lse));
}

// Head h of the chunks whose bit in mask[h] is clear becomes empty; `packed` holds the others first.
static int32_t make_holes(const uint32_t mask[HEADS], const float junk[2]) {
    int32_t most = 0;
    for (int h = 0; h < HEADS; h++) {
        int32_t kept = 0;
        for (int c = 0; c < CHUNKS; c++) {
            memcpy(holed[c][h], records[c][h], sizeof holed[c][h]);
            if (mask[h] >> c & 1) {
                memcpy(packed[kept++][h], records[c][h], sizeof records[c][h]);
                continue;
            }
            holed[c][h][0] = junk[0];
            holed[c][h][1] = 0;
            for (int d = 2; d < RECORD; d++)
                holed[c][h][d] = junk[1];
        }
        for (int c = kept; c < CHUNKS; c++)
            memset(packed[c][h], 0, sizeof packed[c][h]);
        most = kept > most ? kept : most;
    }
    return most;
}

static void empty_records_by(const char *where) {
    const oracle_geometry g = small_geometry();
    const float junk[][2] = {{-INFINITY, 0}, {NAN, NAN}, {INFINITY, INFINITY}, {3e38f, -3e38f}, {0, 0}};
    rng random = rng_make(61);
    static float got[HEADS * DIM], want[HEADS * DIM];
    float got_lse[HEADS], want_lse[HEADS];
    qsa_context *context;
    RIG_OK(qsa_context_create(NULL, &context));
    rig_force(context, where);
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t mask[HEADS];
        fill(&random);
        for (int h = 0; h < HEADS; h++) // all heads alike, then each its own
            mask[h] = round < 32 ? round : rng_below(&random, 32);
        const int32_t most = make_holes(mask, junk[round % COUNT(junk)]);
        merge(context, &g, &holed[0][0][0], CHUNKS, round % 2, got, got_lse);
        merge(context, &g, &packed[0][0][0], most, round % 2, want, want_lse);
        PLAIN_CHECK_BYTES(got, want, sizeof got);
        PLAIN_CHECK_BYTES(got_lse, want_lse, sizeof got_lse);
        for (int h = 0; h < HEADS; h++) {
            double max = -INFINITY, sum = 0, value = 0;
            for (int c = 0; c < CHUNKS; c++)
                max = mask[h] >> c & 1 ? fmax(max, records[c][h][0]) : max;
            for (int c = 0; c < CHUNKS; c++) {
                const double e = mask[h] >> c & 1 ? exp(records[c][h][0] - max) : 0;
                sum += e * records[c][h][1];
                value += e * records[c][h][2 + 7];
            }
            PLAIN_CHECK(mask[h] ? fabs(got_lse[h] - (max + log(sum))) <= 2e-6 : got_lse[h] == -INFINITY);
            if (round % 2 == 0)
                PLAIN_CHECK_NEAR(got[h * DIM + 7], mask[h] ? value / sum : 0, 2e-6);
        }
    }
    qsa_context_destroy(context);
}

static void empty_records(void) {
    const char *wheres[16];
    for (int i = 0, count = rig_wheres(wheres); i < count; i++)
        empty_records_by(wheres[i]);
}

static void nothing_at_all(void) {
    const oracle_geometry g = small_geometry();
    const uint32_t mask[HEADS] = {0};
    static float got[HEADS * DIM], zero[HEADS * DIM];
    float lse[HEADS];
    qsa_context *context;
    RIG_OK(qsa_context_create(NULL, &context));
    for (int gated = 0; gated < 2; gated++) {
        for (int32_t chunks = 0; chunks <= CHUNKS; chunks += CHUNKS) {
            make_holes(mask, (float[]){NAN, NAN});
            merge(context, &g, &holed[0][0][0], chunks, gated, got, lse);
            for (int h = 0; h < HEADS; h++)
                PLAIN_CHECK(lse[h] == -INFINITY);
            for (int i = 0; i < HEADS * DIM; i++)
                PLAIN_CHECK(got[i] == 0);
            if (!gated)
                PLAIN_CHECK_BYTES(got, zero, sizeof got); // +0
        }
    }
    qsa_context_destroy(context);
}

int main(void) {
    PLAIN_RUN(empty_records);
    PLAIN_RUN(nothing_at_all);
    return plain_finish();
}
