// SPDX-License-Identifier: Apache-2.0
//
// The kernel of attention_cuda_mma_union.h.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_UNION_KERNEL_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_UNION_KERNEL_H

#include "kernels/attend/attention_cuda_mma_union.h"

// Codes of a step into shared memory, on their way when this returns. k, v: at the thread's cell of a quad and piece.
QSA_DEVICE void qsa_union_fetch(qsa_union_shared &shared, const char *k, const char *v, int32_t first, int32_t total) {
    const int32_t thread = threadIdx.x, cell = thread / 16, piece = thread % 16, step = first / QSA_QUADS & 1;
    char *to_k = shared.step.k[step][piece / 8] + cell * 128 + ((piece ^ cell) & 7) * 16;
    uint4 *to_v = &shared.step.v[step][cell][piece ^ (cell & 7)];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t at = (int64_t)shared.quads[min(first + i * 4 + thread / 64, total - 1)].row * QSA_DIM;
        qsa_copy16(to_k + i * 16 * 128, k + at);
        qsa_copy16(to_v + i * 16 * 16, v + at);
    }
    qsa_copy_commit();
}

// The scales of a cell for threads 0-63 (K) and 64-127 (V); +0 for what no row selects: its scales may be anything.
QSA_DEVICE uint2 qsa_union_scales(const qsa_union_shared &shared, const qsa_cuda_cache &c, int32_t first,
                                  int32_t total) {
    const int32_t cell = threadIdx.x % 64, q = first + cell / 4;
    if (threadIdx.x >= 128 || q >= total || !(shared.quads[q].mask & 0x11111111u << cell % 4))
        return make_uint2(0, 0);
    return qsa_gather8((threadIdx.x < 64 ? c.k_scales : c.v_scales) + ((int64_t)shared.quads[q].row + cell % 4) * 4);
}

// s[i][j][c]: row 4h + i, head j of the lane, cell 16 warp + g + 8 c. The products of two rows and 64 dims run while those
// before are taken.
QSA_DEVICE void qsa_union_qk(float s[4][3][2], const qsa_union_shared &shared, int32_t step, int32_t h, int32_t warp,
                             int32_t g) {
    const uint64_t k = qsa_describe_rows(qsa_shared_address(shared.step.k[step])),
                   q = qsa_describe_rows(qsa_shared_address(shared.step.planes) + h * (QSA_UNION_COLUMNS * 128));
    const uint2 first = shared.k_scales[16 * warp + g], second = shared.k_scales[16 * warp + g + 8];
    int32_t c[2][24];
#pragma unroll
    for (int unit = 0; unit <= 8; unit++) {
        if (unit < 8) {
            const int group = unit / 2;
            const uint64_t panel_k = k + (group / 2 * QSA_TILE * 128 + group % 2 * 64) / 16,
                           panel_q =
                               q + (group / 2 * QSA_UNION_COLUMNS * 256 + unit % 2 * 48 * 128 + group % 2 * 64) / 16;
            qsa_wgmma_fence();
            qsa_wgmma_s8(c[unit & 1], panel_k, panel_q, 0);
            qsa_wgmma_s8(c[unit & 1], panel_k + 2, panel_q + 2, 1);
            qsa_wgmma_commit();
        }
        if (unit == 0)
            continue;
        const int group = (unit - 1) / 2, half = (unit - 1) % 2;
        if (unit < 8)
            qsa_wgmma_wait<1>();
        else
            qsa_wgmma_wait<0>();
        qsa_wgmma_taken(c[half]);
        const float2 x = qsa_unpack_f16(group < 2 ? first.x : first.y),
                     y = qsa_unpack_f16(group < 2 ? second.x : second.y);
        const float scale[2] = {group & 1 ? x.y : x.x, group & 1 ? y.y : y.x};
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 3; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int n = (3 * i + j) * 4 + 2 * e;
                    const float dot = (float)(c[half][n] * 256 + c[half][n + 1]);
                    float &sum = s[2 * half + i][j][e];
                    sum = group ? fmaf(dot, scale[e], sum) : dot * scale[e];
                }
    }
}

