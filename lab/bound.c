// SPDX-License-Identifier: Apache-2.0
//
// The bound of class fast (docs/numerics.md): attention over an i8 cache and merge, against the float64 oracle over the same codes.
#include "lab/prove.h"

#include "support/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { CELLS = 2304, HEADS = 12, DIM = 256, GROUPS = DIM / QSA_GROUP, CHUNKS = (CELLS + QSA_CHUNK - 1) / QSA_CHUNK };

typedef struct scene {
    int8_t k[CELLS * DIM], v[CELLS * DIM];
    uint16_t k_scales[CELLS * GROUPS], v_scales[CELLS * GROUPS];
    double k_value[CELLS * DIM], v_value[CELLS * DIM];
    float q[HEADS * DIM], out[HEADS * DIM], lse[HEADS], records[CHUNKS * HEADS * (2 + DIM)];
    double wide_q[HEADS * DIM], want[HEADS * DIM], want_lse[HEADS];
    int32_t cells[CELLS];
} scene;

// Rows of sizes that vary threefold.
static void encode(rng *r, int8_t *codes, uint16_t *scales, double *values) {
    for (int c = 0; c < CELLS; c++) {
        double x[DIM];
        const double size = 0.5 + rng_uniform(r);
        for (int d = 0; d < DIM; d++)
            x[d] = rng_normal(r) * size;
        oracle_i8_encode(DIM, x, codes + c * DIM, scales + c * GROUPS, NULL);
        oracle_i8_decode(DIM, codes + c * DIM, scales + c * GROUPS, values + c * DIM);
    }
}

// Queries whose logits over the cells have the deviation, head by head.
static void draw_queries(scene *s, rng *r, int count, double deviation) {
    for (int h = 0; h < HEADS; h++) {
        float *q = s->q + h * DIM;
        double sum = 0, squares = 0;
        rng_fill_normal(r, DIM, 1, q);
        for (int c = 0; c < count; c++) {
            double dot = 0;
            for (int d = 0; d < DIM; d++)
                dot += (double)q[d] * s->k_value[s->cells[c] * DIM + d];
            dot /= sqrt(DIM);
            sum += dot;
            squares += dot * dot;
        }
        const double mean = sum / count, now = sqrt(squares / count - mean * mean);
        for (int d = 0; d < DIM; d++)
            q[d] = (float)((double)q[d] * deviation / now);
    }
    oracle_widen((size_t)HEADS * DIM, s->q, s->wide_q);
}

static double error_of(scene *s, qsa_kernel_fn kernel, int count) {
    const int64_t stride = (int64_t)HEADS * (2 + DIM);
    const qsa_attend_args attend = {.q = s->q,
                                    .heads = HEADS,
                                    .dim = DIM,
                                    .scale = 1 / sqrtf(DIM),
                                    .format = QSA_I8,
                                    .k = s->k,
                                    .v = s->v,
                                    .k_scales = s->k_scales,
                                    .v_scales = s->v_scales,
                                    .cells = s->cells,
                                    .count = count,
                                    .records = s->records,
                                    .chunk_stride = stride};
    ((qsa_attend_fn)kernel)(&attend);
    const qsa_merge_args merge = {.records = s->records,
                                  .chunk_stride = stride,
                                  .chunks = (count + QSA_CHUNK - 1) / QSA_CHUNK,
                                  .heads = HEADS,
                                  .dim = DIM,
                                  .out = s->out,
                                  .out_type = QSA_F32,
                                  .out_stride = DIM * 4,
                                  .lse = s->lse};
    qsa_merge_ref(&merge);
    return oracle_worst_head_f32(HEADS, DIM, s->out, s->want, NULL);
}

double lab_bound_error(qsa_kernel_fn kernel, double deviation, uint64_t seed) {
    static const int counts[] = {2048, 700, 64};
    const oracle_geometry g = {.heads = HEADS, .kv_heads = 1, .head_dim = DIM};
    double worst = 0;
    scene *s = calloc(1, sizeof *s);
    if (!s)
        return INFINITY;
    rng r = rng_make(seed);
    encode(&r, s->k, s->k_scales, s->k_value);
    encode(&r, s->v, s->v_scales, s->v_value);
    for (int i = 0; i < 3; i++) {
        const oracle_rows keys = {.f64 = s->k_value}, values = {.f64 = s->v_value};
        rng_shuffle(&r, CELLS, s->cells);
        draw_queries(s, &r, counts[i], deviation);
        oracle_attend(&g, s->wide_q, keys, values, s->cells, counts[i], s->want, s->want_lse);
        worst = fmax(worst, error_of(s, kernel, counts[i]));
    }
    free(s);
    return worst;
}
