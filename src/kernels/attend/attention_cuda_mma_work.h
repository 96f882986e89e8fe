// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the fast CUDA attention share: which cells a row has, its queries as two planes of operands, the
// combination of records, the output with its gate.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WORK_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WORK_H

#include "kernels/attend/mma_cuda.h"
#include "kernels/cuda_args.h"
#include "num/load.h"

#define QSA_DIM       256      // head_dim of these kernels: four warps, each with one group of 64 dims of V
#define QSA_TILE      64       // cells of a tile, which is a record
#define QSA_QUADS     16       // a tile's cells come in fours that are neighbours in memory
#define QSA_PLANE_MAX 32639.0f // 127 * 256 + 127: the largest query in two planes of signed bytes

enum { QSA_FORM_I8, QSA_FORM_F16, QSA_FORM_BF16 };

// Four cells in a row of the cache: the row number of the first, and how many of them are selected (the lowest ones).
typedef struct qsa_quad {
    int32_t row, valid;
} qsa_quad;

typedef struct qsa_work {
    int32_t cells, blocks, count, cut, cut_cells, quads, tiles;
    const int32_t *table, *ids; // ids null: the blocks in order
} qsa_work;

// May a row of the batch have ids at all?
QSA_DEVICE bool qsa_may_select(const qsa_cuda_attention_args &a) {
    return a.most_cells > a.cache.geometry.budget + a.cache.geometry.ratio - 1 && a.selection.ids && a.selection.counts;
}

QSA_DEVICE qsa_work qsa_work_of(const qsa_cuda_attention_args &a, int32_t r) {
    const qsa_geometry &g = a.cache.geometry;
    const qsa_cuda_row &row = a.rows[r];
    qsa_work w;
    w.cells = row.cells;
    w.blocks = w.cells / g.ratio;
    w.table = a.cache.tables + (int64_t)row.sequence * a.cache.table_pages;
    // Read whether or not they count, so that nothing waits for the row.
    int32_t count = 0, cut = -1, cut_cells = 0;
    if (qsa_may_select(a)) {
        count = a.selection.counts[r];
        if (a.selection.cut_index)
            cut = a.selection.cut_index[r], cut_cells = a.selection.cut_cells[r];
    }
    w.ids = w.cells <= g.budget + g.ratio - 1 ? 0 : a.selection.ids + r * a.selection.stride;
    w.count = w.ids ? min(max(count, 0), min(w.blocks, g.budget / g.ratio + 1)) : w.blocks;
    w.cut = w.ids ? cut : -1;
    w.cut_cells = w.cut >= 0 ? cut_cells : 0;
    w.quads = w.count * (g.ratio / 4) + (w.cells % g.ratio + 3) / 4;
    w.tiles = (w.quads + QSA_QUADS - 1) / QSA_QUADS;
    return w;
}

// Quad q of a row, for KV head `head`. What is not selected has valid 0 and names row 0, which is always there. selected: the
// id of its block, if the row has ids and the block is one of them.
QSA_DEVICE qsa_quad qsa_quad_with(const qsa_cuda_attention_args &a, const qsa_work &w, int32_t head, int32_t q,
                                  int32_t selected) {
    const int32_t ratio = a.cache.geometry.ratio, parts = ratio / 4, page_cells = a.cache.page_cells;
    qsa_quad quad = {0, 0};
    if (q >= w.quads)
        return quad;
    int32_t block = parts == 1 ? q : q / parts, cell, valid = 4;
    if (block < w.count) {
        const int32_t part = (q - block * parts) * 4, id = w.ids ? selected : block;
        if (id < 0 || id >= w.blocks)
            return quad;
        cell = id * ratio + part;
        if (block == w.cut)
            valid = min(max(w.cut_cells - part, 0), 4);
    } else {
        cell = w.blocks * ratio + (q - w.count * parts) * 4;
        valid = min(w.cells - cell, 4);
    }
    const int32_t page = cell / page_cells;
    quad.row = (w.table[page] * a.cache.geometry.kv_heads + head) * page_cells + (cell - page * page_cells);
    quad.valid = valid;
    return quad;
}