// New references for P and the factors of what is summed so far; s are logits less the old ones. `seen`: rows that had a cell in
// the steps before. Two barriers.
QSA_DEVICE void qsa_union_raise(float s[4][3][2], float l[4][3], qsa_union_shared &shared, float carry, uint32_t seen,
                                int32_t h, int32_t warp, int32_t g, int32_t t) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            float most = fmaxf(s[i][j][0], s[i][j][1]);
            for (int mask = 4; mask < 32; mask *= 2)
                most = fmaxf(most, qsa_shuffle(most, mask));
            if (g == 0)
                shared.most[4 * h + warp][t][j][i] = most;
        }
    __syncthreads();
    float up[4][3];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const bool fresh = !(seen >> (4 * h + i) & 1); // nothing is relative to the old one yet
            float most = fresh ? -qsa_infinity() : 0.0f;
            for (int w = 0; w < 4; w++)
                most = fmaxf(most, shared.most[4 * h + w][t][j][i]);
            up[i][j] = most == -qsa_infinity() ? 0.0f : most;
            const float factor = fresh || up[i][j] == 0.0f ? 1.0f : qsa_exp2(-up[i][j]);
            s[i][j][0] -= up[i][j], s[i][j][1] -= up[i][j];
            l[i][j] *= factor;
            if (warp == 0 && g == 0)
                shared.factor[qsa_union_column(h, i, j, t)] = factor * carry;
        }
    __syncthreads();
    if (warp == 0 && g == 0)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 4; i++)
                shared.relative[qsa_head_of_column<3>(j, t)][4 * h + i] += up[i][j];
}

// P of the warp's cells, and sums of it.
QSA_DEVICE void qsa_union_put_p(float s[4][3][2], float l[4][3], qsa_union_shared &shared, int32_t h, int32_t warp,
                                int32_t g, int32_t t) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            s[i][j][0] = qsa_exp2(s[i][j][0] + QSA_UNION_HEAD), s[i][j][1] = qsa_exp2(s[i][j][1] + QSA_UNION_HEAD);
            l[i][j] += s[i][j][0] + s[i][j][1];
        }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        uint32_t *to = (uint32_t *)(shared.p[6 * h][2 * warp + e] + g * 16) + t;
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i * 256] = qsa_pack_f16(s[i][0][e], s[i][1][e]);
        to[4 * 256] = qsa_pack_f16(s[0][2][e], s[1][2][e]);
        to[5 * 256] = qsa_pack_f16(s[2][2][e], s[3][2][e]);
    }
}

// o[i] += V^T P^T of the warpgroup's two groups of dims: rows dims 16 warp + 2g (and + 1 in the upper eight).
QSA_DEVICE void qsa_union_pv(float (&o)[2][48], const qsa_union_shared &shared, int32_t step, int more, int32_t h,
                             int32_t warp, int32_t lane) {
    const uint64_t p = qsa_describe_blocks(qsa_shared_address(shared.p), 1024);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int32_t group = 2 * h + i;
        const char *from =
            (const char *)shared.step.v[step] + lane * QSA_DIM + (((4 * group + warp) ^ (lane & 7)) << 4);
        const uint32_t *scales = (const uint32_t *)shared.v_scales[group] + lane % 4;
        uint32_t x[16];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t codes[4];
            qsa_ldmatrix_trans(codes, from + half * 32 * QSA_DIM);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const uint32_t u = codes[k] ^ 0x80808080u, scale = scales[half * 16 + k * 4];
                x[8 * half + 2 * k] = qsa_mul_f16(qsa_sub_f16(__byte_perm(u, 0x64646464u, 0x4240), 0x64806480u), scale);
                x[8 * half + 2 * k + 1] =
                    qsa_mul_f16(qsa_sub_f16(__byte_perm(u, 0x64646464u, 0x4341), 0x64806480u), scale);
            }
        }
        qsa_wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
            qsa_wgmma_f16(o[i], x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3], p + k * 256 / 16, k || more);
        qsa_wgmma_commit();
    }
    qsa_wgmma_wait<0>();
    qsa_wgmma_taken(o[0]);
    qsa_wgmma_taken(o[1]);
}

QSA_DEVICE void qsa_union_scale(float (&o)[2][48], const qsa_union_shared &shared, int32_t t) {
#pragma unroll
    for (int n = 0; n < 12; n++) {
        const float2 factor = *(const float2 *)&shared.factor[8 * n + 2 * t];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            o[i][4 * n] *= factor.x, o[i][4 * n + 1] *= factor.y;
            o[i][4 * n + 2] *= factor.x, o[i][4 * n + 3] *= factor.y;
        }
    }
}

