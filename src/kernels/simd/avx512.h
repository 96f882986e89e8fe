// SPDX-License-Identifier: Apache-2.0
//
// v16 in one 512-bit register (x86-64-v4: F, BW, VL, DQ).

#ifndef QSA_KERNELS_SIMD_AVX512_H
#define QSA_KERNELS_SIMD_AVX512_H

#include <immintrin.h>

// Register tiles of 32: dots of 6 heads x 4 cells (24 accumulators); 12 heads of 32 output dims (24).
enum { QSA_DOT_HEADS = 6, QSA_DOT_CELLS = 4 };
#define QSA_PV_SMALL 0

typedef __m512 v16;

// One native register of a v16; a v16 is QSA_REGS of them.
enum { QSA_REGS = 1, QSA_REG_LANES = 16 };
typedef __m512 vreg;
QSA_INLINE vreg vreg_zero(void) {
    return _mm512_setzero_ps();
}
QSA_INLINE vreg vreg_load(const float *p) {
    return _mm512_loadu_ps(p);
}
QSA_INLINE vreg vreg_fma(vreg x, vreg y, vreg z) {
    return _mm512_fmadd_ps(x, y, z);
}
QSA_INLINE v16 v16_of_regs(const vreg r[QSA_REGS]) {
    return r[0];
}
// Keeps a loaded value in a register, where the compiler would load it once per use.
QSA_INLINE vreg vreg_hold(vreg x) {
    __asm__("" : "+v"(x));
    return x;
}
QSA_INLINE v16 v16_zero(void) {
    return _mm512_setzero_ps();
}
QSA_INLINE v16 v16_set(float x) {
    return _mm512_set1_ps(x);
}
QSA_INLINE v16 v16_load(const float *p) {
    return _mm512_loadu_ps(p);
}
QSA_INLINE void v16_store(float *p, v16 v) {
    _mm512_storeu_ps(p, v);
}
QSA_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return _mm512_fmadd_ps(x, y, z);
}
QSA_INLINE v16 v16_add(v16 x, v16 y) {
    return _mm512_add_ps(x, y);
}
QSA_INLINE v16 v16_sub(v16 x, v16 y) {
    return _mm512_sub_ps(x, y);
}
QSA_INLINE v16 v16_mul(v16 x, v16 y) {
    return _mm512_mul_ps(x, y);
}
QSA_INLINE v16 v16_div(v16 x, v16 y) {
    return _mm512_div_ps(x, y);
}
QSA_INLINE v16 v16_neg(v16 x) {
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}
QSA_INLINE v16 v16_abs(v16 x) {
    return _mm512_abs_ps(x);
}
// The larger; where x is NaN, y.
QSA_INLINE v16 v16_max(v16 x, v16 y) {
    return _mm512_max_ps(x, y);
}
// The smaller; where x is NaN, y.
QSA_INLINE v16 v16_min(v16 x, v16 y) {
    return _mm512_min_ps(x, y);
}
QSA_INLINE v16 v16_rint(v16 x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Keeps a loaded value in a register, where the compiler would load it once per use.
QSA_INLINE v16 v16_hold(v16 x) {
    __asm__("" : "+v"(x));
    return x;
}
// Bit i: x[i] >= y[i]; NaN is never at least anything.
QSA_INLINE uint32_t v16_at_least(v16 x, v16 y) {
    return _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ);
}
// Whether any lane is NaN.
QSA_INLINE int v16_unordered(v16 x) {
    return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0;
}
QSA_INLINE v16 v16_canonical(v16 x) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)QSA_NAN_BITS));
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}
// t with the integral n added to the exponent field.
QSA_INLINE v16 v16_scale_by_power(v16 t, v16 n) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(t), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23)));
}
// value where x >= QSA_EXP_CUT, +0 below, canonical NaN where x is NaN.
QSA_INLINE v16 v16_cut(v16 value, v16 x) {
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)QSA_NAN_BITS));
    const __m512 kept = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(QSA_EXP_CUT), _CMP_GE_OQ), value);
    return _mm512_mask_mov_ps(kept, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}
// `yes` where x < 0, else `no`.
QSA_INLINE v16 v16_select_negative(v16 x, v16 yes, v16 no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), yes);
}
// relu of the contract; a NaN stays some NaN.
QSA_INLINE v16 v16_relu(v16 x) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLE_UQ), x);
}
typedef __m256 v16_half;
QSA_INLINE v16_half v16_halve(v16 v) {
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
}
QSA_INLINE void v16_store_half(float *p, v16_half v) {
    _mm256_store_ps(p, v);
}
QSA_INLINE float v16_fold(v16 v) {
    const __m256 eight = v16_halve(v);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
QSA_INLINE float v16_fold_max(v16 v) {
    return _mm512_reduce_max_ps(v);
}
// out[i] = (the sum of part[i]) * scale + 0, for eight vectors that are folded to 8 lanes already.
QSA_INLINE void v16_fold8(const float (*part)[8], float scale, float out[8]) {
    __m256 four[4], two[2];
    for (int i = 0; i < 4; i++) { // [v(i) | v(i + 4)], each folded to 4 lanes
        const __m256 x = _mm256_load_ps(part[i]), y = _mm256_load_ps(part[i + 4]);
        four[i] = _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    }
    for (int i = 0; i < 2; i++) {
        const __m256 x = four[2 * i], y = four[2 * i + 1];
        two[i] = _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xee));
    }
    const __m256 sum = _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_mul_ps(sum, _mm256_set1_ps(scale)), _mm256_setzero_ps()));
}
QSA_INLINE v16 v16_of_f16(const unsigned char *p) {
    return v16_canonical(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)));
}
QSA_INLINE v16 qsa_of_bf16_16(const unsigned char *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
QSA_INLINE v16 v16_of_bf16(const unsigned char *p) {
    return v16_canonical(qsa_of_bf16_16(p));
}
// Dims d..d+15 of a stored row. NaN payloads may differ from qsa_decode_row's: results are made canonical later.
QSA_INLINE v16 v16_decode(const unsigned char *row, qsa_type format, int32_t d, v16 scale) {
    const unsigned char *half = row + 2 * (size_t)d;
    switch (format) {
    case QSA_F32:
        return v16_load((const float *)row + d);
    case QSA_F16:
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)half));
    case QSA_BF16:
        return qsa_of_bf16_16(half);
    default:
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(row + d)))),
                             scale);
    }
}
// 16 integral values of -127..127 as bytes.
QSA_INLINE void v16_to_i8(int8_t *out, v16 v) {
    _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

#endif