QSA_DEVICE qsa_quad qsa_quad_of(const qsa_cuda_attention_args &a, const qsa_work &w, int32_t head, int32_t q) {
    const int32_t block = q / (a.cache.geometry.ratio / 4);
    return qsa_quad_with(a, w, head, q, w.ids && block < w.count ? w.ids[block] : -1);
}

// Which head (of the NT * 4 that share a KV head) lane t has in column pair j of the logits, and which head row g + 8 of an
// output fragment is. Column 2t is the high plane, 2t + 1 the low plane, so one lane has both and adds them.
template <int NT> QSA_DEVICE int32_t qsa_head_of_column(int32_t j, int32_t t) {
    return NT == 3 && j == 2 ? 8 + t : 8 * (j / 2) + 2 * t + (j & 1);
}

template <int NT> QSA_DEVICE int32_t qsa_head_of_row(int32_t g) {
    return NT == 3 ? 8 + g / 2 : 8 + g;
}

// Writes the planes of one head's query where the fragments of the products with K take them; returns what a dot product
// is multiplied with to be a logit in powers of two. A query that is not finite returns NaN: the head's row is NaN.
// Called by a warp; lane i has dims 8i .. 8i + 7.
//
// QSA_QUERY_LANES: every lane loads 16 bytes of K in a row from memory. QSA_QUERY_DIMS: K's fragments come from shared memory by
// ldmatrix, in the order of the dims. QSA_QUERY_PANELS: as LANES, for products that take B from shared memory in panels of 128
// bytes a column (qsa_describe_rows). QSA_QUERY_STRAIGHT: such panels in the order of the dims.
enum { QSA_QUERY_LANES, QSA_QUERY_DIMS, QSA_QUERY_PANELS, QSA_QUERY_STRAIGHT };

