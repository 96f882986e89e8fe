// SPDX-License-Identifier: Apache-2.0
//
// v16 in two 256-bit registers (x86-64-v3).

#ifndef QSA_KERNELS_SIMD_AVX2_H
#define QSA_KERNELS_SIMD_AVX2_H

#include <immintrin.h>

// Register tiles of 16: dots of 3 heads x 2 cells (12 accumulators); 6 heads of 16 output dims (12).
enum { QSA_DOT_HEADS = 3, QSA_DOT_CELLS = 2 };
#define QSA_PV_SMALL 1

typedef struct v16 {
    __m256 a, b;
} v16;

// One native register of a v16; a v16 is QSA_REGS of them.
enum { QSA_REGS = 2, QSA_REG_LANES = 8 };
typedef __m256 vreg;
QSA_INLINE vreg vreg_zero(void) {
    return _mm256_setzero_ps();
}
QSA_INLINE vreg vreg_load(const float *p) {
    return _mm256_loadu_ps(p);
}
QSA_INLINE vreg vreg_fma(vreg x, vreg y, vreg z) {
    return _mm256_fmadd_ps(x, y, z);
}
QSA_INLINE v16 v16_of_regs(const vreg r[QSA_REGS]) {
    return (v16){r[0], r[1]};
}
// Keeps a loaded value in a register, where the compiler would load it once per use.
QSA_INLINE vreg vreg_hold(vreg x) {
    __asm__("" : "+x"(x));
    return x;
}
QSA_INLINE v16 v16_zero(void) {
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
QSA_INLINE v16 v16_set(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return (v16){v, v};
}
QSA_INLINE v16 v16_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
QSA_INLINE void v16_store(float *p, v16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
QSA_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
QSA_INLINE v16 v16_add(v16 x, v16 y) {
    return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
QSA_INLINE v16 v16_sub(v16 x, v16 y) {
    return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
QSA_INLINE v16 v16_mul(v16 x, v16 y) {
    return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
QSA_INLINE v16 v16_div(v16 x, v16 y) {
    return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
QSA_INLINE v16 v16_neg(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
QSA_INLINE v16 v16_abs(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
// The larger; where x is NaN, y.
QSA_INLINE v16 v16_max(v16 x, v16 y) {
    return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
// The smaller; where x is NaN, y.
QSA_INLINE v16 v16_min(v16 x, v16 y) {
    return (v16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
QSA_INLINE v16 v16_rint(v16 x) {
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    return (v16){_mm256_round_ps(x.a, NEAREST), _mm256_round_ps(x.b, NEAREST)};
}
// Keeps a loaded value in registers, where the compiler would load it once per use.
QSA_INLINE v16 v16_hold(v16 x) {
    __asm__("" : "+x"(x.a), "+x"(x.b));
    return x;
}
// Bit i: x[i] >= y[i]; NaN is never at least anything.
QSA_INLINE uint32_t v16_at_least(v16 x, v16 y) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ)) |
           (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)) << 8;
}
// Whether any lane is NaN.
QSA_INLINE int v16_unordered(v16 x) {
    return _mm256_movemask_ps(
        _mm256_or_ps(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)));
}
QSA_INLINE __m256 qsa_canonical8(__m256 x) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)QSA_NAN_BITS));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
QSA_INLINE v16 v16_canonical(v16 x) {
    return (v16){qsa_canonical8(x.a), qsa_canonical8(x.b)};
}
QSA_INLINE __m256 qsa_scale8(__m256 t, __m256 n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(t), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
// t with the integral n added to the exponent field.
QSA_INLINE v16 v16_scale_by_power(v16 t, v16 n) {
    return (v16){qsa_scale8(t.a, n.a), qsa_scale8(t.b, n.b)};
}
QSA_INLINE __m256 qsa_cut8(__m256 value, __m256 x) {
    const __m256 kept = _mm256_and_ps(value, _mm256_cmp_ps(x, _mm256_set1_ps(QSA_EXP_CUT), _CMP_GE_OQ));
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)QSA_NAN_BITS));
    return _mm256_blendv_ps(kept, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
// value where x >= QSA_EXP_CUT, +0 below, canonical NaN where x is NaN.
QSA_INLINE v16 v16_cut(v16 value, v16 x) {
    return (v16){qsa_cut8(value.a, x.a), qsa_cut8(value.b, x.b)};
}
QSA_INLINE __m256 qsa_select8(__m256 x, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
// `yes` where x < 0, else `no`.
QSA_INLINE v16 v16_select_negative(v16 x, v16 yes, v16 no) {
    return (v16){qsa_select8(x.a, yes.a, no.a), qsa_select8(x.b, yes.b, no.b)};
}
QSA_INLINE __m256 qsa_relu8(__m256 x) {
    const __m256 positive = _mm256_and_ps(x, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_or_ps(positive, _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
// relu of the contract; a NaN stays some NaN.
QSA_INLINE v16 v16_relu(v16 x) {
    return (v16){qsa_relu8(x.a), qsa_relu8(x.b)};
}
QSA_INLINE float v16_fold(v16 v) {
    const __m256 eight = _mm256_add_ps(v.a, v.b);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
QSA_INLINE float v16_fold_max(v16 v) {
    const __m256 eight = _mm256_max_ps(v.a, v.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
typedef __m256 v16_half;
QSA_INLINE v16_half v16_halve(v16 v) {
    return _mm256_add_ps(v.a, v.b);
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
QSA_INLINE void v16_store_half(float *p, v16_half v) {
    _mm256_store_ps(p, v);
}
QSA_INLINE v16 v16_of_f16(const unsigned char *p) {
    const v16 x = {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))};
    return v16_canonical(x);
}
QSA_INLINE __m256 qsa_of_bf16_8(const unsigned char *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
QSA_INLINE v16 v16_of_bf16(const unsigned char *p) {
    return v16_canonical((v16){qsa_of_bf16_8(p), qsa_of_bf16_8(p + 16)});
}
QSA_INLINE __m256 qsa_of_i8(const unsigned char *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
// Dims d..d+15 of a stored row. NaN payloads may differ from qsa_decode_row's: results are made canonical later.
QSA_INLINE v16 v16_decode(const unsigned char *row, qsa_type format, int32_t d, v16 scale) {
    const unsigned char *half = row + 2 * (size_t)d;
    switch (format) {
    case QSA_F32:
        return v16_load((const float *)row + d);
    case QSA_F16:
        return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(half + 16)))};
    case QSA_BF16:
        return (v16){qsa_of_bf16_8(half), qsa_of_bf16_8(half + 16)};
    default:
        return v16_mul((v16){qsa_of_i8(row + d), qsa_of_i8(row + d + 8)}, scale);
    }
}
// 16 integral values of -127..127 as bytes.
QSA_INLINE void v16_to_i8(int8_t *out, v16 v) {
    const __m256i x = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    const __m256i y = _mm256_permute4x64_epi64(x, 0xd8);
    _mm_storeu_si128((__m128i *)out, _mm_packs_epi16(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
}

#endif
