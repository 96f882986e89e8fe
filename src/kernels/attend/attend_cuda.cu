// SPDX-License-Identifier: Apache-2.0
//
// Records of 64 selected cells, one thread block for a row, a KV head and a chunk. Sixteen threads are the 16 lanes of
// a dot and take four cells at once, so that a query element that was read serves four products; up to 256 dims the
// decoded keys stay in registers. Then 16 threads per head for the softmax, and a thread per dim for O, whose order is
// serial over the cells.

#include "kernels/attend/cells_cuda.h"

namespace {

enum {
    THREADS = 256,
    LANE_STEPS = 16,
    HELD_DIMS = 16 * LANE_STEPS,
    Q_HEADS = 16,
    BATCH = 16,
    PITCH = QSA_MAX_HEADS_PER_KV + 4
};

struct shared {
    // Queries of some heads, so that a thread reads four of its elements at once: [head][step / 4][lane][step % 4].
    __align__(16) float q[Q_HEADS][HELD_DIMS];
    __align__(16) float p[QSA_CHUNK][PITCH]; // logits, then their exponentials, by cell
    int64_t at[QSA_CHUNK];                   // row in the cache; -1: no such cell
};

struct chunk {
    const qsa_cuda_cache *cache;
    const float *q; // [heads][dim]
    float *records; // of the first head
    int32_t heads, dim, groups;
    int32_t count; // cells
};

template <int FORMAT> __device__ __forceinline__ const char *row_at(const void *rows, int64_t at, int32_t dim) {
    return (const char *)rows + at * dim * (FORMAT == QSA_F32 ? 4 : FORMAT == QSA_I8 ? 1 : 2);
}

// A row that may be read in place of one that is not there, so that loads wait for no branch; its logit is not looked
// at.
__device__ __forceinline__ int64_t readable(int64_t at) {
    return at < 0 ? 0 : at;
}

// Logits of all heads with the thread's four cells, for up to 256 dims: zeros behind the last dim change no sum.
template <int FORMAT> __device__ void logits(const chunk *c, shared *s, float scale) {
    const int lane = threadIdx.x & 15, cell = (int)threadIdx.x / 16 * 4;
    const unsigned mask = qsa_cuda_lanes();
    float key[4][LANE_STEPS];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t at = readable(s->at[cell + e]);
        const char *row = row_at<FORMAT>(c->cache->k, at, c->dim);
        const uint16_t *scales = FORMAT == QSA_I8 ? c->cache->k_scales + at * c->groups : NULL;
#pragma unroll
        for (int k = 0; k < LANE_STEPS; k++) {
            const int d = 16 * k + lane;
            const bool there = d < c->dim;
            const float group = FORMAT == QSA_I8 && there ? qsa_cuda_half(scales[k / 4]) : 0.0f;
            key[e][k] = there ? qsa_cuda_decode<FORMAT>(row, d, group) : 0.0f;
        }
    }
    for (int32_t first = 0; first < c->heads; first += Q_HEADS) {
        const int32_t heads = c->heads - first < Q_HEADS ? c->heads - first : Q_HEADS;
        __syncthreads();
        for (int32_t i = threadIdx.x; i < heads * HELD_DIMS; i += THREADS) {
            const int32_t h = i / HELD_DIMS, d = i % HELD_DIMS, k = d / 16;
            s->q[h][k / 4 * 64 + d % 16 * 4 + k % 4] = d < c->dim ? c->q[(int64_t)(first + h) * c->dim + d] : 0.0f;
        }
        __syncthreads();
        for (int32_t h = 0; h < heads; h++) {
            float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int k = 0; k < LANE_STEPS; k += 4) {
                const float4 q = *(const float4 *)&s->q[h][k * 16 + lane * 4];
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    dot[e] = fmaf(q.x, key[e][k], dot[e]);
                    dot[e] = fmaf(q.y, key[e][k + 1], dot[e]);
                    dot[e] = fmaf(q.z, key[e][k + 2], dot[e]);
                    dot[e] = fmaf(q.w, key[e][k + 3], dot[e]);
                }
            }
            const float sum = qsa_cuda_fold4(dot[0], dot[1], dot[2], dot[3], mask);
            if (lane % 4 == 0)
                s->p[cell + lane / 4][first + h] = sum * scale + 0.0f;
        }
    }
}

