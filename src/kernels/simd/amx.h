// SPDX-License-Identifier: Apache-2.0
//
// Tiles of AMX-INT8: eight registers of up to 16 rows of 64 bytes. A product adds, to 16 x 16 int32, 16 rows of 64 bytes (a)
// times 64 x 16 bytes (b), where b lies in quads: row r of its tile holds bytes 4r..4r+3 of each of 16 columns. A product is
// exact as long as its sums fit. Tile numbers are part of the instruction, so they are written as numerals.
//
// A file that defines QSA_TILES brings these operations itself: tests do, so that kernels run where there is no AMX.

#ifndef QSA_KERNELS_SIMD_AMX_H
#define QSA_KERNELS_SIMD_AMX_H

#include "kernels/simd/pairs.h"

enum { TILE_ROWS = 16, TILE_BYTES = 64 };

// What LDTILECFG reads, palette 1.
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; // of a row, tiles 0-7
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "the layout is the machine's");

#ifndef QSA_TILES
#include <immintrin.h>

// The compiler has to be told that a tile load reads memory: gcc's intrinsic does not say so, and stores into the loaded array
// would be moved behind it.
#define tile_load(tile, from, stride)                                                                                  \
    do {                                                                                                               \
        __asm__ volatile("" ::: "memory");                                                                             \
        _tile_loadd(tile, from, stride);                                                                               \
    } while (0)
#define tile_store(tile, to, stride) _tile_stored(tile, to, stride)
#define tile_zero(tile)              _tile_zero(tile)
// c += a b; the letters say whether the bytes of a and of b are signed or unsigned.
#define tile_dot_ss(c, a, b) _tile_dpbssd(c, a, b)
#define tile_dot_su(c, a, b) _tile_dpbsud(c, a, b)
#define tile_dot_us(c, a, b) _tile_dpbusd(c, a, b)
#define tiles_release()      _tile_release()
QSA_INLINE void tiles_configure(const tile_config *config) {
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(config);
}
#endif

// The row of a tile that takes quad q of 16 (numbers 4q..4q+3), as bytes_of_planes lays them.
QSA_INLINE int32_t quad_row(int32_t quad) {
    enum { LANES = QSA_X / 4, BLOCK_QUADS = 4 * LANES };
    return quad / BLOCK_QUADS * BLOCK_QUADS + quad % LANES * 4 + quad % BLOCK_QUADS / LANES;
}

#if defined(__AVX512F__)
QSA_INLINE void v16_to_i32(codes out[1], v16 v) {
    out[0] = _mm512_cvtps_epi32(v);
}
// Dword i of 128-bit lane l becomes dword i * lanes + l of what was there.
QSA_INLINE codes codes_deal(codes x) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x);
}
QSA_INLINE codes codes_load_i32(const int32_t *p) {
    return _mm512_load_si512(p);
}
// 16 x 16 numbers of four bytes, turned. Out row i at out + i * stride bytes.
QSA_INLINE void turn16(void *out, size_t stride, const void *in) {
    const float *from = (const float *)in;
    __m512 u[4][4]; // [i][m]: lane l holds column 4l + m of rows 4i..4i+3
    for (int i = 0; i < 4; i++, from += 64) {
        const __m512 a = _mm512_loadu_ps(from), b = _mm512_loadu_ps(from + 16);
        const __m512 c = _mm512_loadu_ps(from + 32), d = _mm512_loadu_ps(from + 48);
        const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), ab2 = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
        const __m512d cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)), cd2 = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
        u[i][0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
        u[i][1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
        u[i][2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab2, cd2));
        u[i][3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab2, cd2));
    }
    unsigned char *to = (unsigned char *)out;
    for (size_t m = 0; m < 4; m++) {
        const __m512 a = _mm512_shuffle_f32x4(u[0][m], u[1][m], 0x44), b = _mm512_shuffle_f32x4(u[2][m], u[3][m], 0x44);
        const __m512 c = _mm512_shuffle_f32x4(u[0][m], u[1][m], 0xee), d = _mm512_shuffle_f32x4(u[2][m], u[3][m], 0xee);
        _mm512_storeu_ps(to + m * stride, _mm512_shuffle_f32x4(a, b, 0x88));
        _mm512_storeu_ps(to + (4 + m) * stride, _mm512_shuffle_f32x4(a, b, 0xdd));
        _mm512_storeu_ps(to + (8 + m) * stride, _mm512_shuffle_f32x4(c, d, 0x88));
        _mm512_storeu_ps(to + (12 + m) * stride, _mm512_shuffle_f32x4(c, d, 0xdd));
    }
}
#else
QSA_INLINE void v16_to_i32(codes out[2], v16 v) {
    out[0] = _mm256_cvtps_epi32(v.a);
    out[1] = _mm256_cvtps_epi32(v.b);
}
QSA_INLINE codes codes_deal(codes x) {
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}
QSA_INLINE codes codes_load_i32(const int32_t *p) {
    return _mm256_load_si256((const __m256i *)p);
}
QSA_INLINE void turn16(void *out, size_t stride, const void *in) {
    const float *from = (const float *)in;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            __m128 x[4];
            for (size_t r = 0; r < 4; r++)
                x[r] = _mm_loadu_ps(from + (4 * i + r) * 16 + 4 * j);
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            for (size_t r = 0; r < 4; r++)
                _mm_storeu_ps((float *)((unsigned char *)out + (4 * j + r) * stride) + 4 * i, x[r]);
        }
}
#endif

