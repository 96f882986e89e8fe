// SPDX-License-Identifier: Apache-2.0
//
// The kernel of attention_cuda_mma_wide.h.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_KERNEL_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_KERNEL_H

#include "kernels/attend/attention_cuda_mma_wide.h"

// The row so far: maxima, sums and accumulators of the lane's heads.
template <int NT> struct qsa_wide_state {
    float m[NT], l[NT];
    float2 o[4][NT];
};

// One tile up to its record: largest and sum of each of the lane's heads, part, and what part is to be multiplied with.
// `now` has the tile's K on its way; the next tile's is when this returns, of quads `next` (null: there is none).
template <int NT>
QSA_DEVICE float qsa_wide_tile(float (&part)[4][8], float largest[NT], float sum[NT], qsa_wide_shared<NT> &shared,
                               qsa_wide_loads &now, int32_t &valid_cells, const qsa_cuda_cache &cache,
                               const char *v_from, const qsa_quad *next, int32_t tile, const float unit[NT],
                               int32_t warp, int32_t lane) {
    const int32_t g = lane / 4, t = lane % 4;
    const bool valid[2] = {(g & 1) < valid_cells, (g & 1) + 2 < valid_cells};
    float s[NT][2];
    qsa_wide_qk<NT>(s, now, qsa_describe_rows(qsa_shared_address(shared.planes)), unit);
    const uint2 v_scale[2] = {now.v_scale[0], now.v_scale[1]};
    if (next) {
        const qsa_quad own = next[warp * 4 + g / 2];
        valid_cells = own.valid;
        qsa_wide_load_k(now, cache, own, lane);
    }
#pragma unroll
    for (int j = 0; j < NT; j++) {
        float most = fmaxf(valid[0] ? s[j][0] : -qsa_infinity(), valid[1] ? s[j][1] : -qsa_infinity());
        for (int mask = 4; mask < 32; mask *= 2)
            most = fmaxf(most, qsa_shuffle(most, mask));
        if (g == 0)
            shared.m[tile & 1][qsa_wide_head<NT>(j, t)][warp] = most;
    }
    const uint32_t two = qsa_max_u16(qsa_max_u16(v_scale[0].x & 0x7fff7fffu, v_scale[0].y & 0x7fff7fffu),
                                     qsa_max_u16(v_scale[1].x & 0x7fff7fffu, v_scale[1].y & 0x7fff7fffu));
    const uint32_t scale = qsa_reduce_max(max(two & 0xffffu, two >> 16));
    if (lane == 0)
        shared.largest_scale[warp] = scale;
    __syncthreads(); // nobody reads the other buffer of V any more
    if (next)
        qsa_wide_fetch_v(shared.v[~tile & 1], v_from, next, warp * 32 + lane);
    const uint4 scales = *(const uint4 *)shared.largest_scale;
    float inverse;
    const float centre = qsa_centre(max(max(scales.x, scales.y), max(scales.z, scales.w)), &inverse);
    float p[NT][2];
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int32_t head = qsa_wide_head<NT>(j, t);
        const float4 four = *(const float4 *)shared.m[tile & 1][head];
        largest[j] = fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w));
        for (int i = 0; i < 2; i++)
            p[j][i] = valid[i] ? qsa_exp2(s[j][i] - largest[j]) : 0.0f;
        float mine = p[j][0] + p[j][1];
        for (int mask = 4; mask < 32; mask *= 2)
            mine += qsa_shuffle(mine, mask);
        if (g == 0)
            shared.l[head][warp] = mine;
    }
    qsa_wide_put_p<NT>(shared, p, v_scale, centre, warp, lane);
    qsa_wgmma_publish();
    if (next)
        qsa_copy_wait_but<1>();
    else
        qsa_copy_wait_but<0>();
    __syncthreads();
    qsa_wide_pv<NT>(part, shared, shared.v[tile & 1], qsa_describe_blocks(qsa_shared_address(shared.p), 256), warp,
                    lane);
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const float4 four = *(const float4 *)shared.l[qsa_wide_head<NT>(j, t)];
        sum[j] = (four.x + four.y) + (four.z + four.w);
    }
    return inverse;
}

