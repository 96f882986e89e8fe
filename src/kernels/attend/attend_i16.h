// SPDX-License-Identifier: Apache-2.0
//
// Class fast: attention records over an i8 cache by integer dot products (docs/numerics.md, "Class fast").
//
// q becomes int16 with a scale per head and group of 64 dims, p * (V's scale) becomes int16 with a scale per head, group and
// chunk of 64 cells; codes are widened to int16. Both products are then the same small matrix product: 64 int16 of every head
// times 64 x 64 codes, summed exactly in int32 (64 * 128 * 65535 < 2^31), and scaled in float32. Lanes are cells in QK, so K's
// codes are transposed four dims at a time, and dims in PV, so V's rows are interleaved four at a time. Sums are exact and
// every rounding has its place, so all rows of this idea give the same bits.
//
// `strict` is the same instruction set's strict kernel. It takes what this one is not for: other formats, heads whose q is not
// of ordinary size (NaN and infinities among them), chunks with a scale that is negative or not finite.

#ifndef QSA_KERNELS_ATTEND_ATTEND_I16_H
#define QSA_KERNELS_ATTEND_ATTEND_I16_H

#include "kernels/attend/product_i16.h"
#include "kernels/kernels.h"

#include <assert.h>

#define LN4 1.3862944f
enum {
    FEW = 4,    // heavy cells of a head and chunk that are refined
    HEADS = 16, // heads of a pass; more are taken in several
    GROUPS = QSA_MAX_HEAD_DIM / WIDTH,
};

typedef struct fast_tile {
    _Alignas(64) int16_t q[GROUPS][HEADS][WIDTH];
    _Alignas(64) int16_t p[HEADS][WIDTH];                        // of one group
    _Alignas(64) int16_t b[WIDTH / BLOCK][WIDTH / 2][2 * BLOCK]; // codes of one group: [block][pair][lane][2]
    _Alignas(64) int32_t start[WIDTH / BLOCK][BLOCK];            // sums start here: 32768 times those of the codes
    _Alignas(64) unsigned char padded[WIDTH][WIDTH];             // rows of a group that is not whole, zeros behind
    _Alignas(64) float s[HEADS][WIDTH];                          // logits, then exponentials
    _Alignas(64) float k_scale[GROUPS][WIDTH], v_scale[GROUPS][WIDTH];
    float q_scale[GROUPS][HEADS]; // of the int16, times the scale of the logits
    float p_scale[HEADS];
    const unsigned char *row[WIDTH];
    fetches ahead;
    uint64_t strict_heads; // bit h: head h of the pass
    int32_t dim, groups;
} fast_tile;

// The cells to fetch during `in` products.
QSA_INLINE void fetch_set(fast_tile *t, const void *rows, const uint16_t *scales, const int32_t *cells, int32_t count,
                          int32_t in) {
    const int32_t times = in * (WIDTH / 2 / SEGMENT);
    t->ahead = (fetches){.rows = (const unsigned char *)rows,
                         .scales = scales,
                         .cells = cells,
                         .count = count,
                         .each = (count + times - 1) / times,
                         .dim = t->dim,
                         .groups = t->groups};
}

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

// q of a head as int16, largest +-32767 in every group. A head whose largest number is far from ordinary is left to strict.
QSA_INLINE void quantize_head(fast_tile *t, const qsa_attend_args *args, int32_t h) {
    const float *q = args->q + (int64_t)h * args->dim;
    for (int32_t g = 0; g < t->groups; g++) {
        const int32_t first = g * WIDTH, dims = args->dim - first < WIDTH ? args->dim - first : WIDTH;
        v16 x[WIDTH / 16], largest = v16_zero();
        int nan = 0;
        for (int i = 0; i < WIDTH / 16; i++) {
            const int32_t n = dims - 16 * i;
            x[i] = n >= 16 ? v16_load(q + first + 16 * i) : n > 0 ? v16_load_n(q + first + 16 * i, n) : v16_zero();
            nan |= v16_unordered(x[i]);
            largest = v16_max(v16_abs(x[i]), largest);
        }
        float amax = v16_fold_max(largest);
        if (nan || (amax != 0.0f && !(amax >= 0x1p-60f && amax <= 0x1p60f))) {
            t->strict_heads |= 1ull << h;
            amax = 0.0f;
        }
        const v16 inverse = v16_set(amax != 0.0f ? 32767.0f / amax : 0.0f);
        for (int i = 0; i < WIDTH / 16; i++)
            v16_to_quads(t->q[g][h] + 16 * i, v16_mul(amax != 0.0f ? x[i] : v16_zero(), inverse));
        t->q_scale[g][h] = amax / 32767.0f * args->scale;
    }
}

