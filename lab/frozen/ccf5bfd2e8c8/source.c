// SPDX-License-Identifier: Apache-2.0
//
// Attention records in 256-bit vectors (x86-64-v3).

#include "kernels/attend/attend_simd.h"

void qsa_attend_avx2(const qsa_attend_args *args) {
    attend_simd(args);
}

// ---- src/kernels/attend/attend_simd.h ----

// SPDX-License-Identifier: Apache-2.0
//
// Attention records in v16 lanes; one source for every instruction set (src/kernels/simd/simd.h gives the tile shapes).
//
// QK: QSA_DOT_CELLS cells by QSA_DOT_HEADS heads at a time, K rows decoded once for all heads of the KV head. PV: a slice of
// 32 dims of V, decoded once for the chunk, then 16 or 32 dims by 6 or 12 heads in registers. The rows needed next are
// prefetched a few at a time between the arithmetic: selected blocks lie anywhere in the cache, and no hardware prefetcher
// finds them. Every element is accumulated in the reference's order, so the bits are the reference's.

#ifndef QSA_KERNELS_ATTEND_ATTEND_SIMD_H
#define QSA_KERNELS_ATTEND_ATTEND_SIMD_H

#include "kernels/kernels.h"
#include "kernels/simd/simd.h"

enum { SLICE = 32, FOLD = 8 };

typedef struct tile {
    // + 16: rows 4096 bytes apart would alias in the store buffer
    _Alignas(64) float k[QSA_DOT_CELLS][QSA_MAX_HEAD_DIM + 16];
    _Alignas(64) float q[QSA_DOT_HEADS * QSA_MAX_HEAD_DIM]; // padded queries
    _Alignas(64) float v[QSA_CHUNK][SLICE];
    _Alignas(64) float o[12][SLICE];                       // sums of some heads before they go to the records
    _Alignas(64) float s[QSA_MAX_HEADS_PER_KV][QSA_CHUNK]; // logits, then exponentials
    _Alignas(64) float part[QSA_MAX_HEADS_PER_KV][FOLD][8];
    const unsigned char *v_row[QSA_CHUNK];
    float v_scale[QSA_CHUNK]; // of the group being decoded
    size_t row_bytes;
    size_t groups;
} tile;

QSA_INLINE void prefetch_row(const tile *t, const void *rows, const uint16_t *scales, size_t row) {
    const unsigned char *at = (const unsigned char *)rows + row * t->row_bytes;
    for (size_t i = 0; i < t->row_bytes; i += 64)
        QSA_PREFETCH(at + i);
    if (scales)
        QSA_PREFETCH(scales + row * t->groups);
}

// part[h][c] = the 8 lanes, folded from 16, of q_h . k_c for a constant number of heads and the tile's cells.
QSA_INLINE void dot_tile(tile *t, const float *q, int64_t q_stride, int32_t padded, int32_t first, const int heads,
                         int32_t cell) {
    vreg sum[QSA_DOT_HEADS][QSA_DOT_CELLS][QSA_REGS];
    for (int h = 0; h < heads; h++)
        for (int c = 0; c < QSA_DOT_CELLS; c++)
            for (int r = 0; r < QSA_REGS; r++)
                sum[h][c][r] = vreg_zero();
    for (int32_t d = 0; d < padded; d += 16)
        for (int r = 0; r < QSA_REGS; r++) {
            vreg k[QSA_DOT_CELLS];
            for (int c = 0; c < QSA_DOT_CELLS; c++)
                k[c] = vreg_hold(vreg_load(t->k[c] + d + r * QSA_REG_LANES));
            for (int h = 0; h < heads; h++) {
                const vreg x = vreg_hold(vreg_load(q + h * q_stride + d + r * QSA_REG_LANES));
                for (int c = 0; c < QSA_DOT_CELLS; c++)
                    sum[h][c][r] = vreg_fma(x, k[c], sum[h][c][r]);
            }
        }
    for (int h = 0; h < heads; h++)
        for (int c = 0; c < QSA_DOT_CELLS; c++)
            v16_store_half(t->part[first + h][cell + c], v16_halve(v16_of_regs(sum[h][c])));
}