// 64 numbers, rounded, as two bytes each: x + offset = 256 high + low, modulo 2^16. The quads of either plane lie in the order
// of quad_row: that of packing within 128-bit lanes, which needs no other shuffle.
QSA_INLINE void bytes_of_planes(unsigned char high[TILE_BYTES], unsigned char low[TILE_BYTES], const v16 x[4],
                                int16_t offset) {
    enum { EACH = 16 / QSA_X };
    codes number[4 * EACH];
    const codes add = QSA_CODES(set1_epi16)(offset);
    for (int i = 0; i < 4; i++)
        v16_to_i32(number + i * EACH, x[i]);
    for (int i = 0; i < EACH; i++, high += 4 * QSA_X, low += 4 * QSA_X) {
        const codes *n = number + 4 * i;
        const codes a = QSA_CODES(add_epi16)(QSA_CODES(packs_epi32)(n[0], n[1]), add);
        const codes b = QSA_CODES(add_epi16)(QSA_CODES(packs_epi32)(n[2], n[3]), add);
        const codes a_low = QSA_CODES(srli_epi16)(QSA_CODES(slli_epi16)(a, 8), 8);
        const codes b_low = QSA_CODES(srli_epi16)(QSA_CODES(slli_epi16)(b, 8), 8);
        codes_store((int16_t *)low, QSA_CODES(packus_epi16)(a_low, b_low));
        codes_store((int16_t *)high, QSA_CODES(packus_epi16)(QSA_CODES(srli_epi16)(a, 8), QSA_CODES(srli_epi16)(b, 8)));
    }
}

// 64 bytes of 64 rows as four tiles, 16 columns each, quads of rows in the order of quad_row.
QSA_INLINE void tiles_of_rows(unsigned char (*out)[TILE_ROWS][TILE_BYTES], const unsigned char *const row[64]) {
    for (int32_t d = 0; d < TILE_BYTES; d += QSA_ROW_BYTES)
        for (int32_t quad = 0; quad < TILE_ROWS; quad++) {
            codes x[4];
            for (int i = 0; i < 4; i++)
                x[i] = codes_deal(codes_load(row[4 * quad + i] + d));
            const codes ab = QSA_CODES(unpacklo_epi8)(x[0], x[1]), ab8 = QSA_CODES(unpackhi_epi8)(x[0], x[1]);
            const codes cd = QSA_CODES(unpacklo_epi8)(x[2], x[3]), cd8 = QSA_CODES(unpackhi_epi8)(x[2], x[3]);
            x[0] = QSA_CODES(unpacklo_epi16)(ab, cd);
            x[1] = QSA_CODES(unpackhi_epi16)(ab, cd);
            x[2] = QSA_CODES(unpacklo_epi16)(ab8, cd8);
            x[3] = QSA_CODES(unpackhi_epi16)(ab8, cd8);
            for (int i = 0; i < 4; i++) {
                const int32_t column = d + i * QSA_X;
                codes_store((int16_t *)(out[column / 16][quad_row(quad)] + column % 16 * 4), x[i]);
            }
        }
}

// 256 high + low of QSA_X sums, as float32.
QSA_INLINE f32x f32x_of_planes(const int32_t *high, const int32_t *low) {
    const codes sum = QSA_CODES(slli_epi32)(codes_load_i32(high), 8);
    return f32x_of(QSA_CODES(add_epi32)(sum, codes_load_i32(low)));
}

#endif