// Scales of a chunk's cells as [group][cell], +0 behind the last. Whether all are finite and not negative.
QSA_INLINE int load_scales(const fast_tile *t, float (*out)[WIDTH], const uint16_t *scales, const int32_t *cells,
                           int32_t count) {
    _Alignas(64) uint16_t half[GROUPS][WIDTH];
    const size_t groups = (size_t)t->groups;
    int32_t c = 0;
    for (; groups % 4 == 0 && c + 8 <= count; c += 8)
        for (size_t g = 0; g < groups; g += 4)
            halves_turn(&half[g][c], WIDTH, scales + g, groups, cells + c);
    for (; c < count; c++)
        for (size_t g = 0; g < groups; g++)
            half[g][c] = scales[(size_t)cells[c] * groups + g];
    uint32_t fine = 0xffffu;
    for (size_t g = 0; g < groups; g++) {
        for (c = count; c < WIDTH; c++)
            half[g][c] = 0;
        for (c = 0; c < WIDTH; c += 16) {
            const v16 x = v16_decode((const unsigned char *)half[g], QSA_F16, c, v16_zero());
            fine &= v16_at_least(x, v16_zero()) & v16_at_least(v16_set(65504.0f), x);
            v16_store(out[g] + c, x);
        }
    }
    return fine == 0xffffu;
}

// t->row: group g of the cells' rows, all 64 of them (the last one again behind the last), 64 readable codes each.
QSA_INLINE void find_rows(fast_tile *t, const qsa_attend_args *args, const void *rows, const int32_t *cells,
                          int32_t count, int32_t g) {
    const int32_t first = g * WIDTH, dims = args->dim - first;
    for (int32_t c = 0; c < count; c++) {
        t->row[c] = (const unsigned char *)rows + (size_t)cells[c] * (size_t)args->dim + first;
        if (dims < WIDTH) {
            memset(t->padded[c], 0, WIDTH);
            memcpy(t->padded[c], t->row[c], (size_t)dims);
            t->row[c] = t->padded[c];
        }
    }
    for (int32_t c = count; c < WIDTH; c++)
        t->row[c] = t->row[count - 1];
}

// K of a block of cells: quads of dims, lanes of cells.
QSA_INLINE void transpose_keys(fast_tile *t, int32_t block) {
    for (int32_t c = 0; c < BLOCK; c += QSA_X)
        for (int32_t d = 0; d < WIDTH; d += 16)
            i32x_transpose(t->b[block][d / 2] + 2 * c, t->row + block * BLOCK + c, d);
}

QSA_INLINE void chunk_logits(fast_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count) {
    static const _Alignas(64) int32_t zeros[BLOCK];
    memset(t->s, 0, (size_t)args->heads * sizeof t->s[0]);
    fetch_set(t, args->v, args->v_scales, cells, count,
              t->groups * ((count + BLOCK - 1) / BLOCK) * products_of(args->heads));
    for (int32_t g = 0; g < t->groups; g++) {
        const int32_t dims = args->dim - g * WIDTH, pairs = dims < WIDTH ? (dims + 3) / 4 * 2 : WIDTH / 2;
        find_rows(t, args, args->k, cells, count, g);
        for (int32_t block = 0; block * BLOCK < count; block++) {
            transpose_keys(t, block);
            const product x = {.a = t->q[g][0],
                               .b = t->b[block][0],
                               .start = zeros,
                               .pairs = pairs,
                               .ahead = &t->ahead,
                               .head_scale = t->q_scale[g],
                               .lane_scale = t->k_scale[g] + block * BLOCK,
                               .out = t->s[0] + block * BLOCK,
                               .stride = WIDTH};
            all_heads(x, args->heads, &all_logits);
        }
    }
}

