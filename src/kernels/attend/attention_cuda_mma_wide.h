// SPDX-License-Identifier: Apache-2.0
//
// Fast attention of one row and one KV head by a warpgroup (sm_90a, i8 caches): the arithmetic of attention_cuda_mma_row.h with
// products that run behind the warps' backs.
//
//   QK   K's codes go from memory into the registers that are operand A; B is the query's two planes in shared memory
//   PV   transposed, so that a block of 64 output rows is a group of 64 dims with one scale a cell: A is V's codes, from
//        shared memory by transposing loads (a pair of dims is 16 bits), made halves in registers; B is P times the scales
//
// CLUSTER: the CTAs of a cluster have a few tiles each, keep their records in shared memory, and each joins a slice of the dims
// of all records in ascending order: the bits of one CTA that walks all tiles, so the choice may depend on the batch.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_H

#include "kernels/attend/attention_cuda_mma_row.h" // qsa_centre
#include "kernels/attend/wgmma_cuda.h"

#ifndef QSA_WIDE_CTAS
#define QSA_WIDE_CTAS 3 // CTAs per SM that the registers are bounded for
#endif

#define QSA_WIDE_PITCH 260 // floats from head to head of a record in shared memory

template <int NT> struct qsa_wide_shared {
    char planes[2][NT * 1024];   // the query, per 128 dims
    uint4 v[2][QSA_TILE][16];    // codes; piece j of cell c lies at j ^ qsa_wide_turn(c)
    uint4 p[4][4][2][16];        // [group of dims][16 cells][heads 0-7, 8-15][cell]: 8 heads
    float m[2][16][4], l[16][4]; // [head][warp]; m by parity of the tile
    uint32_t largest_scale[4];
    float unit[16];
    qsa_quad quads[1];
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
QSA_DEVICE void qsa_wide_fetch_v(uint4 v[QSA_TILE][16], const char *from, const qsa_quad *quads, int32_t thread) {
    const int32_t cell = thread / 16, piece = (thread % 16) ^ qsa_wide_turn(cell);
    uint4 *even = &v[cell][piece], *odd = &v[cell][piece ^ 4]; // 8 cells further the turn is another by 4
#pragma unroll
    for (int i = 0; i < 8; i++)
        qsa_copy16((i & 1 ? odd : even) + i * 8 * 16, from + (int64_t)quads[i * 2 + thread / 64].row * QSA_DIM);
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

// This CTA's slice of the dims of all the cluster's records, `per` a CTA, joined. factors has room for heads * tiles.
template <int NT>
QSA_DEVICE void qsa_wide_join(const qsa_cuda_attention_args &a, const qsa_wide_record<NT> *records, float4 *factors,
                              int32_t tiles, int32_t per, int32_t r, int32_t kv, int32_t heads) {
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, all = a.cache.geometry.heads;
    float before[NT]; // the largest of the tiles before these 32, of heads warp, warp + 4, ...
    for (int j = 0; j < NT; j++)
        before[j] = -qsa_infinity();
    for (int32_t first = 0; first < tiles; first += 32) {
        const int32_t k = first + lane, owner = k / max(per, 1);
        float2 ml[NT];
#pragma unroll
        for (int j = 0; j < NT; j++)
            ml[j] = k < tiles
                        ? qsa_cluster_load2(qsa_cluster_address(&records[k - owner * per].ml[warp + 4 * j], owner))
                        : make_float2(-qsa_infinity(), 0.0f);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float most = ml[j].x; // of tiles up to k
            for (int lanes = 1; lanes < 32; lanes *= 2) {
                const float other = qsa_shuffle_up(most, lanes);
                most = lane >= lanes ? fmaxf(most, other) : most;
            }
            float running = qsa_shuffle_up(most, 1), old_factor, new_factor;
            running = lane ? fmaxf(before[j], running) : before[j];
            qsa_join(&running, ml[j].x, &old_factor, &new_factor);
            if (k < tiles)
                factors[(warp + 4 * j) * tiles + k] = make_float4(old_factor, new_factor, ml[j].y, running);
            before[j] = qsa_shuffle_from(running, 31);
        }
    }
    __syncthreads();
    const int32_t rank = qsa_cluster_rank(), pieces = QSA_DIM / 4 / qsa_cluster_size();
    for (int32_t i = thread; i < heads * pieces; i += 128) {
        const int32_t head = i / pieces, dim = (rank * pieces + i % pieces) * 4;
        const float4 *factor = factors + head * tiles;
        float o[4] = {}, l = 0.0f;
        for (int32_t first = 0; first < tiles; first += 12) {
            float4 x[12]; // on their way together
#pragma unroll
            for (int k = 0; k < 12; k++) {
                const int32_t tile = min(first + k, tiles - 1), owner = tile / per;
                x[k] = qsa_cluster_load4(qsa_cluster_address(&records[tile - owner * per].o[head][dim], owner));
            }
#pragma unroll
            for (int k = 0; k < 12; k++) {
                if (first + k >= tiles)
                    break;
                const float4 f = factor[first + k];
                l = fmaf(f.z, f.y, l * f.x);
                o[0] = fmaf(x[k].x, f.y, o[0] * f.x), o[1] = fmaf(x[k].y, f.y, o[1] * f.x);
                o[2] = fmaf(x[k].z, f.y, o[2] * f.x), o[3] = fmaf(x[k].w, f.y, o[3] * f.x);
            }
        }
        qsa_finish<4>(a, r, kv * heads + head, dim, o, l);
        if (a.lse && dim == 0)
            a.lse[(int64_t)r * all + kv * heads + head] = qsa_lse(tiles ? factor[tiles - 1].w : -qsa_infinity(), l);
    }
}

#endif
