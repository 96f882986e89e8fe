// SPDX-License-Identifier: Apache-2.0
//
// Integer dot products of the fast class: vectors of int32 lanes, each fed by pairs of int16 (lane += x0 * y0 + x1 * y1).
// `i32x` is one register of QSA_X lanes, 8 (x86-64-v3) or 16 (x86-64-v4); with VNNI product and sum are one instruction.
// All of it is exact as long as the sums fit, so every instruction set gives the same lanes.
//
// Codes arrive as quads, four bytes of a lane, and are widened by shifts alone: bytes 0 and 2 are one pair, 1 and 3 the next.
// Four numbers that meet a quad therefore lie in memory as 0, 2, 1, 3 (v16_to_quads). A block is 2 QSA_X lanes, `low` and
// `high`.

#ifndef QSA_KERNELS_SIMD_PAIRS_H
#define QSA_KERNELS_SIMD_PAIRS_H

#include "kernels/simd/simd.h"

// A pair in every lane, as one broadcast of 32 bits.
QSA_INLINE int32_t qsa_pair(const int16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return pair;
}

// Sums are named in assembly, volatile, so that they stay in registers and the steps in their order: the compiler would bring
// the broadcasts of all heads forward, and put sums into memory to make room for them.
#define QSA_HOLD(sum)     __asm__ volatile("" : "+v"(sum))
#define QSA_ADD32(sum, x) __asm__ volatile("vpaddd %1, %0, %0" : "+v"(sum) : "v"(x))

#if defined(__AVX512F__)

enum { QSA_X = 16 };
typedef __m512i i32x;
typedef __m512 f32x;

QSA_INLINE i32x i32x_zero(void) {
    return _mm512_setzero_si512();
}
QSA_INLINE i32x i32x_load(const void *p) {
    return _mm512_load_si512(p);
}
QSA_INLINE i32x i32x_pair(const int16_t *p) {
    return _mm512_set1_epi32(qsa_pair(p));
}
QSA_INLINE i32x i32x_dot(i32x sum, i32x x, i32x y) {
#if defined(__AVX512VNNI__)
    sum = _mm512_dpwssd_epi32(sum, x, y);
    QSA_HOLD(sum);
#else
    QSA_ADD32(sum, _mm512_madd_epi16(x, y));
#endif
    return sum;
}
QSA_INLINE f32x f32x_of(i32x x) {
    return _mm512_cvtepi32_ps(x);
}
QSA_INLINE f32x f32x_set(float x) {
    return _mm512_set1_ps(x);
}
QSA_INLINE f32x f32x_load(const float *p) {
    return _mm512_loadu_ps(p);
}
QSA_INLINE void f32x_store(float *p, f32x x) {
    _mm512_storeu_ps(p, x);
}
QSA_INLINE f32x f32x_mul(f32x x, f32x y) {
    return _mm512_mul_ps(x, y);
}
QSA_INLINE f32x f32x_fma(f32x x, f32x y, f32x z) {
    return _mm512_fmadd_ps(x, y, z);
}
// A block of interleaved dims in their order: four runs of 8, 16 dims apart.
QSA_INLINE void f32x_store_runs(float *out, f32x low, f32x high) {
    const __m512i even = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i odd = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    const f32x first = _mm512_permutex2var_ps(low, even, high), second = _mm512_permutex2var_ps(low, odd, high);
    _mm256_storeu_ps(out, _mm512_castps512_ps256(first));
    _mm256_storeu_ps(out + 16, _mm512_extractf32x8_ps(first, 1));
    _mm256_storeu_ps(out + 32, _mm512_castps512_ps256(second));
    _mm256_storeu_ps(out + 48, _mm512_extractf32x8_ps(second, 1));
}
// 16 integral values of +-32767 as int16, every four of them in the order of a quad.
QSA_INLINE void v16_to_quads(int16_t *out, v16 v) {
    const __m512i x = _mm512_shuffle_epi32(_mm512_cvtps_epi32(v), 0xd8);
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi32_epi16(x));
}