template <int NT, bool CLUSTER>
QSA_KERNEL(128, QSA_WIDE_CTAS)
qsa_attend_rows_wide(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, const int32_t *served, int32_t most_tiles) {
#if QSA_WGMMA
    QSA_SHARED;
    qsa_wide_shared<NT> &shared = *(qsa_wide_shared<NT> *)shared_bytes;
    // After the quads of most_tiles tiles: CLUSTER: a record for each of them.
    qsa_wide_record<NT> *records =
        (qsa_wide_record<NT> *)((char *)shared_bytes + sizeof shared + most_tiles * (QSA_QUADS * sizeof(qsa_quad)));
    const qsa_cuda_cache &cache = a.cache;
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = cache.geometry.kv_heads, heads = cache.geometry.heads / kv_heads;
    const int32_t rank = CLUSTER ? qsa_cluster_rank() : 0, size = CLUSTER ? qsa_cluster_size() : 1;
    const int32_t item = CLUSTER ? blockIdx.x / size : blockIdx.x, r = item / kv_heads, kv = item % kv_heads;
    qsa_trigger_dependents();
    qsa_wait_dependency();
    if (!a.rows[r].attends || (served && served[item])) // so are all CTAs of the cluster
        return;
    const qsa_work work = qsa_work_of(a, r);
    const int32_t per = (work.tiles + size - 1) / size;
    const int32_t first = min(rank * per, work.tiles), end = min(first + per, work.tiles);
    for (int32_t q = first * QSA_QUADS + thread; q < end * QSA_QUADS; q += 128)
        shared.quads[q - first * QSA_QUADS] = qsa_quad_of(a, work, kv, q);
    __syncthreads();

    const qsa_quad *quads = shared.quads;
    const char *v_from = (const char *)cache.v + thread % 16 * 16 + thread / 16 % 4 * QSA_DIM;
    qsa_wide_loads now;
    int32_t valid_cells = 0;
    if (first < end) {
        const qsa_quad own = quads[warp * 4 + g / 2];
        valid_cells = own.valid;
        qsa_wide_load_k(now, cache, own, lane);
        qsa_wide_fetch_v(shared.v[first & 1], v_from, quads, thread);
        for (int i = warp; i < 4 * NT; i += 4) { // a head that the geometry lacks is a copy that nobody reads
            const int32_t head = qsa_wide_head<NT>(i / 4, i % 4);
            const float *q = a.q + ((int64_t)r * cache.geometry.heads + kv * heads + min(head, heads - 1)) * QSA_DIM;
            const float unit =
                qsa_put_query<QSA_FORM_I8, QSA_QUERY_PANELS>(shared.planes[0], q, i / 4, i % 4, lane, NT * 1024);
            if (lane == 0)
                shared.unit[head] = unit;
        }
        qsa_wgmma_publish();
    }
    __syncthreads();
    float unit[NT];
    qsa_wide_state<NT> state = {};
    for (int j = 0; j < NT; j++) {
        unit[j] = shared.unit[qsa_wide_head<NT>(j, t)];
        state.m[j] = -qsa_infinity();
    }
    for (int32_t tile = first; tile < end; tile++) {
        const qsa_quad *next = tile + 1 < end ? quads + QSA_QUADS : 0;
        float part[4][8], largest[NT], sum[NT];
        const float inverse = qsa_wide_tile<NT>(part, largest, sum, shared, now, valid_cells, cache, v_from, next, tile,
                                                unit, warp, lane);
        quads += QSA_QUADS;
        for (int j = 0; j < NT; j++) {
            if constexpr (CLUSTER) {
                qsa_wide_record<NT> &record = records[tile - first];
                const int32_t head = qsa_wide_head<NT>(j, t);
                if (warp == 0 && g == 0)
                    record.ml[head] = make_float2(largest[j], sum[j]);
                for (int group = 0; group < 4; group++) {
                    const float2 x = qsa_wide_pair(part[group], j);
                    *(float2 *)&record.o[head][64 * group + 16 * warp + 2 * g] =
                        make_float2(x.x * inverse, x.y * inverse);
                }
            } else {
                float old_factor, new_factor;
                qsa_join(&state.m[j], largest[j], &old_factor, &new_factor);
                state.l[j] = fmaf(sum[j], new_factor, state.l[j] * old_factor);
                new_factor *= inverse; // a power of two
                for (int group = 0; group < 4; group++) {
                    const float2 x = qsa_wide_pair(part[group], j);
                    float2 &o = state.o[group][j];
                    o.x = fmaf(x.x, new_factor, o.x * old_factor), o.y = fmaf(x.y, new_factor, o.y * old_factor);
                }
            }
        }
    }
    if constexpr (CLUSTER) {
        qsa_cluster_sync();
        qsa_wide_join<NT>(a, records, (float4 *)shared.v, work.tiles, per, r, kv, heads);
        qsa_cluster_sync(); // nobody leaves while others read its records
    } else {
        __syncthreads();
        qsa_wide_record<NT> &sums = *(qsa_wide_record<NT> *)shared.v;
        for (int j = 0; j < NT; j++) {
            const int32_t head = qsa_wide_head<NT>(j, t);
            if (warp == 0 && g == 0)
                sums.ml[head] = make_float2(state.m[j], state.l[j]);
            for (int group = 0; group < 4; group++)
                *(float2 *)&sums.o[head][64 * group + 16 * warp + 2 * g] = state.o[group][j];
        }
        __syncthreads();
        qsa_wide_output<NT>(a, sums, r, kv, heads);
    }
#endif
}

#endif
