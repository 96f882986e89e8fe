// SPDX-License-Identifier: Apache-2.0
//
// Bounds of block sums, sixteen blocks at a time: exact integer dots with four heads, folded so that the blocks end up in the
// lanes of a v16, where the float steps are the reference's. Codes are one byte a dim, so the loop is bound by multiplying,
// not by reading, if the keys two groups ahead are fetched a few at a time between the products: 10.1 ns a block with AVX-512
// and 8.2 with VNNI, as in L2; fetched at once they fill the line buffers (11.9), by the hardware alone 12.4, one thread.

#ifndef QSA_KERNELS_SCORE_SCREEN_SIMD_H
#define QSA_KERNELS_SCORE_SCREEN_SIMD_H

#include "kernels/kernels.h"
#include "kernels/score/place.h"
#include "kernels/simd/simd.h"

enum { GROUP = 16, AHEAD = 2 /* groups */, LINE = 64 };

// Fetches part `part` of `parts` of the 16 keys at `next`, unless it is null.
QSA_INLINE void screen_fetch(const int8_t *next, int32_t stride, int32_t part, int32_t parts) {
    const int32_t lines = GROUP * stride / LINE / parts;
    for (int32_t i = 0; next && i < lines; i++)
        QSA_PREFETCH(next + (part * lines + i) * LINE);
}

// screen_dots: dot[h] = the dots of head h < 4 with 16 keys, as floats.
#if defined(__AVX512F__)

// Adds the products of two codes to each 32 bits.
QSA_INLINE __m512i screen_step(__m512i sum, __m512i codes, __m512i query) {
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(sum, codes, query);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(codes, query));
#endif
}

// In every 128 bits: the sums of the four 32-bit lanes of a[0..3].
QSA_INLINE __m512i screen_fold(const __m512i a[4]) {
    const __m512i x = _mm512_add_epi32(_mm512_unpacklo_epi32(a[0], a[1]), _mm512_unpackhi_epi32(a[0], a[1]));
    const __m512i y = _mm512_add_epi32(_mm512_unpacklo_epi32(a[2], a[3]), _mm512_unpackhi_epi32(a[2], a[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
}

// The two sums of neighbouring 128 bits of x, then those of y.
QSA_INLINE __m512i screen_pairs(__m512i x, __m512i y) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xdd));
}

// Heads 0..3 of keys i, i + 4, i + 8 and i + 12, one key per 128 bits.
QSA_INLINE __m512i screen_keys(const int16_t *q, int32_t stride, const int8_t *const key[GROUP], int i) {
    __m512i sum[4][4], folded[4];
    for (int k = 0; k < 4; k++)
        for (int h = 0; h < 4; h++)
            sum[k][h] = _mm512_setzero_si512();
    for (int32_t d = 0; d < stride; d += 32) {
        __m512i codes[4];
        for (int k = 0; k < 4; k++)
            codes[k] = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(key[i + 4 * k] + d)));
        for (int h = 0; h < 4; h++) {
            const __m512i query = _mm512_loadu_si512((const void *)(q + (int64_t)h * stride + d));
            for (int k = 0; k < 4; k++)
                sum[k][h] = screen_step(sum[k][h], codes[k], query);
        }
    }
    for (int k = 0; k < 4; k++)
        folded[k] = screen_fold(sum[k]);
    return screen_pairs(screen_pairs(folded[0], folded[1]), screen_pairs(folded[2], folded[3]));
}

QSA_INLINE void screen_dots(v16 dot[4], const int16_t *q, int32_t stride, const int8_t *const key[GROUP],
                            const int8_t *next) {
    __m512i r[4];
    for (int i = 0; i < 4; i++) {
        screen_fetch(next, stride, i, 4);
        r[i] = screen_keys(q, stride, key, i);
    }
    const __m512i low0 = _mm512_unpacklo_epi32(r[0], r[1]), low1 = _mm512_unpacklo_epi32(r[2], r[3]);
    const __m512i high0 = _mm512_unpackhi_epi32(r[0], r[1]), high1 = _mm512_unpackhi_epi32(r[2], r[3]);
    dot[0] = _mm512_cvtepi32_ps(_mm512_unpacklo_epi64(low0, low1));
    dot[1] = _mm512_cvtepi32_ps(_mm512_unpackhi_epi64(low0, low1));
    dot[2] = _mm512_cvtepi32_ps(_mm512_unpacklo_epi64(high0, high1));
    dot[3] = _mm512_cvtepi32_ps(_mm512_unpackhi_epi64(high0, high1));
}

