// SPDX-License-Identifier: Apache-2.0
//
// Class fast on AMX tiles (attend_fast.h). An int16 is a signed high and an unsigned low byte: two exact products of bytes, 256
// times the one plus the other, are the sum of the rows `i16`, so the bits are the same.
//
// QK: a = 16 cells, their codes as the cache has them, 64 dims; b = quads of dims of 16 heads, made once per call; the sums are
// [cell][head], scaled with lanes of heads, and turned once per 16 cells. PV: a = weights [head][64 cells]; b = quads of cells of
// 16 dims, four rows of V interleaved. So only V is shuffled. Both go in steps of three stages, copying, products, scaling: a
// tile load waits for a store to reach the cache and a tile's store takes some 70 cycles from its load, so each stage works on
// another step.
//
// Counts for 64 cells of 12 heads and 256 dims: 64 tile products of 16 cycles (the rows avx512_vnni: 6,144 vpdpwssd, at most two a
// cycle), 64 tile stores, 768 vector shuffles for V, 256 for S, 192 for the weights.

#ifndef QSA_KERNELS_ATTEND_ATTEND_AMX_H
#define QSA_KERNELS_ATTEND_ATTEND_AMX_H

#include "kernels/attend/attend_fast.h"
#include "kernels/simd/amx.h"

enum { RUN = 4 }; // groups of a step of QK; tiles of 16 dims of a group in PV

typedef unsigned char tile_bytes[TILE_ROWS][TILE_BYTES];
typedef int32_t tile_sums[TILE_ROWS][TILE_ROWS];

typedef struct amx_tile {
    fast_tile fast;
    _Alignas(64) tile_bytes q[GROUPS][2];                         // [plane][quad of dims][head][4]
    _Alignas(64) unsigned char k[2][TILE_ROWS][RUN * TILE_BYTES]; // copied rows, [step % 2]
    _Alignas(64) tile_bytes p[2][2], v[2][RUN];                   // [group % 2][plane], [group % 2][16 dims]
    _Alignas(64) tile_sums sum[2][RUN][2];                        // [step % 2][group, or 16 dims][plane]
    _Alignas(64) float s[TILE_ROWS][HEADS];                       // logits of 16 cells
    _Alignas(64) float p_scale[GROUPS][HEADS], p_inverse[HEADS];
} amx_tile;

static void configure(int32_t heads) {
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = TILE_BYTES;
        config.rows[i] = i < 4 ? TILE_ROWS : (uint8_t)heads; // 4-7: weights and their sums
    }
    tiles_configure(&config);
}

// The heads' planes, turned: heads become columns.
static void amx_queries(fast_tile *f, const qsa_attend_args *args) {
    amx_tile *t = (amx_tile *)f;
    configure(args->heads);
    _Alignas(64) tile_bytes plane[2] = {{{0}}}, turned;
    memset(f->q_scale, 0, (size_t)f->groups * sizeof f->q_scale[0]);
    for (int32_t g = 0; g < f->groups; g++) {
        for (int32_t h = 0; h < args->heads; h++) {
            v16 x[WIDTH / 16];
            quantize_group(f, args, h, g, x);
            bytes_of_planes(plane[0][h], plane[1][h], x, 0);
        }
        for (int i = 0; i < 2; i++) {
            turn16(turned, TILE_BYTES, plane[i]);
            for (int32_t quad = 0; quad < TILE_ROWS; quad++)
                memcpy(t->q[g][i][quad], turned[quad_row(quad)], TILE_BYTES);
        }
    }
}

// ---- QK: a step is RUN groups of 16 cells ---------------------------------------------------------

typedef struct key_step {
    const unsigned char *rows; // codes of the first group
    size_t stride;
    int32_t block, first, groups; // groups first .. first + groups - 1 of cells 16 block ..
} key_step;

