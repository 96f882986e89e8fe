// SPDX-License-Identifier: Apache-2.0
//
// v16 in four 128-bit registers (AArch64, which always has NEON and fused multiply-add).

#ifndef QSA_KERNELS_SIMD_NEON_H
#define QSA_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

// Register tiles of 32: dots of 3 heads x 2 cells (24 accumulators); 6 heads of 16 output dims (24).
enum { QSA_DOT_HEADS = 3, QSA_DOT_CELLS = 2 };
#define QSA_PV_SMALL 1

typedef struct v16 {
    float32x4_t r[4];
} v16;

// One native register of a v16; a v16 is QSA_REGS of them.
enum { QSA_REGS = 4, QSA_REG_LANES = 4 };
typedef float32x4_t vreg;
QSA_INLINE vreg vreg_zero(void) {
    return vdupq_n_f32(0.0f);
}
QSA_INLINE vreg vreg_load(const float *p) {
    return vld1q_f32(p);
}
QSA_INLINE vreg vreg_fma(vreg x, vreg y, vreg z) {
    return vfmaq_f32(z, x, y);
}
QSA_INLINE v16 v16_of_regs(const vreg r[QSA_REGS]) {
    return (v16){{r[0], r[1], r[2], r[3]}};
}
QSA_INLINE vreg vreg_hold(vreg x) {
    return x; // no memory operands here: a loaded value is in a register
}
#define QSA_EACH4(expression) ((v16){{expression(0), expression(1), expression(2), expression(3)}})

QSA_INLINE v16 v16_set(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return (v16){{v, v, v, v}};
}
QSA_INLINE v16 v16_zero(void) {
    return v16_set(0.0f);
}
QSA_INLINE v16 v16_load(const float *p) {
    return (v16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
QSA_INLINE void v16_store(float *p, v16 v) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.r[i]);
}
#define QSA_FMA(i) vfmaq_f32(z.r[i], x.r[i], y.r[i])
QSA_INLINE v16 v16_fma(v16 x, v16 y, v16 z) {
    return QSA_EACH4(QSA_FMA);
}
#define QSA_ADD(i) vaddq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_add(v16 x, v16 y) {
    return QSA_EACH4(QSA_ADD);
}
#define QSA_SUB(i) vsubq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_sub(v16 x, v16 y) {
    return QSA_EACH4(QSA_SUB);
}
#define QSA_MUL(i) vmulq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_mul(v16 x, v16 y) {
    return QSA_EACH4(QSA_MUL);
}
#define QSA_DIV(i) vdivq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_div(v16 x, v16 y) {
    return QSA_EACH4(QSA_DIV);
}
#define QSA_NEG(i) vnegq_f32(x.r[i])
QSA_INLINE v16 v16_neg(v16 x) {
    return QSA_EACH4(QSA_NEG);
}
#define QSA_ABS(i) vabsq_f32(x.r[i])
QSA_INLINE v16 v16_abs(v16 x) {
    return QSA_EACH4(QSA_ABS);
}
// The larger; where x is NaN, y.
#define QSA_MAX(i) vmaxnmq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_max(v16 x, v16 y) {
    return QSA_EACH4(QSA_MAX);
}
// The smaller; where x is NaN, y.
#define QSA_MIN(i) vminnmq_f32(x.r[i], y.r[i])
QSA_INLINE v16 v16_min(v16 x, v16 y) {
    return QSA_EACH4(QSA_MIN);
}
#define QSA_RINT(i) vrndnq_f32(x.r[i])
QSA_INLINE v16 v16_rint(v16 x) {
    return QSA_EACH4(QSA_RINT);
}
QSA_INLINE v16 v16_hold(v16 x) {
    return x; // no memory operands here: a loaded value is in a register
}
QSA_INLINE uint32_t qsa_at_least4(float32x4_t x, float32x4_t y) {
    static const uint32_t bits[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(vcgeq_f32(x, y), vld1q_u32(bits)));
}
// Bit i: x[i] >= y[i]; NaN is never at least anything.
QSA_INLINE uint32_t v16_at_least(v16 x, v16 y) {
    return qsa_at_least4(x.r[0], y.r[0]) | qsa_at_least4(x.r[1], y.r[1]) << 4 | qsa_at_least4(x.r[2], y.r[2]) << 8 |
           qsa_at_least4(x.r[3], y.r[3]) << 12;
}
// Whether any lane is NaN.
QSA_INLINE int v16_unordered(v16 x) {
    uint32x4_t ordered = vceqq_f32(x.r[0], x.r[0]);
    for (int i = 1; i < 4; i++)
        ordered = vandq_u32(ordered, vceqq_f32(x.r[i], x.r[i]));
    return vminvq_u32(ordered) == 0;
}
#define QSA_CANONICAL(i) vbslq_f32(vceqq_f32(x.r[i], x.r[i]), x.r[i], nan)
QSA_INLINE v16 v16_canonical(v16 x) {
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(QSA_NAN_BITS));
    return QSA_EACH4(QSA_CANONICAL);
}
// t with the integral n added to the exponent field.
#define QSA_SCALE(i)                                                                                                   \
    vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(t.r[i]), vshlq_n_s32(vcvtq_s32_f32(n.r[i]), 23)))