// Queries of some heads with zeros behind them up to a multiple of 16. Made anew for every tile of cells: only geometries
// whose head_dim is no multiple of 16 pay for it.
static __attribute__((noinline)) void pad_queries(float *out, const float *q, int32_t heads, int32_t dim,
                                                  int32_t padded) {
    for (int32_t h = 0; h < heads; h++)
        for (int32_t d = 0; d < padded; d++)
            out[(int64_t)h * padded + d] = d < dim ? q[(int64_t)h * dim + d] : 0.0f;
}

QSA_INLINE void dot_heads(tile *t, const qsa_attend_args *args, int32_t first, const int heads, int32_t cell) {
    const int32_t dim = args->dim, padded = (dim + 15) / 16 * 16;
    const float *q = args->q + (int64_t)first * dim;
    if (padded == dim) {
        dot_tile(t, q, dim, padded, first, heads, cell);
        return;
    }
    pad_queries(t->q, q, heads, dim, padded);
    dot_tile(t, t->q, padded, padded, first, heads, cell);
}

// Logits of the chunk, FOLD cells at a time. Cells behind the last stand for themselves again; softmax replaces them.
QSA_INLINE void logits(tile *t, const qsa_attend_args *args, qsa_type format, const int32_t *cells, int32_t count) {
    for (int32_t first = 0; first < count; first += FOLD) {
        for (int32_t cell = 0; cell < FOLD && first + cell < count; cell += QSA_DOT_CELLS) {
            for (int c = 0; c < QSA_DOT_CELLS; c++) {
                const size_t row = (size_t)cells[first + cell + c < count ? first + cell + c : count - 1];
                prefetch_row(t, args->v, args->v_scales, row);
                v16_decode_row(t->k[c], (const unsigned char *)args->k + row * t->row_bytes,
                               format == QSA_I8 ? args->k_scales + row * t->groups : NULL, format, args->dim);
            }
            int32_t h = 0;
            for (; h + QSA_DOT_HEADS <= args->heads; h += QSA_DOT_HEADS)
                dot_heads(t, args, h, QSA_DOT_HEADS, cell);
            for (; h + 2 <= args->heads; h += 2)
                dot_heads(t, args, h, 2, cell);
            if (h < args->heads)
                dot_heads(t, args, h, 1, cell);
        }
        for (int32_t h = 0; h < args->heads; h++)
            v16_fold8((const float(*)[8])t->part[h], args->scale, t->s[h] + first);
    }
}

QSA_INLINE void softmax(float s[QSA_CHUNK], int32_t count, float *m, float *l) {
    for (int32_t c = count; c < QSA_CHUNK; c++)
        s[c] = -qsa_infinity();
    v16 maximum = v16_set(-qsa_infinity());
    int nan = 0;
    for (int32_t c = 0; c < QSA_CHUNK; c += 16) {
        const v16 x = v16_load(s + c);
        nan |= v16_unordered(x);
        maximum = v16_max(x, maximum);
    }
    *m = nan ? qsa_nan() : v16_fold_max(maximum);
    v16 sum = v16_zero();
    const v16 base = v16_set(*m);
    for (int32_t c = 0; c < QSA_CHUNK; c += 16) {
        v16 p = v16_exp(v16_sub(v16_load(s + c), base));
        v16_store(s + c, p);
        if (c + 16 > count) { // lanes behind the last cell add +0, also where m is not finite
            for (int32_t i = count > c ? count : c; i < c + 16; i++)
                s[i] = 0.0f;
            p = v16_load(s + c);
        }
        sum = v16_add(sum, p);
    }
    *l = qsa_canonical(v16_fold(sum));
}

