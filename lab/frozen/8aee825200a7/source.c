// SPDX-License-Identifier: Apache-2.0
//
// Block scores in 256-bit vectors (x86-64-v3).

#include "kernels/score/score_simd.h"

void qsa_score_avx2(const qsa_score_args *args) {
    score_simd(args);
}

// ---- src/kernels/score/score_simd.h ----

// SPDX-License-Identifier: Apache-2.0
//
// Block scores in v16 lanes. Eight blocks at a time: every key is read once for all index heads, eight dots of one head are
// folded together, and ReLU, sum and division work on eight blocks. Before each key the one eight blocks later is fetched:
// all eight at once fill the line buffers and hold up every other load (79 ns a block instead of 66, out of L3).

#ifndef QSA_KERNELS_SCORE_SCORE_SIMD_H
#define QSA_KERNELS_SCORE_SCORE_SIMD_H

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"

enum { BLOCKS = 8, MOST_HEADS = 4 };

// part[h][b] += nothing: sets the 8 lanes of iq_h . key_b for `heads` (constant, <= 4) heads and one block.
// next: a key to fetch, or null.
QSA_INLINE void score_dots(float (*part)[BLOCKS][8], const qsa_score_args *args, const float *q, const int heads,
                           const unsigned char *key, qsa_type format, int b, const unsigned char *next) {
    for (size_t at = 0; next && at < (size_t)args->dim * qsa_type_size(format); at += 64)
        QSA_PREFETCH(next + at);
    const int32_t dim = args->dim, whole = dim / 16 * 16;
    v16 sum[MOST_HEADS];
    for (int h = 0; h < heads; h++)
        sum[h] = v16_zero();
    for (int32_t d = 0; d < whole; d += 16) {
        const v16 k = v16_hold(v16_decode(key, format, d, v16_zero()));
        for (int h = 0; h < heads; h++)
            sum[h] = v16_fma(v16_load(q + (int64_t)h * dim + d), k, sum[h]);
    }
    if (whole < dim) {
        float tail[16];
        v16_decode_tail(tail, key, NULL, format, whole, dim);
        const v16 k = v16_load(tail);
        for (int h = 0; h < heads; h++)
            sum[h] = v16_fma(v16_load_n(q + (int64_t)h * dim + whole, dim - whole), k, sum[h]);
    }
    for (int h = 0; h < heads; h++)
        v16_store_half(part[h][b], v16_halve(sum[h]));
}

// sum[b] += relu(iq_h . key_b) for `heads` heads in order.
QSA_INLINE void score_heads(float sum[BLOCKS], const qsa_score_args *args, int32_t first, const int heads,
                            const unsigned char *const keys[BLOCKS], const unsigned char *const next[BLOCKS],
                            qsa_type format) {
    _Alignas(64) float part[MOST_HEADS][BLOCKS][8];
    for (int b = 0; b < BLOCKS; b++)
        score_dots(part, args, args->index_q + (int64_t)first * args->dim, heads, keys[b], format, b, next[b]);
    for (int h = 0; h < heads; h++) {
        float dot[BLOCKS];
        v16_fold8((const float(*)[8])part[h], 1.0f, dot);
        for (int b = 0; b < BLOCKS; b++)
            sum[b] = sum[b] + qsa_relu(dot[b]);
    }
}

// Where the key of the i-th block lies.
QSA_INLINE const unsigned char *score_key(const qsa_score_args *args, int32_t i, size_t bytes) {
    const int32_t block = args->blocks ? args->blocks[i] : i;
    const size_t page = (size_t)args->page_table[block / args->page_blocks];
    return (const unsigned char *)args->block_keys +
           (page * (size_t)args->page_blocks + (size_t)(block % args->page_blocks)) * bytes;
}

QSA_INLINE void score_format(const qsa_score_args *args, qsa_type format) {
    const size_t bytes = (size_t)args->dim * qsa_type_size(format);
    for (int32_t b = args->first; b < args->end; b += BLOCKS) {
        const unsigned char *keys[BLOCKS];
        const int32_t count = args->end - b < BLOCKS ? args->end - b : BLOCKS;
        for (int32_t i = 0; i < BLOCKS; i++) // the last block stands in for those behind it
            keys[i] = score_key(args, b + (i < count ? i : count - 1), bytes);
        const unsigned char *next[BLOCKS] = {NULL}, *none[BLOCKS] = {NULL};
        if (b + 2 * BLOCKS <= args->end) // the next eight keys, wherever their page is
            for (int32_t i = 0; i < BLOCKS; i++)
                next[i] = score_key(args, b + BLOCKS + i, bytes);
        float sum[BLOCKS] = {0};
        int32_t h = 0;
        for (; h + MOST_HEADS <= args->heads; h += MOST_HEADS)
            score_heads(sum, args, h, MOST_HEADS, keys, h ? none : next, format);
        for (; h < args->heads; h++)
            score_heads(sum, args, h, 1, keys, h ? none : next, format);
        for (int32_t i = 0; i < count; i++)
            args->scores[b - args->first + i] = qsa_canonical(sum[i] / args->divisor);
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