// Where the step's codes are: in the cache if its 16 rows follow each other and its groups are whole, else in a copy. Rows behind
// the last are that one again.
QSA_INLINE key_step copy_keys(amx_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count,
                              int32_t step) {
    const int32_t runs = (t->fast.groups + RUN - 1) / RUN, first = step % runs * RUN, left = t->fast.groups - first;
    const int32_t begin = first * WIDTH, from = step / runs * TILE_ROWS, last = from + TILE_ROWS - 1;
    const int32_t groups = left < RUN ? left : RUN, dims = args->dim - begin;
    const size_t dim = (size_t)args->dim;
    const unsigned char *rows = (const unsigned char *)args->k + begin;
    if (dims >= groups * WIDTH && last < count && cells[last] - cells[from] == TILE_ROWS - 1)
        return (key_step){rows + (size_t)cells[from] * dim, dim, step / runs, first, groups};
    for (int32_t c = 0; c < TILE_ROWS; c++) {
        const unsigned char *row = rows + (size_t)cells[from + c < count ? from + c : count - 1] * dim;
        unsigned char *copy = t->k[step % 2][c];
        int32_t d = 0;
        for (; d + QSA_ROW_BYTES <= dims && d < groups * WIDTH; d += QSA_ROW_BYTES)
            codes_store((int16_t *)(copy + d), codes_load(row + d));
        if (d < groups * WIDTH) {
            memcpy(copy + d, row + d, (size_t)(dims - d));
            memset(copy + dims, 0, (size_t)(groups * WIDTH - dims));
        }
    }
    return (key_step){t->k[step % 2][0], sizeof t->k[0][0], step / runs, first, groups};
}

QSA_INLINE void key_products(amx_tile *t, const key_step *x, int32_t step) {
    for (int32_t i = 0; i < x->groups; i++) {
        tile_bytes *q = t->q[x->first + i];
        tile_sums *sum = t->sum[step % 2][i];
        tile_load(0, x->rows + i * WIDTH, x->stride);
        tile_load(1, q[0], TILE_BYTES);
        tile_zero(3);
        tile_dot_ss(3, 0, 1);
        tile_store(3, sum[0], sizeof sum[0][0]);
        tile_load(2, q[1], TILE_BYTES);
        tile_zero(3);
        tile_dot_su(3, 0, 2);
        tile_store(3, sum[1], sizeof sum[0][0]);
    }
}

QSA_INLINE void key_logits(amx_tile *t, const key_step *x, int32_t step) {
    fast_tile *f = &t->fast;
    for (int32_t c = 0; c < TILE_ROWS; c++) {
        fetch_some(&f->ahead);
        for (int32_t h = 0; h < HEADS; h += QSA_X) {
            f32x s = x->first ? f32x_load(&t->s[c][h]) : f32x_set(0.0f);
            for (int32_t i = 0; i < x->groups; i++) {
                tile_sums *sum = t->sum[step % 2][i];
                const float scale = f->k_scale[x->first + i][x->block * TILE_ROWS + c];
                s = f32x_fma(f32x_of_planes(&sum[0][c][h], &sum[1][c][h]),
                             f32x_mul(f32x_load(&f->q_scale[x->first + i][h]), f32x_set(scale)), s);
            }
            f32x_store(&t->s[c][h], s);
        }
    }
    if (x->first + x->groups == f->groups)
        turn16(&f->s[0][x->block * TILE_ROWS], sizeof f->s[0], t->s);
}

static void amx_logits(fast_tile *f, const qsa_attend_args *args, const int32_t *cells, int32_t count) {
    amx_tile *t = (amx_tile *)f;
    const int32_t steps = (count + TILE_ROWS - 1) / TILE_ROWS * ((f->groups + RUN - 1) / RUN);
    fetch_set(f, args->v, args->v_scales, cells, count, steps * TILE_ROWS);
    key_step before = {0}, now = {0}, next = copy_keys(t, args, cells, count, 0);
    for (int32_t step = 0; step < steps; step++) {
        now = next;
        if (step + 1 < steps)
            next = copy_keys(t, args, cells, count, step + 1);
        key_products(t, &now, step);
        if (step > 0)
            key_logits(t, &before, step - 1);
        before = now;
    }
    key_logits(t, &now, steps - 1);
}