#elif defined(__AVX2__)

QSA_INLINE __m256i screen_step(__m256i sum, __m256i codes, __m256i query) {
#if defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(sum, codes, query);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(codes, query));
#endif
}

QSA_INLINE __m256i screen_fold(const __m256i a[4]) {
    const __m256i x = _mm256_add_epi32(_mm256_unpacklo_epi32(a[0], a[1]), _mm256_unpackhi_epi32(a[0], a[1]));
    const __m256i y = _mm256_add_epi32(_mm256_unpacklo_epi32(a[2], a[3]), _mm256_unpackhi_epi32(a[2], a[3]));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
}

// Heads 0..3 of two keys, one key per 128 bits.
QSA_INLINE __m256i screen_keys(const int16_t *q, int32_t stride, const int8_t *one, const int8_t *two) {
    __m256i x[4], y[4];
    for (int h = 0; h < 4; h++)
        x[h] = y[h] = _mm256_setzero_si256();
    for (int32_t d = 0; d < stride; d += 16) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(one + d)));
        const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(two + d)));
        for (int h = 0; h < 4; h++) {
            const __m256i query = _mm256_loadu_si256((const __m256i *)(const void *)(q + (int64_t)h * stride + d));
            x[h] = screen_step(x[h], a, query);
            y[h] = screen_step(y[h], b, query);
        }
    }
    const __m256i p = screen_fold(x), r = screen_fold(y);
    return _mm256_add_epi32(_mm256_permute2x128_si256(p, r, 0x20), _mm256_permute2x128_si256(p, r, 0x31));
}

QSA_INLINE void screen_dots(v16 dot[4], const int16_t *q, int32_t stride, const int8_t *const key[GROUP],
                            const int8_t *next) {
    __m256 half[2][4];
    for (int i = 0; i < 2; i++) {
        const int8_t *const *k = key + 8 * i;
        screen_fetch(next, stride, 2 * i, 4);
        const __m256i r0 = screen_keys(q, stride, k[0], k[4]), r1 = screen_keys(q, stride, k[1], k[5]);
        screen_fetch(next, stride, 2 * i + 1, 4);
        const __m256i r2 = screen_keys(q, stride, k[2], k[6]), r3 = screen_keys(q, stride, k[3], k[7]);
        const __m256i low0 = _mm256_unpacklo_epi32(r0, r1), low1 = _mm256_unpacklo_epi32(r2, r3);
        const __m256i high0 = _mm256_unpackhi_epi32(r0, r1), high1 = _mm256_unpackhi_epi32(r2, r3);
        half[i][0] = _mm256_cvtepi32_ps(_mm256_unpacklo_epi64(low0, low1));
        half[i][1] = _mm256_cvtepi32_ps(_mm256_unpackhi_epi64(low0, low1));
        half[i][2] = _mm256_cvtepi32_ps(_mm256_unpacklo_epi64(high0, high1));
        half[i][3] = _mm256_cvtepi32_ps(_mm256_unpackhi_epi64(high0, high1));
    }
    for (int h = 0; h < 4; h++)
        dot[h] = (v16){half[0][h], half[1][h]};
}

#elif defined(__ARM_NEON)

QSA_INLINE int32x4_t screen_mla(int32x4_t sum, int16x8_t low, int16x8_t high, const int16_t *q) {
    const int16x8_t a = vld1q_s16(q), b = vld1q_s16(q + 8);
    sum = vmlal_high_s16(vmlal_s16(sum, vget_low_s16(low), vget_low_s16(a)), low, a);
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(high), vget_low_s16(b)), high, b);
}

