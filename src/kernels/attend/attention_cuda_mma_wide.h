// SPDX-License-Identifier: Apache-2.0
//
// Fast attention of one row and one KV head by a warpgroup (sm_90a, i8 caches): the arithmetic of attention_cuda_mma_row.h with
// products that run behind the warps' backs.
//
//   QK   K's codes go from memory into the registers that are operand A; B is the query's two planes in shared memory
//   PV   transposed, so that a block of 64 output rows is a group of 64 dims with one scale a cell: A is V's codes, from
//        shared memory by transposing loads (a pair of dims is 16 bits), made halves in registers; B is P times the scales
//
// Records of tiles join in ascending order to records of segments, and these in ascending order to the row. A CTA walks a row,
// or a segment, or has one tile, and a second kernel joins what is left: the same bits, so the choice may depend on the batch.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_H

#include "kernels/attend/attention_cuda_mma_row.h" // qsa_centre
#include "kernels/attend/wgmma_cuda.h"

#ifndef QSA_WIDE_CTAS
#define QSA_WIDE_CTAS 3 // CTAs per SM that the registers are bounded for
#endif

#ifndef QSA_SEGMENT
#define QSA_SEGMENT 11
#endif

#define QSA_WIDE_PITCH 260 // floats from head to head of a record in shared memory

template <int NT> struct qsa_wide_shared {
    char planes[2][NT * 1024];   // the query, per 128 dims
    uint4 v[2][QSA_TILE][16];    // codes; piece j of cell c lies at j ^ qsa_wide_turn(c)
    uint4 p[4][4][2][16];        // [group of dims][16 cells][heads 0-7, 8-15][cell]: 8 heads
    float m[2][16][4], l[16][4]; // [head][warp]; m by parity of the tile
    uint32_t largest_scale[4];
    float unit[16];
};

template <int NT> struct qsa_wide_record {
    float2 ml[16]; // maximum and sum of each head
    float o[4 * NT][QSA_WIDE_PITCH];
};

// The 8 cells that a transposing load reads at once are 0, 1, 4, 5, 8, 9, 12, 13 (+ 2) of 16: they lie in different banks.
QSA_DEVICE int32_t qsa_wide_turn(int32_t cell) {
    return (cell & 1) | (cell >> 1 & 6);
}

// Lane (g, t)'s heads: NT of them, of the logits' column pairs and of the outputs' columns alike.
template <int NT> QSA_DEVICE int32_t qsa_wide_head(int32_t j, int32_t t) {
    return NT == 3 && j == 2 ? 8 + t : 8 * (j / 2) + 2 * t + (j & 1);
}

struct qsa_wide_loads { // the warp's 16 cells of K, and both scales of its lanes' cells (g & 1) and + 2 of quad g / 2
    uint4 k[2][4];
    uint2 k_scale[2], v_scale[2];
};

QSA_DEVICE void qsa_wide_load_k(qsa_wide_loads &f, const qsa_cuda_cache &c, qsa_quad quad, int32_t lane) {
    const int64_t row = quad.row + (lane >> 2 & 1);
    const char *k = (const char *)c.k + row * QSA_DIM + lane % 4 * 16;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int group = 0; group < 4; group++)
            f.k[i][group] = qsa_gather16(k + i * 2 * QSA_DIM + group * 64);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        // Scales of what is not selected may be anything, NaN included: +0 takes their place.
        const bool valid = (lane >> 2 & 1) + 2 * i < quad.valid;
        const uint2 ks = qsa_gather8(c.k_scales + (row + 2 * i) * 4), vs = qsa_gather8(c.v_scales + (row + 2 * i) * 4);
        f.k_scale[i] = make_uint2(valid ? ks.x : 0, valid ? ks.y : 0);
        f.v_scale[i] = make_uint2(valid ? vs.x : 0, valid ? vs.y : 0);
    }
}