QSA_INLINE v16 v16_scale_by_power(v16 t, v16 n) {
    return QSA_EACH4(QSA_SCALE);
}
// value where x >= QSA_EXP_CUT, +0 below, canonical NaN where x is NaN.
#define QSA_CUT(i) vbslq_f32(vceqq_f32(x.r[i], x.r[i]), vbslq_f32(vcgeq_f32(x.r[i], cut), value.r[i], zero), nan)
QSA_INLINE v16 v16_cut(v16 value, v16 x) {
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(QSA_NAN_BITS));
    const float32x4_t cut = vdupq_n_f32(QSA_EXP_CUT), zero = vdupq_n_f32(0.0f);
    return QSA_EACH4(QSA_CUT);
}
// `yes` where x < 0, else `no`.
#define QSA_SELECT(i) vbslq_f32(vcltzq_f32(x.r[i]), yes.r[i], no.r[i])
QSA_INLINE v16 v16_select_negative(v16 x, v16 yes, v16 no) {
    return QSA_EACH4(QSA_SELECT);
}
// relu of the contract; a NaN stays some NaN.
#define QSA_RELU(i) vbslq_f32(vclezq_f32(x.r[i]), zero, x.r[i])
QSA_INLINE v16 v16_relu(v16 x) {
    const float32x4_t zero = vdupq_n_f32(0.0f);
    return QSA_EACH4(QSA_RELU);
}
typedef struct v16_half {
    float32x4_t low, high;
} v16_half;
QSA_INLINE v16_half v16_halve(v16 v) {
    return (v16_half){vaddq_f32(v.r[0], v.r[2]), vaddq_f32(v.r[1], v.r[3])};
}
QSA_INLINE void v16_store_half(float *p, v16_half v) {
    vst1q_f32(p, v.low);
    vst1q_f32(p + 4, v.high);
}
QSA_INLINE float qsa_fold4(float32x4_t four) {
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
QSA_INLINE float v16_fold(v16 v) {
    const v16_half half = v16_halve(v);
    return qsa_fold4(vaddq_f32(half.low, half.high));
}
QSA_INLINE float v16_fold_max(v16 v) {
    return vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(v.r[0], v.r[1]), vmaxnmq_f32(v.r[2], v.r[3])));
}
// out[i] = (the sum of part[i]) * scale + 0, for eight vectors that are folded to 8 lanes already.
QSA_INLINE void v16_fold8(const float (*part)[8], float scale, float out[8]) {
    for (int i = 0; i < 8; i++)
        out[i] = qsa_fold4(vaddq_f32(vld1q_f32(part[i]), vld1q_f32(part[i] + 4))) * scale + 0.0f;
}
QSA_INLINE float32x4_t qsa_of_f16_4(const unsigned char *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h)));
}
QSA_INLINE float32x4_t qsa_of_bf16_4(const unsigned char *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(h), 16));
}
#define QSA_OF_F16(i)  qsa_of_f16_4(p + 8 * (i))
#define QSA_OF_BF16(i) qsa_of_bf16_4(p + 8 * (i))
QSA_INLINE v16 v16_of_f16(const unsigned char *p) {
    return v16_canonical(QSA_EACH4(QSA_OF_F16));
}
QSA_INLINE v16 v16_of_bf16(const unsigned char *p) {
    return v16_canonical(QSA_EACH4(QSA_OF_BF16));
}
// Dims d..d+15 of a stored row. NaN payloads may differ from qsa_decode_row's: results are made canonical later.
QSA_INLINE v16 v16_decode(const unsigned char *row, qsa_type format, int32_t d, v16 scale) {
    const unsigned char *p = row + 2 * (size_t)d;
    if (format == QSA_F32)
        return v16_load((const float *)row + d);
    if (format == QSA_F16)
        return QSA_EACH4(QSA_OF_F16);
    if (format == QSA_BF16)
        return QSA_EACH4(QSA_OF_BF16);
    const int8x16_t codes = vld1q_s8((const int8_t *)row + d);
    const int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_s8(vget_high_s8(codes));
    const v16 x = {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                    vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
    return v16_mul(x, scale);
}
// 16 integral values of -127..127 as bytes.
QSA_INLINE void v16_to_i8(int8_t *out, v16 v) {
    const int16x8_t low = vcombine_s16(vmovn_s32(vcvtq_s32_f32(v.r[0])), vmovn_s32(vcvtq_s32_f32(v.r[1])));
    const int16x8_t high = vcombine_s16(vmovn_s32(vcvtq_s32_f32(v.r[2])), vmovn_s32(vcvtq_s32_f32(v.r[3])));
    vst1q_s8(out, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

#endif