// The same for more dims, nothing held.
template <int FORMAT> __device__ void logits_wide(const chunk *c, shared *s, float scale) {
    const int lane = threadIdx.x & 15;
    const unsigned mask = qsa_cuda_lanes();
    for (int cell = (int)threadIdx.x / 16; cell < c->count; cell += THREADS / 16) {
        const int64_t at = readable(s->at[cell]);
        const char *row = row_at<FORMAT>(c->cache->k, at, c->dim);
        for (int32_t h = 0; h < c->heads; h++) {
            float dot = 0.0f;
            for (int32_t d = lane; d < c->dim; d += QSA_LANES) {
                const float group =
                    FORMAT == QSA_I8 ? qsa_cuda_half(c->cache->k_scales[at * c->groups + d / QSA_GROUP]) : 0.0f;
                dot = fmaf(c->q[(int64_t)h * c->dim + d], qsa_cuda_decode<FORMAT>(row, d, group), dot);
            }
            dot = qsa_cuda_fold(dot, mask);
            if (lane == 0)
                s->p[cell][h] = dot * scale + 0.0f;
        }
    }
}

// Maximum, exponentials in place, and their lane sum: 16 threads per head.
__device__ void softmax(const chunk *c, shared *s) {
    const int lane = threadIdx.x & 15;
    const unsigned mask = qsa_cuda_lanes();
    for (int32_t h = (int32_t)threadIdx.x / 16; h < c->heads; h += THREADS / 16) {
        float x[4], m = -qsa_infinity(), l = 0.0f;
        int nan = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int cell = lane + 16 * i;
            x[i] = cell < c->count && s->at[cell] >= 0 ? s->p[cell][h] : -qsa_infinity();
            nan |= x[i] != x[i];
            m = x[i] > m ? x[i] : m;
        }
#pragma unroll
        for (int step = 8; step >= 1; step /= 2) {
            m = fmaxf(m, __shfl_xor_sync(mask, m, step));
            nan |= __shfl_xor_sync(mask, nan, step);
        }
        m = nan ? qsa_nan() : m;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int cell = lane + 16 * i;
            if (cell >= c->count)
                continue;
            const float p = s->at[cell] >= 0 ? qsa_exp(x[i] - m) : 0.0f;
            l = l + p;
            s->p[cell][h] = p;
        }
        l = qsa_canonical(qsa_cuda_fold(l, mask));
        if (lane == 0) {
            c->records[(int64_t)h * (2 + c->dim)] = m;
            c->records[(int64_t)h * (2 + c->dim) + 1] = l;
        }
    }
}

template <int FORMAT>
__device__ __forceinline__ float value_of(const chunk *c, const shared *s, int32_t cell, int32_t d) {
    const int64_t at = readable(s->at[cell]);
    const float group = FORMAT == QSA_I8 ? qsa_cuda_half(c->cache->v_scales[at * c->groups + d / QSA_GROUP]) : 0.0f;
    const float v = qsa_cuda_decode<FORMAT>(row_at<FORMAT>(c->cache->v, at, c->dim), d, group);
    return s->at[cell] < 0 ? 0.0f : v;
}

template <int HEADS> __device__ __forceinline__ void add_value(float o[HEADS], const float *p, float v) {
#pragma unroll
    for (int h = 0; h < HEADS; h += 4) {
        const float4 four = *(const float4 *)(p + h);
        o[h] = fmaf(four.x, v, o[h]);
        o[h + 1] = fmaf(four.y, v, o[h + 1]);
        o[h + 2] = fmaf(four.z, v, o[h + 2]);
        o[h + 3] = fmaf(four.w, v, o[h + 3]);
    }
}

// O of HEADS heads at a time; many values are read before the first is used. No cell is made up to fill a batch: adding
// +0 would turn a -0 that an underflow left.
template <int FORMAT, int HEADS> __device__ void values(const chunk *c, const shared *s) {
    for (int32_t d = threadIdx.x; d < c->dim; d += THREADS) {
        for (int32_t first = 0; first < c->heads; first += HEADS) {
            float o[HEADS];
            int32_t cell = 0;
#pragma unroll
            for (int h = 0; h < HEADS; h++)
                o[h] = 0.0f;
            for (; cell + BATCH <= c->count; cell += BATCH) {
                float v[BATCH];
#pragma unroll
                for (int n = 0; n < BATCH; n++)
                    v[n] = value_of<FORMAT>(c, s, cell + n, d);
#pragma unroll
                for (int n = 0; n < BATCH; n++)
                    add_value<HEADS>(o, &s->p[cell + n][first], v[n]);
            }
            for (; cell < c->count; cell++)
                add_value<HEADS>(o, &s->p[cell][first], value_of<FORMAT>(c, s, cell, d));
#pragma unroll
            for (int h = 0; h < HEADS; h++)
                if (first + h < c->heads)
                    c->records[(int64_t)(first + h) * (2 + c->dim) + 2 + d] = qsa_canonical(o[h]);
        }
    }
}

