// SPDX-License-Identifier: Apache-2.0
//
// The kernel of attention_cuda_mma_wide.h.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_KERNEL_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_WIDE_KERNEL_H

#include "kernels/attend/attention_cuda_mma_wide.h"

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
    if (next) {
        int32_t rows[8];
        qsa_wide_rows(rows, next, warp * 32 + lane);
        qsa_wide_fetch_v(shared.v[~tile & 1], v_from, rows, warp * 32 + lane);
    }
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

// The queries of heads qsa_wide_head(j, warp). A head that the geometry lacks is a copy that nobody reads.
template <int NT>
QSA_DEVICE void qsa_wide_load_queries(float4 query[NT][2], const qsa_cuda_attention_args &a, int32_t r, int32_t kv,
                                      int32_t warp, int32_t lane) {
    const int32_t all = a.cache.geometry.heads, heads = all / a.cache.geometry.kv_heads;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int32_t head = min(qsa_wide_head<NT>(j, warp), heads - 1);
        const float4 *from = (const float4 *)(a.q + ((int64_t)r * all + kv * heads + head) * QSA_DIM) + 2 * lane;
        query[j][0] = from[0], query[j][1] = from[1];
    }
}

// Their planes and units, for products of threads behind the next barrier.
template <int NT>
QSA_DEVICE void qsa_wide_put_queries(qsa_wide_shared<NT> &shared, const float4 query[NT][2], int32_t warp,
                                     int32_t lane) {
    float unit[NT];
#pragma unroll
    for (int j = 0; j < NT; j++)
        unit[j] = qsa_put_query<QSA_FORM_I8, QSA_QUERY_PANELS>(shared.planes[0], query[j][0], query[j][1], j, warp,
                                                               lane, NT * 1024);
#pragma unroll
    for (int j = 0; j < NT; j++)
        if (lane == 0)
            shared.unit[qsa_wide_head<NT>(j, warp)] = unit[j];
    qsa_wgmma_publish();
}

// A tile's record as the state that it is alone.
template <int NT> QSA_DEVICE void qsa_wide_alone(qsa_wide_state<NT> &tile, const float part[4][8], float inverse) {
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int group = 0; group < 4; group++) {
            const float2 x = qsa_wide_pair(part[group], j);
            tile.o[group][j] = make_float2(x.x * inverse, x.y * inverse);
        }
}

// SEGMENT: a CTA per segment, up to `most` a row, which leaves a record. Else a CTA walks a row to its output; it has room for
// the quads of `most` tiles and the row's sums.
template <int NT, bool SEGMENT>
QSA_KERNEL(128, QSA_WIDE_CTAS)
qsa_attend_rows_wide(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, const int32_t *served, float *records,
                     int32_t most) {
#if QSA_WGMMA
    QSA_SHARED;
    qsa_wide_shared<NT> &shared = *(qsa_wide_shared<NT> *)shared_bytes;
    qsa_quad *const all_quads = (qsa_quad *)((char *)shared_bytes + sizeof shared);
    qsa_wide_record<NT> &sums = *(qsa_wide_record<NT> *)(all_quads + most * QSA_QUADS);
    const qsa_cuda_cache &cache = a.cache;
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = cache.geometry.kv_heads, heads = cache.geometry.heads / kv_heads;
    const int32_t item = SEGMENT ? blockIdx.x / most : blockIdx.x, r = item / kv_heads, kv = item % kv_heads;
    qsa_wait_dependency();
    qsa_trigger_dependents(); // only now: what follows may read the batch at once
    const qsa_work work = qsa_work_of(a, r);
    if (!a.rows[r].attends || (served && served[item]))
        return;
    const int32_t first = SEGMENT ? blockIdx.x % most * QSA_SEGMENT : 0,
                  end = SEGMENT ? min(first + QSA_SEGMENT, work.tiles) : work.tiles;
    if (SEGMENT && first >= end)
        return;
    float4 query[NT][2];
    qsa_wide_load_queries<NT>(query, a, r, kv, warp, lane);
    for (int32_t q = first * QSA_QUADS + thread; q < end * QSA_QUADS; q += 128)
        all_quads[q - first * QSA_QUADS] = qsa_quad_of(a, work, kv, q);
    __syncthreads();

    const qsa_quad *quads = all_quads;
    const char *v_from = (const char *)cache.v + thread % 16 * 16 + thread / 16 % 4 * QSA_DIM;
    qsa_wide_loads now;
    int32_t valid_cells = 0;
    if (first < end) {
        const qsa_quad own = quads[warp * 4 + g / 2];
        valid_cells = own.valid;
        qsa_wide_load_k(now, cache, own, lane);
        int32_t rows[8];
        qsa_wide_rows(rows, quads, thread);
        qsa_wide_fetch_v(shared.v[first & 1], v_from, rows, thread);
        qsa_wide_put_queries<NT>(shared, query, warp, lane);
    }
    // A thread's own elements of the row's sums: nobody else's before the output.
    float2 *const own_sums = (float2 *)&sums.o[0][16 * warp + 2 * g], *const own_ml = (float2 *)(&sums + 1) + thread;
    if (!SEGMENT)
        for (int j = 0; j < NT; j++) {
            own_ml[j * 128] = make_float2(-qsa_infinity(), 0.0f);
            for (int group = 0; group < 4; group++)
                own_sums[(qsa_wide_head<NT>(j, t) * QSA_WIDE_PITCH + 64 * group) / 2] = make_float2(0.0f, 0.0f);
        }
    __syncthreads();
    float unit[NT];
    qsa_wide_state<NT> state = {};
    for (int j = 0; j < NT; j++) {
        unit[j] = shared.unit[qsa_wide_head<NT>(j, t)];
        state.m[j] = -qsa_infinity();
    }
    int32_t left = QSA_SEGMENT; // tiles of the segment
    for (int32_t tile = first; tile < end; tile++) {
        const qsa_quad *next = tile + 1 < end ? quads + QSA_QUADS : 0;
        float part[4][8], largest[NT], sum[NT];
        const float inverse = qsa_wide_tile<NT>(part, largest, sum, shared, now, valid_cells, cache, v_from, next, tile,
                                                unit, warp, lane);
        quads += QSA_QUADS;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float old_factor, new_factor;
            qsa_join(&state.m[j], largest[j], &old_factor, &new_factor);
            qsa_wide_join(&state.l[j], sum[j], old_factor, new_factor);
#pragma unroll
            for (int group = 0; group < 4; group++) {
                const float2 x = qsa_wide_pair(part[group], j);
                qsa_wide_join(&state.o[group][j].x, x.x * inverse, old_factor, new_factor);
                qsa_wide_join(&state.o[group][j].y, x.y * inverse, old_factor, new_factor);
            }
        }
        if (!SEGMENT && (--left == 0 || !next)) { // the segment joins the row
            left = QSA_SEGMENT;
#pragma unroll
            for (int j = 0; j < NT; j++) {
                float2 ml = own_ml[j * 128];
                float old_factor, new_factor;
                qsa_join(&ml.x, state.m[j], &old_factor, &new_factor);
                qsa_wide_join(&ml.y, state.l[j], old_factor, new_factor);
                own_ml[j * 128] = ml;
#pragma unroll
                for (int group = 0; group < 4; group++) {
                    float2 *at = own_sums + (qsa_wide_head<NT>(j, t) * QSA_WIDE_PITCH + 64 * group) / 2;
                    float2 o = *at;
                    qsa_wide_join(&o.x, state.o[group][j].x, old_factor, new_factor);
                    qsa_wide_join(&o.y, state.o[group][j].y, old_factor, new_factor);
                    *at = o;
                    state.o[group][j] = make_float2(0.0f, 0.0f);
                }
                state.m[j] = -qsa_infinity(), state.l[j] = 0.0f;
            }
        }
    }
    if constexpr (SEGMENT) {
        qsa_wide_store<NT>(records + (int64_t)blockIdx.x * QSA_RECORD_FLOATS, state, warp, lane);
    } else {
        if (warp == 0 && g == 0)
            for (int j = 0; j < NT; j++)
                sums.ml[qsa_wide_head<NT>(j, t)] = own_ml[j * 128];
        __syncthreads();
        qsa_wide_output<NT>(a, sums, r, kv, heads);
    }
