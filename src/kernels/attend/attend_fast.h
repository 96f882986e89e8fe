// SPDX-License-Identifier: Apache-2.0
//
// What the rows of class fast share, whatever multiplies their integers (docs/numerics.md, "Class fast"): scales, the steps of
// queries and weights, logits that are made exact, the softmax, and what is left to the strict kernel: other formats, heads
// whose q is not of ordinary size (NaN and infinities among them), chunks with a scale that is negative or not finite.
// A `fast_idea` brings the two products. Integer sums are exact and every rounding has its place, so all ideas give the same
// bits.

#ifndef QSA_KERNELS_ATTEND_ATTEND_FAST_H
#define QSA_KERNELS_ATTEND_ATTEND_FAST_H

#include "kernels/attend/fetch.h"
#include "kernels/kernels.h"
#include "kernels/simd/pairs.h"

#include <assert.h>

#define LN4 1.3862944f
enum {
    WIDTH = QSA_GROUP, // and QSA_CHUNK
    FEW = 4,           // heavy cells of a head and chunk that are refined
    HEADS = 16,        // heads of a pass; more are taken in several
    GROUPS = QSA_MAX_HEAD_DIM / WIDTH,
};
_Static_assert(QSA_GROUP == QSA_CHUNK, "products of both kinds have the same depth");

typedef struct fast_tile {
    _Alignas(64) unsigned char padded[WIDTH][WIDTH]; // rows of a group that is not whole, zeros behind
    _Alignas(64) float s[HEADS][WIDTH];              // logits, then exponentials
    _Alignas(64) float k_scale[GROUPS][WIDTH], v_scale[GROUPS][WIDTH];
    _Alignas(64) float q_scale[GROUPS][HEADS]; // of the int16, times the scale of the logits
    const unsigned char *row[WIDTH];
    fetches ahead;
    uint64_t strict_heads; // bit h: head h of the pass
    int32_t dim, groups;
} fast_tile;

// The products of a pass of at most HEADS heads. All of them get the fast_tile at the front of the idea's own memory.
typedef struct fast_idea {
    // q in integers, by quantize_group.
    void (*queries)(fast_tile *t, const qsa_attend_args *args);
    // t->s of a chunk of at most 64 cells; fetches its values.
    void (*logits)(fast_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count);
    // The accumulators of the records from t->s; fetches the keys of the `ahead` cells behind the chunk.
    void (*outputs)(fast_tile *t, const qsa_attend_args *args, const int32_t *cells, int32_t count, int32_t ahead,
                    float *records);
} fast_idea;

// The cells to fetch in `times` calls of fetch_some.
QSA_INLINE void fetch_set(fast_tile *t, const void *rows, const uint16_t *scales, const int32_t *cells, int32_t count,
                          int32_t times) {
    t->ahead = fetch_plan(rows, scales, (size_t)t->dim, (size_t)t->groups, cells, count, times);
}

// 64 dims of q of a head in units of 1 / 32767 of their largest, to be rounded: largest +-32767. A head whose largest number is
// far from ordinary is left to strict.
QSA_INLINE void quantize_group(fast_tile *t, const qsa_attend_args *args, int32_t h, int32_t g, v16 x[WIDTH / 16]) {
    const float *q = args->q + (int64_t)h * args->dim;
    const int32_t first = g * WIDTH, dims = args->dim - first < WIDTH ? args->dim - first : WIDTH;
    v16 largest = v16_zero();
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
        x[i] = v16_mul(amax != 0.0f ? x[i] : v16_zero(), inverse);
    t->q_scale[g][h] = amax / 32767.0f * args->scale;
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

// Of p * v_scale of a group and each head: the step, its largest / 65535, and the inverse. A largest below 2^-100 counts as that.
QSA_INLINE void weight_steps(const fast_tile *t, int32_t g, int32_t heads, float step[HEADS], float inverse[HEADS]) {
    _Alignas(64) float all[HEADS] = {0}; // divided all together
    for (int32_t h = 0; h < heads; h++) {
        v16 largest = v16_set(0x1p-100f);
        for (int i = 0; i < WIDTH; i += 16)
            largest = v16_max(v16_mul(v16_load(t->s[h] + i), v16_load(t->v_scale[g] + i)), largest);
        all[h] = v16_fold_max(largest);
    }
    const v16 most = v16_load(all), steps = v16_set(65535.0f);
    v16_store(inverse, v16_div(steps, most));
    v16_store(step, v16_div(most, steps));
}

// p * v_scale of 16 cells in those steps, to be rounded, from -32768 on: none is negative, so int16's sign would be lost on them.
QSA_INLINE v16 quantize_weights(const fast_tile *t, int32_t g, int32_t h, int32_t cell, float inverse) {
    const v16 x = v16_mul(v16_load(t->s[h] + cell), v16_load(t->v_scale[g] + cell));
    return v16_fma(x, v16_set(inverse), v16_set(-32768.0f));
}

// At most HEADS heads.
QSA_INLINE void fast_pass(fast_tile *t, const fast_idea *idea, const qsa_attend_args *args, qsa_attend_fn strict) {
    t->dim = args->dim;
    t->groups = (args->dim + WIDTH - 1) / WIDTH;
    t->strict_heads = 0;
    const int64_t stride = 2 + args->dim;
    idea->queries(t, args);
    qsa_attend_args one = *args;
    for (int32_t first = 0; first < args->count; first += WIDTH, one.records += args->chunk_stride) {
        const int32_t rest = args->count - first, ahead = rest > WIDTH ? rest - WIDTH : 0;
        one.cells = args->cells + first;
        one.count = rest < WIDTH ? rest : WIDTH;
        const int k_fine = load_scales(t, t->k_scale, args->k_scales, one.cells, one.count);
        const int v_fine = load_scales(t, t->v_scale, args->v_scales, one.cells, one.count);
        if (!k_fine || !v_fine) {
            strict(&one);
            continue;
        }
        idea->logits(t, args, one.cells, one.count);
        refine(t, args, one.cells, one.count);
        softmax(t, args->heads, one.records, stride);
        idea->outputs(t, args, one.cells, one.count, ahead < WIDTH ? ahead : WIDTH, one.records);
    }
    for (int32_t h = 0; h < args->heads; h++)
        if (t->strict_heads >> h & 1) {
            one = *args;
            one.q += h * (int64_t)args->dim;
            one.heads = 1;
            one.records += h * stride;
            strict(&one);
        }
}

// `strict` is the same instruction set's strict kernel.
QSA_INLINE void attend_fast(fast_tile *t, const fast_idea *idea, const qsa_attend_args *args, qsa_attend_fn strict) {
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
        fast_pass(t, idea, &pass, strict);
    }
}

#endif