// Sums over lanes and warps, outputs and their logarithms. centre: the power of two that V's halves carry.
QSA_DEVICE void qsa_union_finish(const qsa_cuda_attention_args &a, qsa_union_shared &shared, float (&o)[2][48],
                                 float l[4][3], float centre, int32_t r, int32_t kv, int32_t *served) {
    const int32_t thread = threadIdx.x, h = thread / 128, warp = thread / 32 % 4, g = thread % 32 / 4, t = thread % 4;
    const int32_t kv_heads = a.cache.geometry.kv_heads, all = a.cache.geometry.heads, heads = all / kv_heads;
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 3; j++) {
            for (int mask = 4; mask < 32; mask *= 2)
                l[i][j] += qsa_shuffle(l[i][j], mask);
            if (g == 0)
                shared.l[(4 * h + i) * QSA_UNION_HEADS + qsa_head_of_column<3>(j, t)][warp] = l[i][j];
        }
    __syncthreads(); // and nobody reads a step's codes any more
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int n = 0; n < 12; n++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                *(float2 *)&shared.o[qsa_union_row(n, 2 * t + c) * QSA_UNION_HEADS + qsa_union_head(n, 2 * t + c)]
                                    [64 * (2 * h + i) + 16 * warp + 2 * g] =
                    make_float2(o[i][4 * n + c], o[i][4 * n + c + 2]);
    __syncthreads();
    const bool bad = shared.bad;
    if (bad && thread < QSA_UNION_ROWS)
        served[(r + thread) * kv_heads + kv] = 0;
    if (bad)
        return;
    const int32_t dim = thread % (QSA_DIM / 8) * 8;
    constexpr int together = 4; // gates on their way
    for (int32_t from = thread / (QSA_DIM / 8); from < QSA_UNION_COLUMNS; from += together * QSA_UNION_THREADS / 32) {
        float gate[together][8];
#pragma unroll
        for (int k = 0; k < together; k++) {
            const int32_t column = from + k * (QSA_UNION_THREADS / 32), head = column % QSA_UNION_HEADS;
            qsa_load_gate<8>(gate[k], a, r + column / QSA_UNION_HEADS, kv * heads + min(head, heads - 1), dim);
        }
#pragma unroll
        for (int k = 0; k < together; k++) {
            const int32_t column = from + k * (QSA_UNION_THREADS / 32), row = column / QSA_UNION_HEADS,
                          head = column % QSA_UNION_HEADS;
            if (head >= heads)
                continue;
            const float4 low = *(const float4 *)&shared.o[column][dim],
                         high = *(const float4 *)&shared.o[column][dim + 4];
            float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            const float4 four = *(const float4 *)shared.l[column];
            const float sum = (four.x + four.y) + (four.z + four.w);
            qsa_finish<8>(a, r + row, kv * heads + head, dim, x, sum * centre, gate[k]);
            if (a.lse && dim == 0)
                a.lse[(int64_t)(r + row) * all + kv * heads + head] =
                    qsa_lse(shared.relative[head][row] - QSA_UNION_HEAD, sum);
        }
    }
}

// The row among eight of the batch that leads a group to be served; there is at most one, as groups are of eight. -1: none.
QSA_DEVICE int32_t qsa_union_leader(const qsa_cuda_attention_args &a, int32_t first, int32_t kv,
                                    const int32_t *served) {
    const int32_t r = first + threadIdx.x % QSA_UNION_ROWS;
    const uint32_t leads = qsa_ballot(r < a.count && (a.rows[r].cells - 1) % QSA_UNION_ROWS == 0 &&
                                      served[r * a.cache.geometry.kv_heads + kv]);
    return leads ? first + qsa_popcount((leads & (0u - leads)) - 1) : -1;
}