#endif
}

// A CTA per tile, up to most_tiles a row, which leaves a record. What needs the row's number alone is on its way at once; no
// thread waits for another before its loads of K and V.
template <int NT>
QSA_KERNEL(128, QSA_WIDE_CTAS)
qsa_attend_tiles_wide(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, const int32_t *served, float *records,
                      int32_t most_tiles) {
#if QSA_WGMMA
    QSA_SHARED;
    qsa_wide_shared<NT> &shared = *(qsa_wide_shared<NT> *)shared_bytes;
    const qsa_cuda_cache &cache = a.cache;
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int32_t kv_heads = cache.geometry.kv_heads, item = blockIdx.x / most_tiles, r = item / kv_heads,
                  kv = item % kv_heads, tile = blockIdx.x % most_tiles;
    const int32_t q = tile * QSA_QUADS + lane % QSA_QUADS, block = q / (cache.geometry.ratio / 4);
    qsa_wait_dependency();
    qsa_trigger_dependents(); // only now: what follows may read the batch at once
    int32_t id = -1;
    if (qsa_may_select(a) && block < a.selection.stride)
        id = a.selection.ids[r * a.selection.stride + block];
    const qsa_work work = qsa_work_of(a, r);
    float4 query[NT][2];
    qsa_wide_load_queries<NT>(query, a, r, kv, warp, lane);
    if (!a.rows[r].attends || tile >= work.tiles || (served && served[item]))
        return;
    const qsa_quad quad = qsa_quad_with(a, work, kv, q, id),
                   own = {qsa_shuffle_from(quad.row, warp * 4 + g / 2), qsa_shuffle_from(quad.valid, warp * 4 + g / 2)};
    qsa_wide_loads now;
    qsa_wide_load_k(now, cache, own, lane);
    int32_t rows[8], valid_cells = own.valid;
#pragma unroll
    for (int i = 0; i < 8; i++)
        rows[i] = qsa_shuffle_from(quad.row, i * 2 + warp / 2);
    const char *v_from = (const char *)cache.v + thread % 16 * 16 + thread / 16 % 4 * QSA_DIM;
    qsa_wide_fetch_v(shared.v[0], v_from, rows, thread);
    qsa_wide_put_queries<NT>(shared, query, warp, lane);
    __syncthreads();
    float unit[NT];
#pragma unroll
    for (int j = 0; j < NT; j++)
        unit[j] = shared.unit[qsa_wide_head<NT>(j, t)];
    float part[4][8];
    qsa_wide_state<NT> state;
    const float inverse =
        qsa_wide_tile<NT>(part, state.m, state.l, shared, now, valid_cells, cache, v_from, 0, 0, unit, warp, lane);
    qsa_wide_alone<NT>(state, part, inverse);
    qsa_wide_store<NT>(records + (int64_t)blockIdx.x * QSA_RECORD_FLOATS, state, warp, lane);
#endif
}

#endif
