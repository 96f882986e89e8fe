// SPDX-License-Identifier: Apache-2.0
//
// Class fast by products of int16 pairs (attend_fast.h): codes are widened to int16, q and p are int16 already. Both products
// are then the same small matrix product: 64 int16 of every head times 64 x 64 codes, summed exactly in int32
// (64 * 128 * 65535 < 2^31), and scaled in float32. Lanes are cells in QK, so K's codes are transposed four dims at a time, and
// dims in PV, so V's rows are interleaved four at a time.

#ifndef QSA_KERNELS_ATTEND_ATTEND_I16_H
#define QSA_KERNELS_ATTEND_ATTEND_I16_H

#include "kernels/attend/attend_fast.h"
#include "kernels/attend/product_i16.h"

typedef struct i16_tile {
    fast_tile fast;
    _Alignas(64) int16_t q[GROUPS][HEADS][WIDTH];
    _Alignas(64) int16_t p[HEADS][WIDTH];                        // of one group
    _Alignas(64) int16_t b[WIDTH / BLOCK][WIDTH / 2][2 * BLOCK]; // codes of one group: [block][pair][lane][2]
    _Alignas(64) int32_t start[WIDTH / BLOCK][BLOCK];            // sums start here: 32768 times those of the codes
    _Alignas(64) float p_scale[HEADS], p_inverse[HEADS];
} i16_tile;

QSA_INLINE void all_heads(product x, int32_t heads, const products *by) {
    while (heads > 0) {
        const int32_t n = heads_at_once(heads);
        (n == 12 ? by->twelve : n == 6 ? by->six : n == 2 ? by->two : by->one)(&x);
        heads -= n;
        x.a += n * WIDTH;
        x.head_scale += n;
        x.out += n * x.stride;
    }
}

static void i16_queries(fast_tile *f, const qsa_attend_args *args) {
    i16_tile *t = (i16_tile *)f;
    for (int32_t h = 0; h < args->heads; h++)
        for (int32_t g = 0; g < f->groups; g++) {
            v16 x[WIDTH / 16];
            quantize_group(f, args, h, g, x);
            for (int i = 0; i < WIDTH / 16; i++)
                v16_to_quads(t->q[g][h] + 16 * i, x[i]);
        }
}

// K of a block of cells: quads of dims, lanes of cells.
QSA_INLINE void transpose_keys(i16_tile *t, int32_t block) {
    for (int32_t c = 0; c < BLOCK; c += QSA_X)
        for (int32_t d = 0; d < WIDTH; d += 16)
            i32x_transpose(t->b[block][d / 2] + 2 * c, t->fast.row + block * BLOCK + c, d);
}

static void i16_logits(fast_tile *f, const qsa_attend_args *args, const int32_t *cells, int32_t count) {
    i16_tile *t = (i16_tile *)f;
    static const _Alignas(64) int32_t zeros[BLOCK];
    memset(f->s, 0, (size_t)args->heads * sizeof f->s[0]);
    fetch_set(f, args->v, args->v_scales, cells, count,
              f->groups * ((count + BLOCK - 1) / BLOCK) * products_of(args->heads) * (WIDTH / 2 / SEGMENT));
    for (int32_t g = 0; g < f->groups; g++) {
        const int32_t dims = args->dim - g * WIDTH, pairs = dims < WIDTH ? (dims + 3) / 4 * 2 : WIDTH / 2;
        find_rows(f, args, args->k, cells, count, g);
        for (int32_t block = 0; block * BLOCK < count; block++) {
            transpose_keys(t, block);
            const product x = {.a = t->q[g][0],
                               .b = t->b[block][0],
                               .start = zeros,
                               .pairs = pairs,
                               .ahead = &f->ahead,
                               .head_scale = f->q_scale[g],
                               .lane_scale = f->k_scale[g] + block * BLOCK,
                               .out = f->s[0] + block * BLOCK,
                               .stride = WIDTH};
            all_heads(x, args->heads, &all_logits);
        }
    }
}

QSA_INLINE void set_weights(i16_tile *t, int32_t g, int32_t heads) {
    weight_steps(&t->fast, g, heads, t->p_scale, t->p_inverse);
    for (int32_t h = 0; h < heads; h++)
        for (int32_t c = 0; c < WIDTH; c += 16)
            v16_to_quads(t->p[h] + c, quantize_weights(&t->fast, g, h, c, t->p_inverse[h]));
}

// V of a group: quads of cells, lanes of dims.
QSA_INLINE void interleave_values(i16_tile *t, int32_t count) {
    for (int32_t d = 0; d < WIDTH; d += QSA_ROW_BYTES)
        i32x_interleave(t->b[d / BLOCK][0], sizeof t->b[0] / sizeof(int16_t), t->start[d / BLOCK], t->fast.row,
                        (count + 3) / 4 * 4, d);
}

static void i16_outputs(fast_tile *f, const qsa_attend_args *args, const int32_t *cells, int32_t count, int32_t ahead,
                        float *records) {
    i16_tile *t = (i16_tile *)f;
    fetch_set(f, args->k, args->k_scales, cells + count, ahead,
              (args->dim + BLOCK - 1) / BLOCK * products_of(args->heads) * (WIDTH / 2 / SEGMENT));
    for (int32_t g = 0; g < f->groups; g++) {
        find_rows(f, args, args->v, cells, count, g);
        set_weights(t, g, args->heads);
        interleave_values(t, count);
        for (int32_t block = 0; block < WIDTH / BLOCK; block++) {
            const int32_t d = g * WIDTH + block * BLOCK / QSA_ROW_BYTES * QSA_ROW_BYTES + block * 8 % 16;
            const product x = {.a = t->p[0],
                               .b = t->b[block][0],
                               .start = t->start[block],
                               .pairs = (count + 3) / 4 * 2,
                               .ahead = &f->ahead,
                               .head_scale = t->p_scale,
                               .out = records + 2 + d,
                               .stride = 2 + args->dim,
                               .dims = args->dim - d};
            if (d < args->dim)
                all_heads(x, args->heads, &all_outputs);
        }
    }
}

QSA_INLINE void attend_i16(const qsa_attend_args *args, qsa_attend_fn strict) {
    static const fast_idea idea = {i16_queries, i16_logits, i16_outputs};
    i16_tile t;
    attend_fast(&t.fast, &idea, args, strict);
}

#endif