// ---- PV: a step is a group ------------------------------------------------------------------------

QSA_INLINE void copy_values(amx_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count, int32_t g) {
    fast_tile *f = &t->fast;
    tile_bytes *p = t->p[g % 2];
    weight_steps(f, g, args->heads, t->p_scale[g], t->p_inverse);
    for (int32_t h = 0; h < args->heads; h++) {
        v16 x[WIDTH / 16];
        for (int i = 0; i < WIDTH / 16; i++)
            x[i] = quantize_weights(f, g, h, 16 * i, t->p_inverse[h]);
        bytes_of_planes(p[0][h], p[1][h], x, INT16_MIN); // x + 32768 modulo 2^16
    }
    find_rows(f, args, args->v, cells, count, g);
    tiles_of_rows(t->v[g % 2], f->row);
}

// Tiles of 16 dims of group g.
QSA_INLINE int32_t value_tiles(const fast_tile *f, int32_t g) {
    const int32_t dims = f->dim - g * WIDTH;
    return dims >= WIDTH ? RUN : (dims + TILE_ROWS - 1) / TILE_ROWS;
}

QSA_INLINE void value_products(amx_tile *t, int32_t g) {
    tile_bytes *p = t->p[g % 2];
    tile_load(4, p[0], TILE_BYTES);
    tile_load(5, p[1], TILE_BYTES);
    for (int32_t i = 0; i < value_tiles(&t->fast, g); i++) {
        tile_sums *sum = t->sum[g % 2][i];
        tile_load(0, t->v[g % 2][i], TILE_BYTES);
        tile_zero(6);
        tile_dot_us(6, 4, 0);
        tile_store(6, sum[0], sizeof sum[0][0]);
        tile_zero(7);
        tile_dot_us(7, 5, 0);
        tile_store(7, sum[1], sizeof sum[0][0]);
    }
}

QSA_INLINE void value_outputs(amx_tile *t, int32_t heads, int32_t g, float *records) {
    fast_tile *f = &t->fast;
    for (int32_t h = 0; h < heads; h++) {
        const f32x scale = f32x_set(t->p_scale[g][h]);
        float *out = records + h * (int64_t)(2 + f->dim) + 2 + g * WIDTH;
        fetch_some(&f->ahead);
        for (int32_t i = 0; i < value_tiles(f, g); i++) {
            tile_sums *sum = t->sum[g % 2][i];
            const int32_t dims = f->dim - g * WIDTH - i * TILE_ROWS;
            _Alignas(64) float all[TILE_ROWS];
            float *to = dims >= TILE_ROWS ? out + i * TILE_ROWS : all;
            for (int32_t d = 0; d < TILE_ROWS; d += QSA_X)
                f32x_store(to + d, f32x_mul(f32x_of_planes(&sum[0][h][d], &sum[1][h][d]), scale));
            if (dims < TILE_ROWS)
                memcpy(out + i * TILE_ROWS, all, (size_t)dims * sizeof(float));
        }
    }
}

static void amx_outputs(fast_tile *f, const qsa_attend_args *args, const int32_t *cells, int32_t count, int32_t ahead,
                        float *records) {
    amx_tile *t = (amx_tile *)f;
    fetch_set(f, args->k, args->k_scales, cells + count, ahead, f->groups * args->heads);
    copy_values(t, args, cells, count, 0);
    for (int32_t g = 0; g < f->groups; g++) {
        if (g + 1 < f->groups)
            copy_values(t, args, cells, count, g + 1);
        value_products(t, g);
        if (g > 0)
            value_outputs(t, args->heads, g - 1, records);
    }
    value_outputs(t, args->heads, f->groups - 1, records);
}

QSA_INLINE void attend_amx(const qsa_attend_args *args, qsa_attend_fn strict) {
    static const fast_idea idea = {amx_queries, amx_logits, amx_outputs};
    amx_tile t;
    attend_fast(&t.fast, &idea, args, strict);
    if (args->format == QSA_I8)
        tiles_release(); // else every switch of threads would save them
}

#endif