// O of a fixed number of heads from `at` of the slice on, into t->o: chains over the cells, 16 dims in `low`, 16 more in
// `high`. Accumulators are named one by one: the compiler would keep an array of them in memory.
// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are lists of statements and names.
#define QSA_DECLARE_1(h) v16 low##h = v16_zero();
#define QSA_STEP_1(h)    low##h = v16_fma(v16_set(p[h * QSA_CHUNK + c]), a, low##h);
#define QSA_FINISH_1(h)  v16_store(t->o[h], low##h);
#define QSA_DECLARE_2(h) v16 low##h = v16_zero(), high##h = low##h;
#define QSA_STEP_2(h)                                                                                                  \
    {                                                                                                                  \
        const v16 x = v16_hold(v16_set(p[h * QSA_CHUNK + c]));                                                         \
        low##h = v16_fma(x, a, low##h);                                                                                \
        high##h = v16_fma(x, b, high##h);                                                                              \
    }
#define QSA_FINISH_2(h)                                                                                                \
    v16_store(t->o[h], low##h);                                                                                        \
    v16_store(t->o[h] + 16, high##h);
#define QSA_ONE(X)    X(0)
#define QSA_TWO(X)    X(0) X(1)
#define QSA_SIX(X)    QSA_TWO(X) X(2) X(3) X(4) X(5)
#define QSA_TWELVE(X) QSA_SIX(X) X(6) X(7) X(8) X(9) X(10) X(11)
#define QSA_ACCUMULATE(name, heads, vectors)                                                                           \
    static void name(tile *t, int32_t first, int32_t at, int32_t count) {                                              \
        const float *p = t->s[first];                                                                                  \
        heads(QSA_DECLARE_##vectors) for (int32_t c = 0; c < count; c++) {                                             \
            const v16 a = v16_load(&t->v[c][at]), b = v16_load(&t->v[c][vectors == 2 ? 16 : at]);                      \
            (void)b;                                                                                                   \
            heads(QSA_STEP_##vectors)                                                                                  \
        }                                                                                                              \
        heads(QSA_FINISH_##vectors)                                                                                    \
    }

#if QSA_PV_SMALL
enum { PV_DIMS = 16, PV_HEADS = 6 };
QSA_ACCUMULATE(accumulate6, QSA_SIX, 1)
QSA_ACCUMULATE(accumulate2, QSA_TWO, 1)
QSA_ACCUMULATE(accumulate1, QSA_ONE, 1)
#else
enum { PV_DIMS = 32, PV_HEADS = 12 };
QSA_ACCUMULATE(accumulate12, QSA_TWELVE, 2)
QSA_ACCUMULATE(accumulate6, QSA_SIX, 2)
QSA_ACCUMULATE(accumulate2, QSA_TWO, 2)
QSA_ACCUMULATE(accumulate1, QSA_ONE, 2)
#endif

// NOLINTEND(bugprone-macro-parentheses)

// From t->o to the records of `heads` heads, `dims` dims at most PV_DIMS.
QSA_INLINE void store_outputs(const tile *t, float *out, int64_t stride, int32_t heads, int32_t dims) {
    for (int32_t h = 0; h < heads; h++)
        for (int32_t i = 0; i < PV_DIMS && i < dims; i += 16) {
            const v16 value = v16_canonical(v16_load(t->o[h] + i));
            if (dims - i >= 16)
                v16_store(out + h * stride + i, value);
            else
                v16_store_n(out + h * stride + i, value, dims - i);
        }
}

QSA_INLINE void accumulate(tile *t, const qsa_attend_args *args, float *out, int32_t at, int32_t dims, int32_t count) {
    const int64_t stride = 2 + args->dim;
    for (int32_t h = 0, done; h < args->heads; h += done) {
        const int32_t left = args->heads - h;
        done = left >= PV_HEADS ? PV_HEADS : left >= 6 ? 6 : left >= 2 ? 2 : 1;
        switch (done) {
#if !QSA_PV_SMALL
        case 12:
            accumulate12(t, h, at, count);
            break;
#endif
        case 6:
            accumulate6(t, h, at, count);
            break;
        case 2:
            accumulate2(t, h, at, count);
            break;
        default:
            accumulate1(t, h, at, count);
            break;
        }
        store_outputs(t, out + h * stride, stride, done, dims);
    }
}

// SLICE dims of V from d on, decoded for all cells of the chunk; zeros behind the last dim.
QSA_INLINE void decode_slice(tile *t, const qsa_attend_args *args, qsa_type format, const int32_t *cells, int32_t count,
                             int32_t d) {
    if (format == QSA_I8 && d % QSA_GROUP == 0)
        for (int32_t c = 0; c < count; c++)
            t->v_scale[c] = qsa_half_to_float(args->v_scales[(size_t)cells[c] * t->groups + (size_t)(d / QSA_GROUP)]);
    const int32_t dims = args->dim - d;
    if (dims >= SLICE) {
        for (int32_t c = 0; c < count; c++) {
            const v16 scale = v16_set(format == QSA_I8 ? t->v_scale[c] : 0.0f);
            v16_store(t->v[c], v16_decode(t->v_row[c], format, d, scale));
            v16_store(t->v[c] + 16, v16_decode(t->v_row[c], format, d + 16, scale));
        }
        return;
    }
    for (int32_t c = 0; c < count; c++) {
        const uint16_t *scales = format == QSA_I8 ? args->v_scales + (size_t)cells[c] * t->groups : NULL;
        for (int32_t i = 0; i < dims; i += 16)
            v16_decode_tail(t->v[c] + i, t->v_row[c], scales, format, d + i, args->dim);
        if (dims <= 16)
            v16_store(t->v[c] + 16, v16_zero());
    }
}

QSA_INLINE void outputs(tile *t, const qsa_attend_args *args, qsa_type format, const int32_t *cells, int32_t count,
                        int32_t ahead, float *records) {
    const int32_t slices = (args->dim + SLICE - 1) / SLICE, each = (ahead + slices - 1) / slices;
    for (int32_t c = 0; c < count; c++)
        t->v_row[c] = (const unsigned char *)args->v + (size_t)cells[c] * t->row_bytes;
    for (int32_t d = 0; d < args->dim; d += SLICE) {
        // The next chunk's keys, a few rows with every slice of this chunk's values.
        for (int32_t c = d / SLICE * each; c < (d / SLICE + 1) * each && c < ahead; c++)
            prefetch_row(t, args->k, args->k_scales, (size_t)cells[count + c]);
        decode_slice(t, args, format, cells, count, d);
        for (int32_t at = 0; at < SLICE && d + at < args->dim; at += PV_DIMS)
            accumulate(t, args, records + 2 + d + at, at, args->dim - d - at, count);
    }
}

QSA_INLINE void attend_format(const qsa_attend_args *args, qsa_type format) {
    tile t;
    const int32_t dim = args->dim;
    t.row_bytes = (size_t)dim * qsa_type_size(format);
    t.groups = ((size_t)dim + QSA_GROUP - 1) / QSA_GROUP;
    memset(t.part, 0, (size_t)args->heads * sizeof t.part[0]); // a last fold may be partly filled
    float *records = args->records;
    for (int32_t first = 0; first < args->count; first += QSA_CHUNK, records += args->chunk_stride) {
        const int32_t rest = args->count - first, count = rest < QSA_CHUNK ? rest : QSA_CHUNK;
        const int32_t ahead = rest - count < QSA_CHUNK ? rest - count : QSA_CHUNK;
        logits(&t, args, format, args->cells + first, count);
        for (int32_t h = 0; h < args->heads; h++)
            softmax(t.s[h], count, &records[(int64_t)h * (2 + dim)], &records[(int64_t)h * (2 + dim) + 1]);
        outputs(&t, args, format, args->cells + first, count, ahead, records);
    }
}

// One body per cache format, so that decoding is chosen once per call.
QSA_INLINE void attend_simd(const qsa_attend_args *args) {
    switch (args->format) {
    case QSA_F32:
        attend_format(args, QSA_F32);
        break;
    case QSA_F16:
        attend_format(args, QSA_F16);
        break;
    case QSA_BF16:
        attend_format(args, QSA_BF16);
        break;
    case QSA_I8:
        attend_format(args, QSA_I8);
        break;
    }
}

#endif