// The strict class's logit of cell c of the chunk, whose row is `cell`.
QSA_INLINE float strict_logit(const fast_tile *t, const qsa_attend_args *args, int32_t h, int32_t c, int32_t cell) {
    const unsigned char *row = (const unsigned char *)args->k + (size_t)cell * (size_t)args->dim;
    const float *q = args->q + (int64_t)h * args->dim;
    const int32_t whole = args->dim / 16 * 16;
    v16 sum = v16_zero();
    for (int32_t d = 0; d < whole; d += 16)
        sum = v16_fma(v16_load(q + d), v16_decode(row, QSA_I8, d, v16_set(t->k_scale[d / WIDTH][c])), sum);
    if (whole < args->dim) {
        float x[16] = {0};
        for (int32_t d = whole; d < args->dim; d++)
            x[d - whole] = (float)((const int8_t *)row)[d] * t->k_scale[d / WIDTH][c];
        sum = v16_fma(v16_load_n(q + whole, args->dim - whole), v16_load(x), sum);
    }
    return v16_fold(sum) * args->scale + 0.0f;
}

QSA_INLINE float largest_logit(const float s[WIDTH]) {
    v16 maximum = v16_load(s);
    for (int32_t c = 16; c < WIDTH; c += 16)
        maximum = v16_max(v16_load(s + c), maximum);
    return v16_fold_max(maximum);
}

// Cells that weigh at least a quarter of the heaviest decide how exact the result is. Where they are few their logits are
// made exact: that costs a few percent of the time and takes the growth with the spread of the logits out of the error.
// Where they are many no cell weighs much.
QSA_INLINE void refine(fast_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count) {
    for (int32_t h = 0; h < args->heads; h++) {
        float *s = t->s[h];
        for (int32_t c = count; c < WIDTH; c++)
            s[c] = -qsa_infinity();
        const v16 least = v16_set(largest_logit(s) - LN4);
        uint64_t heavy = 0;
        for (int32_t c = 0; c < WIDTH; c += 16)
            heavy |= (uint64_t)v16_at_least(v16_load(s + c), least) << c;
        if (__builtin_popcountll(heavy) > FEW)
            continue;
        for (; heavy; heavy &= heavy - 1) {
            const int32_t c = __builtin_ctzll(heavy);
            s[c] = strict_logit(t, args, h, c, cells[c]);
        }
    }
}

// Maximum and sum as in the strict class; the exponentials of cells that are not there are +0. All logits are finite. Heads
// are taken through each step together, as their chains are long.
QSA_INLINE void softmax(fast_tile *t, int32_t heads, float *records, int64_t stride) {
    for (int32_t h = 0; h < heads; h++)
        records[h * stride] = largest_logit(t->s[h]);
    for (int32_t h = 0; h < heads; h++) {
        const v16 base = v16_set(records[h * stride]);
        v16 sum = v16_zero();
        for (int32_t c = 0; c < WIDTH; c += 16) {
            const v16 p = v16_exp(v16_sub(v16_load(t->s[h] + c), base));
            v16_store(t->s[h] + c, p);
            sum = v16_add(sum, p);
        }
        records[h * stride + 1] = v16_fold(sum);
    }
}

// p * v_scale of a group in 65536 steps, as int16 from -32768 on: none is negative, so the sign would be lost on them. Where the
// largest is below 2^-100 all are taken as 0.
QSA_INLINE void quantize_weights(fast_tile *t, int32_t g, int32_t heads) {
    _Alignas(64) float inverse[HEADS];
    for (int32_t h = 0; h < heads; h++) {
        v16 largest = v16_set(0x1p-100f);
        for (int i = 0; i < WIDTH; i += 16)
            largest = v16_max(v16_mul(v16_load(t->s[h] + i), v16_load(t->v_scale[g] + i)), largest);
        t->p_scale[h] = v16_fold_max(largest);
    }
    const v16 most = v16_load(t->p_scale), steps = v16_set(65535.0f), base = v16_set(-32768.0f);
    v16_store(inverse, v16_div(steps, most));
    v16_store(t->p_scale, v16_div(most, steps));
    for (int32_t h = 0; h < heads; h++)
        for (int i = 0; i < WIDTH; i += 16) {
            const v16 x = v16_mul(v16_load(t->s[h] + i), v16_load(t->v_scale[g] + i));
            v16_to_quads(t->p[h] + i, v16_fma(x, v16_set(inverse[h]), base));
        }
}