enum { QSA_ROW_BYTES = 64 }; // dims of a row that i32x_interleave takes
typedef __m512i codes;
#define QSA_CODES(operation) _mm512_##operation
QSA_INLINE codes codes_load(const unsigned char *p) {
    return _mm512_loadu_si512(p);
}
QSA_INLINE void codes_store(int16_t *p, codes x) {
    _mm512_store_si512(p, x);
}
// 16 bytes each of rows 0, 4, 8, 12.
QSA_INLINE codes codes_gather(const unsigned char *const row[], int32_t at) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(row[0] + at));
    codes all = _mm512_castsi128_si512(x);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row[4] + at)), 1);
    all = _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row[8] + at)), 2);
    return _mm512_inserti32x4(all, _mm_loadu_si128((const __m128i *)(row[12] + at)), 3);
}

#elif defined(__AVX2__)

enum { QSA_X = 8 };
typedef __m256i i32x;
typedef __m256 f32x;

QSA_INLINE i32x i32x_zero(void) {
    return _mm256_setzero_si256();
}
QSA_INLINE i32x i32x_load(const void *p) {
    return _mm256_load_si256((const __m256i *)p);
}
QSA_INLINE i32x i32x_pair(const int16_t *p) {
    return _mm256_set1_epi32(qsa_pair(p));
}
QSA_INLINE i32x i32x_dot(i32x sum, i32x x, i32x y) {
#if defined(__AVXVNNI__)
    sum = _mm256_dpwssd_avx_epi32(sum, x, y);
    QSA_HOLD(sum);
#else
    QSA_ADD32(sum, _mm256_madd_epi16(x, y));
#endif
    return sum;
}
QSA_INLINE f32x f32x_of(i32x x) {
    return _mm256_cvtepi32_ps(x);
}
QSA_INLINE f32x f32x_set(float x) {
    return _mm256_set1_ps(x);
}
QSA_INLINE f32x f32x_load(const float *p) {
    return _mm256_loadu_ps(p);
}
QSA_INLINE void f32x_store(float *p, f32x x) {
    _mm256_storeu_ps(p, x);
}
QSA_INLINE f32x f32x_mul(f32x x, f32x y) {
    return _mm256_mul_ps(x, y);
}
QSA_INLINE f32x f32x_fma(f32x x, f32x y, f32x z) {
    return _mm256_fmadd_ps(x, y, z);
}
// A block of interleaved dims in their order: two runs of 8, 16 dims apart.
QSA_INLINE void f32x_store_runs(float *out, f32x low, f32x high) {
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(out + 16, _mm256_permute2f128_ps(low, high, 0x31));
}
QSA_INLINE void v16_to_quads(int16_t *out, v16 v) {
    const __m256i a = _mm256_shuffle_epi32(_mm256_cvtps_epi32(v.a), 0xd8);
    const __m256i b = _mm256_shuffle_epi32(_mm256_cvtps_epi32(v.b), 0xd8);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8));
}