template <int FORM, int ORDER>
QSA_DEVICE float qsa_put_query(char *planes, float4 low, float4 high, int32_t column_pair, int32_t slot, int32_t lane,
                               int32_t panel_bytes = 0) {
    float x[8];
    uint32_t most = 0; // bits of positive floats are in their order, what is not finite above
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w, x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    for (int i = 0; i < 8; i++)
        most = max(most, qsa_bits_of_f32(x[i]) & 0x7fffffffu);
    most = qsa_reduce_max(most);
    const float largest = qsa_f32_of_bits(most), bad = most < 0x7f800000u ? 0.0f : qsa_f32_of_bits(0x7fc00000u);
    const float unit = 1.44269504f / 16.0f; // log2(e) / sqrt(QSA_DIM)
    if (FORM == QSA_FORM_I8) {
        // |q| below 2^-100 makes logits below any float32 rounding of 0; its planes would divide by a subnormal.
        const float scale = largest > 0x1p-100f ? QSA_PLANE_MAX / largest : 0.0f;
        uint32_t hi[2] = {0, 0}, lo[2] = {0, 0};
        for (int i = 0; i < 8; i++) {
            const int32_t v = bad == 0.0f ? (int32_t)rintf(x[i] * scale) : 0, h = (v + 128) >> 8;
            hi[i / 4] |= (uint32_t)(h & 255) << (8 * (i % 4));
            lo[i / 4] |= (uint32_t)((v - 256 * h) & 255) << (8 * (i % 4));
        }
        if (ORDER == QSA_QUERY_STRAIGHT) {
            const int32_t column = 8 * column_pair + 2 * slot, piece = lane / 2 % 8;
            char *at = planes + lane / 16 * panel_bytes + column * 128 + (lane & 1) * 8;
            *(uint2 *)(at + (piece ^ (column & 7)) * 16) = make_uint2(hi[0], hi[1]);
            *(uint2 *)(at + 128 + (piece ^ ((column + 1) & 7)) * 16) = make_uint2(lo[0], lo[1]);
            return largest / QSA_PLANE_MAX * unit + bad;
        }
        if (ORDER == QSA_QUERY_PANELS) {
            const int32_t column = 8 * column_pair + 2 * slot, piece = lane / 8 % 2 * 4 + (lane & 1) * 2;
            char *at = planes + lane / 16 * panel_bytes + column * 128 + lane / 2 % 4 * 4;
            for (int h = 0; h < 2; h++) {
                *(uint32_t *)(at + ((piece + h) ^ (column & 7)) * 16) = hi[h];
                *(uint32_t *)(at + 128 + ((piece + h) ^ ((column + 1) & 7)) * 16) = lo[h];
            }
            return largest / QSA_PLANE_MAX * unit + bad;
        }
        if (ORDER == QSA_QUERY_DIMS) { // lane (2 slot + plane, t) has dims 4t .. 4t + 3 of each 16 of the group
            char *at =
                planes + (column_pair * 4 + lane / 8) * 512 + (8 * slot + (lane & 1) * 2) * 16 + lane / 2 % 4 * 4;
            *(uint32_t *)at = hi[0], *(uint32_t *)(at + 16) = hi[1];
            *(uint32_t *)(at + 64) = lo[0], *(uint32_t *)(at + 80) = lo[1];
            return largest / QSA_PLANE_MAX * unit + bad;
        }
        // Fragment of (pair, group): lane (2 slot + plane, t) has dims 16t .. 16t + 15 of the group.
        char *at = planes + (column_pair * 4 + lane / 8) * 512 + (8 * slot + lane / 2 % 4) * 16 + (lane & 1) * 8;
        *(uint2 *)at = make_uint2(hi[0], hi[1]);
        *(uint2 *)(at + 64) = make_uint2(lo[0], lo[1]);
        return largest / QSA_PLANE_MAX * unit + bad;
    }
    // Two planes of halves or bf16, at a power of two below 2^9 so that neither leaves its range.
    const int32_t exponent = (int32_t)(qsa_bits_of_f32(largest) >> 23) - 127 - 8;
    const float down = bad == 0.0f && exponent > -118 ? qsa_f32_of_bits((uint32_t)(127 - exponent) << 23) : 0.0f;
    uint32_t hi[4], lo[4];
    for (int i = 0; i < 4; i++) {
        const float u = x[2 * i] * down, v = x[2 * i + 1] * down;
        if (FORM == QSA_FORM_F16) {
            hi[i] = qsa_pack_f16(u, v);
            const float2 back = qsa_unpack_f16(hi[i]);
            lo[i] = qsa_pack_f16(u - back.x, v - back.y);
        } else {
            hi[i] = qsa_pack_bf16(u, v);
            lo[i] = qsa_pack_bf16(u - qsa_f32_of_bits(hi[i] << 16), v - qsa_f32_of_bits(hi[i] & 0xffff0000u));
        }
    }
    // Fragment of (pair, 32 dims): lane (2 slot + plane, t) has dims 8t .. 8t + 7 of them.
    char *at = planes + (column_pair * 8 + lane / 4) * 512 + (8 * slot + lane % 4) * 16;
    *(uint4 *)at = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    *(uint4 *)(at + 64) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    return (down > 0.0f ? unit / down : 0.0f) + bad;
}

template <int FORM, int ORDER>
QSA_DEVICE float qsa_put_query(char *planes, const float *q, int32_t column_pair, int32_t slot, int32_t lane,
                               int32_t panel_bytes = 0) {
    return qsa_put_query<FORM, ORDER>(planes, ((const float4 *)q)[2 * lane], ((const float4 *)q)[2 * lane + 1],
                                      column_pair, slot, lane, panel_bytes);
}

// The running maximum and the factors of both sides when a record joins. Equal maxima need no exponential, -inf included.
QSA_DEVICE void qsa_join(float *maximum, float m, float *old_factor, float *new_factor) {
    const float joined = fmaxf(*maximum, m);
    *old_factor = *maximum == joined ? 1.0f : qsa_exp2(*maximum - joined);
    *new_factor = m == joined ? 1.0f : qsa_exp2(m - joined);
    *maximum = joined;
}