// `from` is the thread's piece of row 0 of V, and its cell of each quad: c.v + thread % 16 * 16 + thread / 16 % 4 * QSA_DIM.
// rows: of quads thread / 64, + 2, ...
QSA_DEVICE void qsa_wide_fetch_v(uint4 v[QSA_TILE][16], const char *from, const int32_t rows[8], int32_t thread) {
    const int32_t cell = thread / 16, piece = (thread % 16) ^ qsa_wide_turn(cell);
    uint4 *even = &v[cell][piece], *odd = &v[cell][piece ^ 4]; // 8 cells further the turn is another by 4
#pragma unroll
    for (int i = 0; i < 8; i++)
        qsa_copy16((i & 1 ? odd : even) + i * 8 * 16, from + (int64_t)rows[i] * QSA_DIM);
    qsa_copy_commit();
}

// Logits in powers of two: s[j][i] of the lane's cell i and head j.
template <int NT>
QSA_DEVICE void qsa_wide_qk(float s[NT][2], const qsa_wide_loads &f, uint64_t planes, const float unit[NT]) {
    int32_t c[4][4 * NT];
    qsa_wgmma_fence();
#pragma unroll
    for (int group = 0; group < 4; group++) {
        const uint4 x = f.k[0][group], y = f.k[1][group];
        const uint64_t b = planes + (group / 2 * NT * 1024 + group % 2 * 64) / 16;
        qsa_wgmma_s8(c[group], x.x, y.x, x.y, y.y, b, 0);
        qsa_wgmma_s8(c[group], x.z, y.z, x.w, y.w, b + 2, 1);
        qsa_wgmma_commit();
    }
#pragma unroll
    for (int group = 0; group < 4; group++) {
        if (group == 0)
            qsa_wgmma_wait<2>();
        if (group == 2)
            qsa_wgmma_wait<0>();
        qsa_wgmma_taken(c[group]);
        const float2 first = qsa_unpack_f16(group < 2 ? f.k_scale[0].x : f.k_scale[0].y),
                     second = qsa_unpack_f16(group < 2 ? f.k_scale[1].x : f.k_scale[1].y);
        const float scale[2] = {group & 1 ? first.y : first.x, group & 1 ? second.y : second.x};
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float dot = (float)(c[group][4 * j + 2 * i] * 256 + c[group][4 * j + 2 * i + 1]);
                s[j][i] = group ? fmaf(dot, scale[i], s[j][i]) : dot * scale[i];
            }
    }
#pragma unroll
    for (int j = 0; j < NT; j++)
        s[j][0] *= unit[j], s[j][1] *= unit[j];
}

// P of the warp's cells, times V's scale of each group and the tile's power of two, where the products take it.
template <int NT>
QSA_DEVICE void qsa_wide_put_p(qsa_wide_shared<NT> &shared, const float p[NT][2], const uint2 v_scale[2], float centre,
                               int32_t warp, int32_t lane) {
    uint32_t *at = (uint32_t *)&shared.p[0][warp][0][lane / 4] + lane % 4;
#pragma unroll
    for (int group = 0; group < 4; group++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float2 two = qsa_unpack_f16(group < 2 ? v_scale[i].x : v_scale[i].y);
            const float factor = (group & 1 ? two.y : two.x) * centre;
            uint32_t *to = at + group * 512 + i * 32; // [group], cell g + 8 i
            to[0] = qsa_pack_f16(p[0][i] * factor, p[1][i] * factor);
            to[64] = qsa_pack_f16(p[2][i] * factor, NT == 4 ? p[NT - 1][i] * factor : 0.0f);
        }
}