// Work w: chunk w % most, KV head w / most % kv_heads, row w / most / kv_heads.
template <int FORMAT, int HEADS>
__global__ __launch_bounds__(THREADS, 2) void attend(const __grid_constant__ qsa_cuda_attend_args a, int64_t work,
                                                     int32_t most) {
    __shared__ shared s;
    const qsa_geometry *g = &a.cache.geometry;
    for (int64_t w = blockIdx.x; w < work; w += gridDim.x) {
        const int32_t k = (int32_t)(w % most), head = (int32_t)(w / most % g->kv_heads);
        const int64_t i = a.first + w / most / g->kv_heads;
        const qsa_cuda_row *r = &a.rows[i];
        const bool first = k == 0 && head == 0 && threadIdx.x == 0 && a.chunks;
        if (!r->attends) {
            if (first)
                a.chunks[i - a.first] = 0;
            continue;
        }
        const qsa_cuda_pick pick = qsa_cuda_pick_of(g, r, &a.selection, i);
        if (first)
            a.chunks[i - a.first] = qsa_cuda_pick_chunks(&pick);
        const int32_t from = k * QSA_CHUNK, rest = pick.selected - from;
        if (rest <= 0)
            continue;
        __syncthreads(); // the last work's reads are done
        const int32_t heads = g->heads / g->kv_heads, dim = g->head_dim;
        const chunk c = {&a.cache,
                         a.q + (i * g->heads + (int64_t)head * heads) * dim,
                         a.records + (i - a.first) * a.row_stride + ((int64_t)k * g->heads + head * heads) * (2 + dim),
                         heads,
                         dim,
                         (dim + QSA_GROUP - 1) / QSA_GROUP,
                         rest < QSA_CHUNK ? rest : QSA_CHUNK};
        if (threadIdx.x < QSA_CHUNK) {
            const int32_t cell =
                (int32_t)threadIdx.x < c.count ? qsa_cuda_pick_cell(&pick, from + (int32_t)threadIdx.x) : -1;
            s.at[threadIdx.x] =
                cell < 0 ? -1 : qsa_cuda_cell_row(&a.cache, qsa_cuda_table(&a.cache, r->sequence), cell, head);
        }
        __syncthreads();
        const float scale = 1.0f / sqrtf((float)dim);
        if (dim <= HELD_DIMS)
            logits<FORMAT>(&c, &s, scale);
        else
            logits_wide<FORMAT>(&c, &s, scale);
        __syncthreads();
        softmax(&c, &s);
        __syncthreads();
        values<FORMAT, HEADS>(&c, &s);
    }
}

template <int FORMAT> void launch(const qsa_cuda_attend_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const int32_t most = (g->budget + g->ratio - 1 + QSA_CHUNK - 1) / QSA_CHUNK;
    const int64_t work = (int64_t)args->count * g->kv_heads * most;
    const unsigned grid = (unsigned)(work < INT32_MAX ? work : INT32_MAX);
    if (g->heads / g->kv_heads == 12)
        attend<FORMAT, 12><<<grid, THREADS, 0, stream>>>(*args, work, most);
    else
        attend<FORMAT, 8><<<grid, THREADS, 0, stream>>>(*args, work, most);
}

} // namespace

extern "C" int qsa_attend_cuda(const qsa_cuda_attend_args *args, void *stream) {
    if (args->count <= 0)
        return 0;
    const cudaStream_t s = (cudaStream_t)stream;
    switch (args->cache.kv_type) {
    case QSA_F32:
        launch<QSA_F32>(args, s);
        break;
    case QSA_F16:
        launch<QSA_F16>(args, s);
        break;
    case QSA_BF16:
        launch<QSA_BF16>(args, s);
        break;
    default:
        launch<QSA_I8>(args, s);
        break;
    }
    return cudaGetLastError();
}