// Elements first .. first + N - 1 of a vector of any type, at any alignment. N is a multiple of 8, or 1.
template <int N> QSA_DEVICE void qsa_load_some(float *x, const char *vector, qsa_type type, int32_t first) {
    const char *p = vector + (int64_t)first * (type == QSA_F32 ? 4 : 2);
    if (N % 8 || ((uintptr_t)p & 15)) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = qsa_load(p, type, i);
    } else if (type == QSA_F32) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 v = *(const float4 *)(p + 4 * i);
            x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            const uint4 v = *(const uint4 *)(p + 2 * i);
            const uint32_t u[4] = {v.x, v.y, v.z, v.w};
            for (int k = 0; k < 4; k++) {
                const float2 f = type == QSA_F16
                                     ? qsa_unpack_f16(u[k])
                                     : make_float2(qsa_f32_of_bits(u[k] << 16), qsa_f32_of_bits(u[k] & 0xffff0000u));
                x[i + 2 * k] = f.x, x[i + 2 * k + 1] = f.y;
            }
        }
    }
}

// The conversion makes NaN 7fff; stored are 7e00 and 7fc0 (docs/numerics.md).
QSA_DEVICE uint32_t qsa_pack_canonical(qsa_type type, float a, float b) {
    uint32_t u = type == QSA_F16 ? qsa_pack_f16(a, b) : qsa_pack_bf16(a, b);
    const uint32_t nan = type == QSA_F16 ? 0x7e00u : 0x7fc0u;
    u = a == a ? u : (u & 0xffff0000u) | nan;
    return b == b ? u : (u & 0xffffu) | nan << 16;
}

template <int N> QSA_DEVICE void qsa_store_some(char *vector, qsa_type type, int32_t first, const float *x) {
    char *p = vector + (int64_t)first * (type == QSA_F32 ? 4 : 2);
    if (N % 8 || ((uintptr_t)p & 15)) {
#pragma unroll
        for (int i = 0; i < N; i++)
            qsa_put(p, type, i, x[i]);
    } else if (type == QSA_F32) {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            *(float4 *)(p + 4 * i) = make_float4(qsa_canonical(x[i]), qsa_canonical(x[i + 1]), qsa_canonical(x[i + 2]),
                                                 qsa_canonical(x[i + 3]));
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            uint32_t u[4];
            for (int k = 0; k < 4; k++)
                u[k] = qsa_pack_canonical(type, x[i + 2 * k], x[i + 2 * k + 1]);
            *(uint4 *)(p + 2 * i) = make_uint4(u[0], u[1], u[2], u[3]);
        }
    }
}

template <int N>
QSA_DEVICE void qsa_load_gate(float *gate, const qsa_cuda_attention_args &a, int32_t r, int32_t head, int32_t first) {
    if (a.gate.data)
        qsa_load_some<N>(gate, (const char *)a.gate.data + r * a.gate.row_stride + head * a.gate.head_stride,
                         a.gate.type, first);
}

// o = accumulators / sum * sigmoid(gate) of dims first .. first + N - 1 of a head of row r. A row without cells is zeros.
template <int N>
QSA_DEVICE void qsa_finish(const qsa_cuda_attention_args &a, int32_t r, int32_t head, int32_t first, float *o,
                           float sum, const float *gate) {
    const float over = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int i = 0; i < N; i++)
        o[i] = sum == 0.0f ? 0.0f : o[i] * over;
    if (a.gate.data) {
        for (int i = 0; i < N; i++)
            o[i] = o[i] / (1.0f + qsa_exp2(gate[i] * -1.44269504f));
    }
    qsa_store_some<N>((char *)a.out.data + r * a.out.row_stride + head * a.out.head_stride, a.out.type, first, o);
}

template <int N>
QSA_DEVICE void qsa_finish(const qsa_cuda_attention_args &a, int32_t r, int32_t head, int32_t first, float *o,
                           float sum) {
    float gate[N];
    qsa_load_gate<N>(gate, a, r, head, first);
    qsa_finish<N>(a, r, head, first, o, sum, gate);
}

QSA_DEVICE float qsa_lse(float maximum, float sum) {
    return sum == 0.0f ? -qsa_infinity() : qsa_canonical((maximum + log2f(sum)) * 0.693147181f);
}

#endif