// V of a group: quads of cells, lanes of dims.
QSA_INLINE void interleave_values(fast_tile *t, int32_t count) {
    for (int32_t d = 0; d < WIDTH; d += QSA_ROW_BYTES)
        i32x_interleave(t->b[d / BLOCK][0], sizeof t->b[0] / sizeof(int16_t), t->start[d / BLOCK], t->row,
                        (count + 3) / 4 * 4, d);
}

QSA_INLINE void chunk_outputs(fast_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count,
                              int32_t next, float *records) {
    fetch_set(t, args->k, args->k_scales, cells + count, next,
              (args->dim + BLOCK - 1) / BLOCK * products_of(args->heads));
    for (int32_t g = 0; g < t->groups; g++) {
        find_rows(t, args, args->v, cells, count, g);
        quantize_weights(t, g, args->heads);
        interleave_values(t, count);
        for (int32_t block = 0; block < WIDTH / BLOCK; block++) {
            const int32_t d = g * WIDTH + block * BLOCK / QSA_ROW_BYTES * QSA_ROW_BYTES + block * 8 % 16;
            const product x = {.a = t->p[0],
                               .b = t->b[block][0],
                               .start = t->start[block],
                               .pairs = (count + 3) / 4 * 2,
                               .ahead = &t->ahead,
                               .head_scale = t->p_scale,
                               .out = records + 2 + d,
                               .stride = 2 + args->dim,
                               .dims = args->dim - d};
            if (d < args->dim)
                all_heads(x, args->heads, &all_outputs);
        }
    }
}

// At most HEADS heads.
QSA_INLINE void attend_pass(const qsa_attend_args *args, qsa_attend_fn strict) {
    fast_tile t;
    t.dim = args->dim;
    t.groups = (args->dim + WIDTH - 1) / WIDTH;
    t.strict_heads = 0;
    memset(t.p_scale, 0, sizeof t.p_scale); // divided all together
    const int64_t stride = 2 + args->dim;
    for (int32_t h = 0; h < args->heads; h++)
        quantize_head(&t, args, h);
    qsa_attend_args one = *args;
    for (int32_t first = 0; first < args->count; first += WIDTH, one.records += args->chunk_stride) {
        const int32_t rest = args->count - first, next = rest > WIDTH ? rest - WIDTH : 0;
        one.cells = args->cells + first;
        one.count = rest < WIDTH ? rest : WIDTH;
        if (!load_scales(&t, t.k_scale, args->k_scales, one.cells, one.count) ||
            !load_scales(&t, t.v_scale, args->v_scales, one.cells, one.count)) {
            strict(&one);
            continue;
        }
        chunk_logits(&t, args, one.cells, one.count);
        refine(&t, args, one.cells, one.count);
        softmax(&t, args->heads, one.records, stride);
        chunk_outputs(&t, args, one.cells, one.count, next < WIDTH ? next : WIDTH, one.records);
    }
    for (int32_t h = 0; h < args->heads; h++)
        if (t.strict_heads >> h & 1) {
            one = *args;
            one.q += h * (int64_t)args->dim;
            one.heads = 1;
            one.records += h * stride;
            strict(&one);
        }
}

QSA_INLINE void attend_i16(const qsa_attend_args *args, qsa_attend_fn strict) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->count > 0);
    assert(args->heads >= 1 && args->heads <= QSA_MAX_HEADS_PER_KV);
    if (args->format != QSA_I8) {
        strict(args);
        return;
    }
    qsa_attend_args pass = *args;
    for (int32_t h = 0; h < args->heads; h += HEADS) {
        pass.heads = args->heads - h < HEADS ? args->heads - h : HEADS;
        pass.q = args->q + (int64_t)h * args->dim;
        pass.records = args->records + (int64_t)h * (2 + args->dim);
        attend_pass(&pass, strict);
    }
}

#endif
