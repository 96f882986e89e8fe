// SPDX-License-Identifier: Apache-2.0
//
// Block scores in v16 lanes, sixteen blocks at a time. Dots of four heads with a few keys are made one native register of the
// 16 lanes after the other, so that their accumulators fit; ReLU, the sum over the heads and the division then have blocks in
// their lanes. The keys sixteen blocks later are fetched one by one between the dots (fetch.h of attend says why not at once).
// Keys that are not float32, or rows that are no multiple of 16, are decoded into a buffer first.

#ifndef QSA_KERNELS_SCORE_SCORE_SIMD_H
#define QSA_KERNELS_SCORE_SCORE_SIMD_H

#include "kernels/kernels.h"
#include "kernels/score/place.h"
#include "kernels/simd/simd.h"

enum { BLOCKS = 16, MOST_HEADS = 4, KEYS = QSA_REGS == 1 ? 4 : 2 /* of a tile */, LINE = 64 };

typedef struct score_tile {
    _Alignas(64) float part[MOST_HEADS][BLOCKS][8];
    _Alignas(64) float q[MOST_HEADS][QSA_MAX_HEAD_DIM], key[KEYS][QSA_MAX_HEAD_DIM]; // padded, decoded
    const unsigned char *keys[BLOCKS], *next[BLOCKS];                                // next: to fetch, or null
    const float *query;                                                              // of the first head
    int64_t stride;                                                                  // from head to head
    int32_t padded;                                                                  // dims
    size_t bytes;                                                                    // of a key
} score_tile;

// Keys of blocks i..i+15, those behind `end` being the last one's again.
QSA_INLINE void find_keys(const qsa_score_args *args, size_t bytes, int32_t i, const unsigned char *keys[BLOCKS]) {
    block_place p = {0};
    for (int32_t n = 0; n < BLOCKS; n++, i++) {
        if (i < args->end)
            p = args->blocks ? place_of(args->blocks[i], args->page_blocks)
                : n == 0     ? place_of(i, args->page_blocks)
                             : place_move(p, 1, args->page_blocks);
        keys[n] = (const unsigned char *)args->block_keys + place_row(p, args->page_table, args->page_blocks) * bytes;
    }
}

QSA_INLINE void fetch_key(const unsigned char *key, size_t bytes) {
    for (size_t at = 0; key && at < bytes; at += LINE)
        QSA_PREFETCH(key + at);
}

// Dots of `heads` heads with keys b..b+KEYS-1, folded to 8 lanes.
QSA_INLINE void score_dots(score_tile *t, const float *const key[KEYS], const int heads, int b) {
    vreg sums[MOST_HEADS][KEYS][QSA_REGS];
    for (int r = 0; r < QSA_REGS; r++) {
        vreg sum[MOST_HEADS][KEYS];
        for (int h = 0; h < heads; h++)
            for (int k = 0; k < KEYS; k++)
                sum[h][k] = vreg_zero();
        for (int k = r; k < KEYS; k += QSA_REGS)
            fetch_key(t->next[b + k], t->bytes);
        for (int32_t d = r * QSA_REG_LANES; d < t->padded; d += 16) {
            vreg x[KEYS];
            for (int k = 0; k < KEYS; k++)
                x[k] = vreg_hold(vreg_load(key[k] + d));
            for (int h = 0; h < heads; h++) {
                const vreg q = vreg_hold(vreg_load(t->query + h * t->stride + d));
                for (int k = 0; k < KEYS; k++)
                    sum[h][k] = vreg_fma(q, x[k], sum[h][k]);
            }
        }
        for (int h = 0; h < heads; h++)
            for (int k = 0; k < KEYS; k++)
                sums[h][k][r] = sum[h][k];
    }
    for (int h = 0; h < heads; h++)
        for (int k = 0; k < KEYS; k++)
            v16_store_half(t->part[h][b + k], v16_halve(v16_of_regs(sums[h][k])));
}

// The sum over the heads so far, block by block, and `heads` more in order.
QSA_INLINE v16 score_heads(score_tile *t, const qsa_score_args *args, v16 sum, int32_t first, const int heads,
                           qsa_type format) {
    t->query = args->index_q + (int64_t)first * args->dim;
    t->stride = args->dim;
    if (t->padded != args->dim) {
        for (int h = 0; h < heads; h++)
            for (int32_t d = 0; d < t->padded; d++)
                t->q[h][d] = d < args->dim ? t->query[h * t->stride + d] : 0.0f;
        t->query = t->q[0];
        t->stride = QSA_MAX_HEAD_DIM;
    }
    for (int b = 0; b < BLOCKS; b += KEYS) {
        const float *key[KEYS];
        for (int k = 0; k < KEYS; k++) {
            key[k] = (const float *)(const void *)t->keys[b + k]; // vector loads ask for no alignment
            if (format != QSA_F32 || t->padded != args->dim) {
                v16_decode_row(t->key[k], t->keys[b + k], NULL, format, args->dim);
                key[k] = t->key[k];
            }
        }
        score_dots(t, key, heads, b);
    }
    for (int h = 0; h < heads; h++) {
        float dot[BLOCKS];
        v16_fold8((const float(*)[8])t->part[h], 1.0f, dot);
        v16_fold8((const float(*)[8])t->part[h] + 8, 1.0f, dot + 8);
        sum = v16_add(sum, v16_relu(v16_load(dot)));
    }
    return sum;
}

QSA_INLINE void score_format(const qsa_score_args *args, qsa_type format) {
    score_tile t;
    t.padded = (args->dim + 15) / 16 * 16;
    t.bytes = (size_t)args->dim * qsa_type_size(format);
    for (int32_t b = args->first; b < args->end; b += BLOCKS) {
        const int32_t count = args->end - b;
        if (b == args->first)
            find_keys(args, t.bytes, b, t.keys);
        else
            memcpy(t.keys, t.next, sizeof t.keys);
        if (count > BLOCKS)
            find_keys(args, t.bytes, b + BLOCKS, t.next);
        else
            memset(t.next, 0, sizeof t.next);
        v16 sum = v16_zero();
        int32_t h = 0;
        for (; h + MOST_HEADS <= args->heads; h += MOST_HEADS)
            sum = score_heads(&t, args, sum, h, MOST_HEADS, format);
        for (; h < args->heads; h++)
            sum = score_heads(&t, args, sum, h, 1, format);
        const v16 score = v16_canonical(v16_div(sum, v16_set(args->divisor)));
        if (count >= BLOCKS)
            v16_store(args->scores + (b - args->first), score);
        else
            v16_store_n(args->scores + (b - args->first), score, count);
    }
}

QSA_INLINE void score_simd(const qsa_score_args *args) {
    if (args->format == QSA_F32)
        score_format(args, QSA_F32);
    else if (args->format == QSA_F16)
        score_format(args, QSA_F16);
    else
        score_format(args, QSA_BF16);
}

#endif