QSA_KERNEL(QSA_UNION_THREADS, 1)
qsa_attend_union(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, int32_t *served) {
#if QSA_WGMMA
    QSA_SHARED;
    qsa_union_shared &shared = *(qsa_union_shared *)shared_bytes;
    const int32_t thread = threadIdx.x, lane = thread % 32, number = qsa_uniform(thread / 32), h = number / 4,
                  warp = number % 4, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = a.cache.geometry.kv_heads, heads = a.cache.geometry.heads / kv_heads;
    const int32_t block = gridDim.x - 1 - blockIdx.x, kv = block % kv_heads; // long rows first
    qsa_wait_dependency();
    qsa_trigger_dependents();
    const int32_t r = qsa_union_leader(a, block / kv_heads * QSA_UNION_ROWS, kv, served);
    if (r < 0)
        return;
    const int32_t total = qsa_union_list(shared, a, r, kv);
    if (total < 0) {
        if (thread < QSA_UNION_ROWS)
            served[(r + thread) * kv_heads + kv] = 0;
        return;
    }
    const char *k_from = (const char *)a.cache.k + thread / 16 % 4 * QSA_DIM + thread % 16 * 16,
               *v_from = (const char *)a.cache.v + thread / 16 % 4 * QSA_DIM + thread % 16 * 16;
    qsa_union_fetch(shared, k_from, v_from, 0, total);
    uint2 scales = qsa_union_scales(shared, a.cache, 0, total);
    for (int32_t j = 0; j < 3; j++) { // warp w its row w, four heads' queries on their way
        float4 query[4][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int32_t head = min(qsa_head_of_column<3>(j, i), heads - 1);
            const float4 *from =
                (const float4 *)(a.q + ((int64_t)(r + number) * a.cache.geometry.heads + kv * heads + head) * QSA_DIM) +
                2 * lane;
            query[i][0] = from[0], query[i][1] = from[1];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float unit =
                qsa_put_query<QSA_FORM_I8, QSA_QUERY_STRAIGHT>(shared.step.planes[0] + number * 24 * 128, query[i][0],
                                                               query[i][1], j, i, lane, QSA_UNION_COLUMNS * 256);
            if (lane == 0) {
                const int32_t head = qsa_head_of_column<3>(j, i);
                shared.unit[head][number] = unit, shared.relative[head][number] = 0.0f;
            }
        }
    }
    if (thread == 0)
        shared.bad = 0, shared.seen = 0;
    float o[2][48], l[4][3] = {}, centre = 0x1p100f;
#pragma unroll
    for (int i = 0; i < 48; i++)
        o[0][i] = o[1][i] = 0.0f;
    for (int32_t first = 0; first < total; first += QSA_QUADS) {
        const int32_t step = first / QSA_QUADS & 1;
        if (thread < 64)
            shared.k_scales[thread] = scales;
        const uint2 magnitude = make_uint2(scales.x & 0x7fff7fffu, scales.y & 0x7fff7fffu);
        uint32_t largest = qsa_max_u16(magnitude.x, magnitude.y);
        largest = qsa_reduce_max(max(largest & 0xffffu, largest >> 16));
        if (lane == 0 && thread < 128)
            shared.largest_scale[thread / 32] = largest;
        qsa_copy_wait();
        qsa_wgmma_publish(); // codes of K, and before the first step the queries
        __syncthreads();
        if (first + QSA_QUADS < total)
            qsa_union_fetch(shared, k_from, v_from, first + QSA_QUADS, total);
        const uint4 most = *(const uint4 *)shared.largest_scale;
        // The largest scale of V comes to 2^7 .. 2^8, codes times it below 2^15; never larger than in the steps before.
        const float here = fminf(centre, qsa_f32_of_bits((149u - min(max(max(most.z, most.w) >> 10, 1u), 30u)) << 23));
        const float carry =
            first ? qsa_f32_of_bits(qsa_bits_of_f32(here) - qsa_bits_of_f32(centre) + 0x3f800000u) : 1.0f;
        centre = here;
        if (thread == 0 && max(max(most.x, most.y), max(most.z, most.w)) >= 0x7c00u)
            shared.bad = 1; // it would reach rows that do not select its cell: the other kernel's
        if (thread >= 64 && thread < 128) {
            const float2 low = qsa_unpack_f16(scales.x), high = qsa_unpack_f16(scales.y);
            const uint32_t two[2] = {qsa_pack_f16(low.x * centre, low.y * centre),
                                     qsa_pack_f16(high.x * centre, high.y * centre)};
            for (int32_t i = 0; i < 4; i++)
                shared.v_scales[i][thread - 64] = (uint16_t)(two[i / 2] >> (i & 1) * 16);
        }
        scales = qsa_union_scales(shared, a.cache, first + QSA_QUADS, total);
        float s[4][3][2];
        qsa_union_qk(s, shared, step, h, warp, g);
        const int32_t quad = first + 4 * warp + g / 4;
        const uint32_t valid[2] = {quad < total ? shared.quads[quad].mask >> (16 * h + g % 4) : 0,
                                   quad + 2 < total ? shared.quads[quad + 2].mask >> (16 * h + g % 4) : 0};
        float above = 0.0f;
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const int32_t head = qsa_head_of_column<3>(j, t);
            const float4 u = *(const float4 *)&shared.unit[head][4 * h],
                         m = *(const float4 *)&shared.relative[head][4 * h];
            const float unit[4] = {u.x, u.y, u.z, u.w}, relative[4] = {m.x, m.y, m.z, m.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float x = fmaf(s[i][j][e], unit[i], -relative[i]);
                    s[i][j][e] = valid[e] >> 4 * i & 1 ? x : -qsa_infinity();
                    above = fmaxf(above, s[i][j][e]);
                }
        }
        const uint32_t here_rows = (valid[0] | valid[1]) & 0x1111u, seen = shared.seen;
        const uint32_t rows = (here_rows & 1 | here_rows >> 3 & 2 | here_rows >> 6 & 4 | here_rows >> 9 & 8) << 4 * h;
        const bool raise = qsa_any_thread(above > QSA_UNION_GROWTH || carry != 1.0f || (rows & ~seen));
        if (raise) {
            if (rows & ~seen)
                qsa_atomic_or(&shared.seen, rows);
            qsa_union_raise(s, l, shared, carry, seen, h, warp, g, t);
        }
        qsa_union_put_p(s, l, shared, h, warp, g, t);
        qsa_wgmma_publish();
        __syncthreads();
        if (raise)
            qsa_union_scale(o, shared, t);
        qsa_union_pv(o, shared, step, 1, h, warp, lane);
    }
    qsa_union_finish(a, shared, o, l, centre, r, kv, served);
#endif
}

#endif