QSA_INLINE void screen_dots(v16 dot[4], const int16_t *q, int32_t stride, const int8_t *const key[GROUP],
                            const int8_t *next) {
    int32_t heads[GROUP][4];
    for (int i = 0; i < GROUP; i++) {
        int32x4_t sum[4];
        if (i % 4 == 0)
            screen_fetch(next, stride, i / 4, 4);
        for (int h = 0; h < 4; h++)
            sum[h] = vdupq_n_s32(0);
        for (int32_t d = 0; d < stride; d += 16) {
            const int8x16_t codes = vld1q_s8(key[i] + d);
            const int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_high_s8(codes);
            for (int h = 0; h < 4; h++)
                sum[h] = screen_mla(sum[h], low, high, q + (int64_t)h * stride + d);
        }
        vst1q_s32(heads[i], vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3])));
    }
    for (int i = 0; i < 4; i++) {
        const int32x4x4_t four = vld4q_s32(heads[4 * i]);
        for (int h = 0; h < 4; h++)
            dot[h].r[i] = vcvtq_f32_s32(four.val[h]);
    }
}

#endif

// Where 16 keys lie, their scales and residuals. Behind `count` the last block stands in.
QSA_INLINE void screen_gather(const qsa_screen_args *args, block_place p, int32_t count, const int8_t *key[GROUP],
                              v16 *scale, v16 *residual) {
    if (count == GROUP && p.slot + GROUP <= args->page_blocks) {
        const size_t row = place_row(p, args->page_table, args->page_blocks);
        for (size_t i = 0; i < GROUP; i++)
            key[i] = args->keys + (row + i) * (size_t)args->stride;
        *scale = v16_load(args->key_scales + row);
        *residual = v16_load(args->residuals + row);
        return;
    }
    float scales[GROUP], residuals[GROUP];
    for (int32_t i = 0; i < GROUP; i++) {
        const size_t row = place_row(p, args->page_table, args->page_blocks);
        key[i] = args->keys + row * (size_t)args->stride;
        scales[i] = args->key_scales[row];
        residuals[i] = args->residuals[row];
        if (i + 1 < count)
            p = place_move(p, 1, args->page_blocks);
    }
    *scale = v16_load(scales);
    *residual = v16_load(residuals);
}

// The keys to fetch while those at p are multiplied; null where no sixteen lie side by side.
QSA_INLINE const int8_t *screen_next(const qsa_screen_args *args, block_place p, int32_t left) {
    if (left < (AHEAD + 1) * GROUP)
        return NULL;
    p = place_move(p, AHEAD * GROUP, args->page_blocks);
    if (p.slot + GROUP > args->page_blocks)
        return NULL;
    const size_t row = place_row(p, args->page_table, args->page_blocks);
    QSA_PREFETCH(args->key_scales + row);
    QSA_PREFETCH(args->residuals + row);
    return args->keys + row * (size_t)args->stride;
}

QSA_INLINE void screen_blocks(const qsa_screen_args *args, const int32_t stride) {
    const float *bound = args->bound;
    block_place here = place_of(args->first, args->page_blocks);
    for (int32_t b = args->first; b < args->end; b += GROUP) {
        const int32_t count = args->end - b < GROUP ? args->end - b : GROUP;
        const int8_t *next = screen_next(args, here, args->end - b);
        const int8_t *key[GROUP];
        v16 scale, residual, sum = v16_zero();
        screen_gather(args, here, count, key, &scale, &residual);
        for (int32_t h = 0; h < args->heads; h += QSA_SCREEN_HEADS) {
            v16 dot[QSA_SCREEN_HEADS];
            screen_dots(dot, args->codes + (int64_t)h * stride, stride, key, h ? NULL : next);
            for (int32_t i = 0; i < QSA_SCREEN_HEADS; i++)
                sum = v16_add(sum, v16_max(v16_mul(dot[i], v16_set(args->scales[h + i])), v16_zero()));
        }
        const v16 about = v16_mul(sum, scale);
        const v16 error = v16_add(v16_add(v16_mul(v16_set(bound[0]), residual), v16_mul(v16_set(bound[1]), scale)),
                                  v16_set(bound[2]));
        float *lower = args->lower + (b - args->first), *upper = args->upper + (b - args->first);
        if (count == GROUP) {
            v16_store(lower, v16_sub(about, error));
            v16_store(upper, v16_add(about, error));
            here = b + GROUP < args->end ? place_move(here, GROUP, args->page_blocks) : here;
        } else {
            v16_store_n(lower, v16_sub(about, error), count);
            v16_store_n(upper, v16_add(about, error), count);
        }
    }
}

QSA_INLINE void screen_simd(const qsa_screen_args *args) {
    if (args->stride == 128) // the real geometry: loops over the dims are unrolled
        screen_blocks(args, 128);
    else
        screen_blocks(args, args->stride);
}

#endif