// part[group][..] = V^T P^T of a tile: rows are dims 64 group + 16 warp + 2g (and + 1 in the upper eight), columns heads.
template <int NT>
QSA_DEVICE void qsa_wide_pv(float (&part)[4][8], const qsa_wide_shared<NT> &shared, const uint4 v[QSA_TILE][16],
                            uint64_t p, int32_t warp, int32_t lane) {
    const int32_t j = lane & 7, cell = lane / 16 * 16 + 4 * (j >> 1) + (j & 1) + (lane >> 3 & 1) * 2;
    const char *row = (const char *)v + cell * QSA_DIM;
    uint32_t a[2][16];
#pragma unroll
    for (int group = 0; group < 4; group++) {
        const char *from = row + (((4 * group + warp) ^ j) << 4);
        uint32_t(&x)[16] = a[group & 1];
        if (group >= 2)
            qsa_wgmma_wait<1>(); // the product before the last has read its registers
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t codes[4];
            qsa_ldmatrix_trans(codes, from + half * 32 * QSA_DIM);
#pragma unroll
            for (int i = 0; i < 4; i++) { // 8 cells, two dims of each: exact halves as in qsa_halves_of_codes
                const uint32_t u = codes[i] ^ 0x80808080u;
                x[8 * half + 2 * i] = qsa_sub_f16(__byte_perm(u, 0x64646464u, 0x4240), 0x64806480u);
                x[8 * half + 2 * i + 1] = qsa_sub_f16(__byte_perm(u, 0x64646464u, 0x4341), 0x64806480u);
            }
        }
        qsa_wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            qsa_wgmma_f16(part[group], x[4 * step], x[4 * step + 1], x[4 * step + 2], x[4 * step + 3],
                          p + (group * 2048 + step * 512) / 16, step);
        qsa_wgmma_commit();
    }
    qsa_wgmma_wait<0>();
#pragma unroll
    for (int group = 0; group < 4; group++)
        qsa_wgmma_taken(part[group]);
}

// Dims 64 group + 16 warp + 2g and + 1 of the lane's head j in a fragment of the product with V.
QSA_DEVICE float2 qsa_wide_pair(const float c[8], int j) {
    return make_float2(c[j / 2 * 4 + (j & 1)], c[j / 2 * 4 + (j & 1) + 2]);
}

QSA_DEVICE void qsa_wide_rows(int32_t rows[8], const qsa_quad *quads, int32_t thread) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        rows[i] = quads[i * 2 + thread / 64].row;
}

// The row, or a segment of it, so far: maxima, sums and accumulators of the lane's heads.
template <int NT> struct qsa_wide_state {
    float m[NT], l[NT];
    float2 o[4][NT];
};

// A record (m, l, o) joins: the one formula of all joins.
QSA_DEVICE void qsa_wide_join(float *o, float x, float old_factor, float new_factor) {
    *o = fmaf(x, new_factor, *o * old_factor);
}

// Where a record lies in scratch: (m, l) of 16 heads, then accumulators.
QSA_DEVICE float *qsa_record_o(float *record, int32_t head) {
    return record + 32 + head * QSA_DIM;
}

template <int NT>
QSA_DEVICE void qsa_wide_store(float *record, const qsa_wide_state<NT> &state, int32_t warp, int32_t lane) {
    const int32_t g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int32_t head = qsa_wide_head<NT>(j, t);
        if (warp == 0 && g == 0)
            ((float2 *)record)[head] = make_float2(state.m[j], state.l[j]);
        float *to = qsa_record_o(record, head) + 16 * warp + 2 * g;
#pragma unroll
        for (int group = 0; group < 4; group++)
            *(float2 *)(to + 64 * group) = state.o[group][j];
    }
}

// The outputs of a row whose sums and accumulators lie in shared memory.
template <int NT>
QSA_DEVICE void qsa_wide_output(const qsa_cuda_attention_args &a, const qsa_wide_record<NT> &sums, int32_t r,
                                int32_t kv, int32_t heads) {
    const int32_t all = a.cache.geometry.heads;
    for (int32_t i = threadIdx.x; i < heads * (QSA_DIM / 8); i += 128) {
        const int32_t head = i / (QSA_DIM / 8), dim = i % (QSA_DIM / 8) * 8;
        const float4 low = *(const float4 *)&sums.o[head][dim], high = *(const float4 *)&sums.o[head][dim + 4];
        float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        qsa_finish<8>(a, r, kv * heads + head, dim, x, sums.ml[head].y);
    }
    if (a.lse && threadIdx.x < heads)
        a.lse[(int64_t)r * all + kv * heads + threadIdx.x] = qsa_lse(sums.ml[threadIdx.x].x, sums.ml[threadIdx.x].y);
}

#endif