enum { QSA_ROW_BYTES = 32 };
typedef __m256i codes;
#define QSA_CODES(operation) _mm256_##operation
QSA_INLINE codes codes_load(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
QSA_INLINE void codes_store(int16_t *p, codes x) {
    _mm256_store_si256((__m256i *)p, x);
}
// 16 bytes each of rows 0 and 4.
QSA_INLINE codes codes_gather(const unsigned char *const row[], int32_t at) {
    const __m128i x = _mm_loadu_si128((const __m128i *)(row[0] + at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(x), _mm_loadu_si128((const __m128i *)(row[4] + at)), 1);
}

#endif

// Quads as two vectors of pairs, a block apart.
QSA_INLINE void codes_widen(int16_t *out, codes quads) {
    codes_store(out, QSA_CODES(srai_epi16)(QSA_CODES(slli_epi16)(quads, 8), 8));
    codes_store(out + 4 * QSA_X, QSA_CODES(srai_epi16)(quads, 8));
}

// 16 dims of QSA_X rows as four quads of dims, lanes of rows; quad i goes to out + i * 8 * QSA_X.
QSA_INLINE void i32x_transpose(int16_t *out, const unsigned char *const row[], int32_t dim) {
    codes x[4], two[4];
    for (int i = 0; i < 4; i++)
        x[i] = codes_gather(row + i, dim); // quads 0-3 of rows i, i + 4, ...
    for (int i = 0; i < 4; i += 2) {
        two[i] = QSA_CODES(unpacklo_epi32)(x[i], x[i + 1]); // quads 0 and 1 of two rows
        two[i + 1] = QSA_CODES(unpackhi_epi32)(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        codes_widen(out + 2 * i * 8 * QSA_X, QSA_CODES(unpacklo_epi64)(two[i], two[i + 2]));
        codes_widen(out + (2 * i + 1) * 8 * QSA_X, QSA_CODES(unpackhi_epi64)(two[i], two[i + 2]));
    }
}

// QSA_ROW_BYTES dims of `count` rows, a multiple of 4, as quads of rows, lanes of dims: two blocks, `blocks` numbers apart,
// of dims 0-3 (low) and 4-7 (high), or 8-11 and 12-15, of every 16; f32x_store_runs puts sums right. start: the sums of each
// dim's codes times 32768, in the same order, [2][2 * QSA_X]. (The codes of four rows fit in int16 pair by pair.)
QSA_INLINE void i32x_interleave(int16_t *out, int32_t blocks, int32_t *start, const unsigned char *const row[],
                                int32_t count, int32_t dim) {
    const codes ones = QSA_CODES(set1_epi8)(1), ones16 = QSA_CODES(set1_epi16)(1);
    codes sum[4], quads[4];
    for (int i = 0; i < 4; i++)
        sum[i] = i32x_zero();
    for (int32_t r = 0; r < count; r += 4, out += 8 * QSA_X) {
        const codes a = codes_load(row[r] + dim), b = codes_load(row[r + 1] + dim);
        const codes c = codes_load(row[r + 2] + dim), d = codes_load(row[r + 3] + dim);
        const codes ab = QSA_CODES(unpacklo_epi8)(a, b), cd = QSA_CODES(unpacklo_epi8)(c, d);
        const codes ab8 = QSA_CODES(unpackhi_epi8)(a, b), cd8 = QSA_CODES(unpackhi_epi8)(c, d);
        quads[0] = QSA_CODES(unpacklo_epi16)(ab, cd);
        quads[1] = QSA_CODES(unpackhi_epi16)(ab, cd);
        quads[2] = QSA_CODES(unpacklo_epi16)(ab8, cd8);
        quads[3] = QSA_CODES(unpackhi_epi16)(ab8, cd8);
        for (int i = 0; i < 4; i++) {
            codes_widen(out + i / 2 * blocks + i % 2 * 2 * QSA_X, quads[i]);
            sum[i] = QSA_CODES(add_epi16)(sum[i], QSA_CODES(maddubs_epi16)(ones, quads[i]));
        }
    }
    for (int i = 0; i < 4; i++)
        codes_store((int16_t *)(start + i * QSA_X), QSA_CODES(slli_epi32)(QSA_CODES(madd_epi16)(sum[i], ones16), 15));
}

// Four halves of 8 rows, turned: half g of row r goes to out[g * stride + r].
QSA_INLINE void halves_turn(uint16_t *out, int32_t stride, const uint16_t *rows, size_t row_halves,
                            const int32_t number[8]) {
    __m128i two[4], four[4];
    for (int i = 0; i < 4; i++)
        two[i] = _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)(rows + (size_t)number[2 * i] * row_halves)),
                                    _mm_loadl_epi64((const __m128i *)(rows + (size_t)number[2 * i + 1] * row_halves)));
    for (int i = 0; i < 2; i++) {
        four[i] = _mm_unpacklo_epi32(two[2 * i], two[2 * i + 1]); // halves 0 and 1 of rows 4i..4i+3
        four[i + 2] = _mm_unpackhi_epi32(two[2 * i], two[2 * i + 1]);
    }
    for (int i = 0; i < 4; i += 2) {
        _mm_storeu_si128((__m128i *)(out + i * stride), _mm_unpacklo_epi64(four[i], four[i + 1]));
        _mm_storeu_si128((__m128i *)(out + (i + 1) * stride), _mm_unpackhi_epi64(four[i], four[i + 1]));
    }
}

#endif
