// SPDX-License-Identifier: Apache-2.0
//
// prep of vectors of 128 or 256 aligned elements, 64 of them rotated, and blocks of at most 32 cells (the preset): the
// bytes of prep_cuda.cu's kernel with a SPAN-th of its accesses. A thread block is WARPS warps of 2 SPAN vectors each,
// of one kind a warp, and one warp for the row's angles. Every so many thread blocks one is for index keys: two warps a
// row, one for the block's mean and norm, one for its angles and the raw key. It comes before those of its rows'
// vectors, as its chain is the longest, and not before all others, which would leave the memory idle.
//
// EARLY asks for raw queries before it is known whether the row attends, and for factors with them: waits on memory at
// the same time, for a few rows. Of many, rows that do not attend would cost their reading; and registers, of which
// BLOCKS thread blocks a multiprocessor get as many as they need, hide more by waiting for other rows.

#ifndef QSA_KERNELS_PREP_WIDE_CUDA_H
#define QSA_KERNELS_PREP_WIDE_CUDA_H

#include "kernels/prep/sincos_cuda.h"
#include "kernels/prep/wide_vector_cuda.h"

namespace {

enum wide_kind { QUERIES, INDEX_QUERIES, KEYS, VALUES };

struct wide_plan {
    int32_t parts, group; // thread blocks of a row's vectors; and of as many rows as share one for index keys
    int32_t queries, index_queries, keys; // warps
};

struct wide_shared {
    alignas(16) float cosine[QSA_CUDA_HALF], sine[QSA_CUDA_HALF];
};

// Between the two warps of pair number `pair`. The numbers are constants: a variable one would take all 16 barriers.
template <int PAIRS> __device__ __forceinline__ void wait_for_pair(int pair) {
    if (pair == PAIRS - 1)
        asm volatile("bar.sync %0, 64;" ::"n"(PAIRS) : "memory");
    else if constexpr (PAIRS > 1)
        wait_for_pair<PAIRS - 1>(pair);
}

__device__ __forceinline__ void add_events(const qsa_cuda_prep_args *a, const uint64_t events[3]) {
    for (int e = 0; e < 3; e++)
        if (events[e])
            atomicAdd(&a->cache.events[e], (unsigned long long)events[e]);
}

// Slot of a cell's raw index key.
__device__ int64_t slot_of(const qsa_cuda_cache *cache, int32_t sequence, int32_t cell) {
    if (cache->keep > 0)
        return (int64_t)sequence * cache->keep + cell % cache->keep;
    return (int64_t)qsa_cuda_table(cache, sequence)[cell / cache->page_cells] * cache->page_cells +
           cell % cache->page_cells;
}

__device__ __forceinline__ void wide_angles(const qsa_cuda_prep_args *a, const int32_t *positions, wide_shared *s) {
    const int f = threadIdx.x & 31, axis = __ldg(a->axis + f);
    const int32_t temporal = positions[0], height = positions[1], width = positions[2]; // all at once: no load waits
    const float angle = __ldg(a->inv_freq + f) * (float)(axis == 0 ? temporal : axis == 1 ? height : width);
    qsa_cuda_sincos(angle, &s->sine[f], &s->cosine[f]);
}

// Vectors first .. of one kind, by one warp. Threads without a vector do the last one's again and write nothing.
template <int STEPS, int SPAN, bool EARLY>
__device__ __forceinline__ void wide_work(const qsa_cuda_prep_args *a, int32_t row, int kind, int32_t first,
                                          const wide_shared *s) {
    const qsa_geometry *g = &a->cache.geometry;
    const qsa_cuda_row *r = &a->rows[row];
    const qsa_rows *from = kind == QUERIES ? &a->q : kind == INDEX_QUERIES ? &a->index_q : kind == KEYS ? &a->k : &a->v;
    const float *factor = kind == QUERIES ? a->q_factor : kind == INDEX_QUERIES ? a->iq_factor : a->k_factor;
    float *out = kind == QUERIES         ? a->q_out
                 : kind == INDEX_QUERIES ? a->index_q_out
                 : kind == KEYS          ? a->k_out
                                         : a->v_out;
    const int32_t heads = kind == QUERIES ? g->heads : kind == INDEX_QUERIES ? g->index_heads : g->kv_heads;
    const int t = threadIdx.x % (16 / SPAN);
    const int32_t own = first + (int32_t)(threadIdx.x & 31) / (16 / SPAN);
    const bool valid = own < heads, query = kind <= INDEX_QUERIES;
    const int32_t head = valid ? own : heads - 1;
    if (query && (!out || (!EARLY && !r->attends)))
        return;
    float y[STEPS * SPAN], f[STEPS * SPAN];
    qsa_wide_read<STEPS, SPAN>(
        y, (const unsigned char *)from->data + row * from->row_stride + (head ? head * from->head_stride : 0),
        from->type, t);
    if (EARLY && kind != VALUES)
        qsa_wide_factor<STEPS, SPAN>(f, factor, t);
    const int32_t cells = r->cells;
    if (cells <= 0 || (query && !r->attends))
        return;
    int64_t at = 0;
    if (!query)
        at = qsa_cuda_cell_row(&a->cache, qsa_cuda_table(&a->cache, r->sequence), cells - 1, head);
    if (kind != VALUES) {
        const float inverse = qsa_wide_inverse<STEPS, SPAN>(y, g->eps);
        if (!EARLY)
            qsa_wide_factor<STEPS, SPAN>(f, factor, t);
        qsa_wide_scale<STEPS, SPAN>(y, inverse, f);
        __syncthreads(); // the angles are there
        qsa_wide_turn<SPAN>(y, s->cosine, s->sine, t);
    } else if (from->type != QSA_F32) {
#pragma unroll
        for (int i = 0; i < STEPS * SPAN; i++)
            y[i] = qsa_canonical(y[i]);
    }
    if (out && valid) {
        out += ((int64_t)row * heads + head) * (16 * STEPS) + SPAN * t;
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            qsa_wide_put<SPAN>(out + 16 * k, y + SPAN * k);
    }
    if (query)
        return;
    uint64_t events[3] = {0, 0, 0};
    const qsa_type format = a->cache.kv_type;
    qsa_wide_store<STEPS, SPAN>(
        y, format,
        (unsigned char *)(kind == KEYS ? a->cache.k : a->cache.v) + at * (int64_t)(16 * STEPS * qsa_type_size(format)),
        (kind == KEYS ? a->cache.k_scales : a->cache.v_scales) + at * (STEPS / 4), t, valid, events);
    add_events(a, events);
}

// Each lane's cell of the block whose last cell is `row`'s: its row of the batch, or -1 where it was committed before.
// That the rows are each other's predecessors is guessed and looked at for all at once; where another sequence lies
// between, the guess begins anew. `previous` is that of row - lane, or -1.
__device__ __forceinline__ int32_t wide_sources(const qsa_cuda_prep_args *a, int32_t row, int32_t previous) {
    const int32_t lane = threadIdx.x & 31;
    int32_t cell = a->cache.geometry.ratio - 1, at = row, source = lane == cell ? row : -1;
    while (cell > 0 && at >= 0) {
        const int32_t guess = at - lane;
        if (at != row)
            previous = guess >= 0 ? a->rows[guess].previous : -1;
        const int32_t run = __ffs((int)__ballot_sync(0xffffffffu, lane >= cell || previous != guess - 1)) - 1;
        if (lane < cell && lane >= cell - run)
            source = at - (cell - lane);
        cell -= run, at -= run;
        if (cell > 0) {
            at = __shfl_sync(0xffffffffu, previous, run);
            cell--;
            source = lane == cell ? at : source;
        }
    }
    return source;
}

// The mean of the block's raw keys, 128 elements at a time, four a lane: a chain of additions in cell order from the
// first key, then one division. `key` is each lane's cell's, in the batch's type or else float32.
__device__ __forceinline__ void wide_mean(const qsa_cuda_prep_args *a, const unsigned char *key, bool batch,
                                          float *mean) {
    const int32_t ratio = a->cache.geometry.ratio, lane = threadIdx.x & 31;
    const unsigned from_batch = __ballot_sync(0xffffffffu, batch);
    const qsa_type type = a->index_k.type;
    for (int32_t d = 4 * lane; d < a->cache.geometry.index_dim; d += 128) {
        float sum[4];
        for (int32_t first = 0; first < ratio; first += 4) {
            float x[4][4];
            uint16_t h[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t c = first + i < ratio ? first + i : ratio - 1;
                const unsigned char *p =
                    (const unsigned char *)__shfl_sync(0xffffffffu, (unsigned long long)(uintptr_t)key, c);
                if ((from_batch >> c & 1) && type != QSA_F32)
                    qsa_wide_get<4>(h[i], (const uint16_t *)p + d);
                else
                    qsa_wide_get<4>(x[i], (const float *)p + d);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t c = first + i;
                if (c >= ratio)
                    break;
                const bool half = (from_batch >> c & 1) && type != QSA_F32;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float z = !half             ? x[i][e]
                                    : type == QSA_F16 ? qsa_cuda_half(h[i][e])
                                                      : qsa_f32_of_bits((uint32_t)h[i][e] << 16);
                    sum[e] = c ? sum[e] + z : z;
                }
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = sum[e] / (float)ratio;
        qsa_wide_put<4>(mean + d, sum);
    }
}

template <int STEPS, int SPAN, int PAIRS>
__device__ __forceinline__ void wide_block(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, int pair,
                                           const float *mean, const wide_shared *s) {
    const int t = threadIdx.x % (16 / SPAN);
    const qsa_geometry *g = &a->cache.geometry;
    const qsa_type format = a->cache.block_key_type;
    float y[STEPS * SPAN], f[STEPS * SPAN];
    qsa_wide_read<STEPS, SPAN>(y, (const unsigned char *)mean, QSA_F32, t);
    qsa_wide_factor<STEPS, SPAN>(f, a->ik_factor, t);
    qsa_wide_scale<STEPS, SPAN>(y, qsa_wide_inverse<STEPS, SPAN>(y, g->eps), f);
    const int32_t page_blocks = a->cache.page_cells / g->ratio, block = r->cells / g->ratio - 1;
    const int64_t at =
        (int64_t)qsa_cuda_table(&a->cache, r->sequence)[block / page_blocks] * page_blocks + block % page_blocks;
    wait_for_pair<PAIRS>(pair);
    qsa_wide_turn<SPAN>(y, s->cosine, s->sine, t);
    uint64_t events[3] = {0, 0, 0};
    qsa_wide_store<STEPS, SPAN>(
        y, format, (unsigned char *)a->cache.block_keys + at * (int64_t)(16 * STEPS * qsa_type_size(format)), nullptr,
        t, (threadIdx.x & 31) < 16 / SPAN, events);
    add_events(a, events);
}

__device__ __forceinline__ void wide_keep(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, int32_t row) {
    const int64_t slot = slot_of(&a->cache, r->sequence, r->cells - 1);
    const int32_t dim = a->cache.geometry.index_dim, lane = threadIdx.x & 31;
    const unsigned char *key = (const unsigned char *)a->index_k.data + row * a->index_k.row_stride;
    for (int32_t d = 4 * lane; d < dim; d += 128) {
        float x[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            x[e] = qsa_cuda_load(key, a->index_k.type, true, d + e);
        qsa_wide_put<4>(a->cache.raw_pending + slot * dim + d, x);
    }
    if (lane < 3)
        a->cache.raw_positions_pending[slot * 3 + lane] = r->positions[lane];
}

// The index key of a row, by two warps.
template <int SPAN, int PAIRS>
__device__ __forceinline__ void wide_index(const qsa_cuda_prep_args *a, int32_t row, int pair, bool angles, float *mean,
                                           wide_shared *s) {
    const qsa_geometry *g = &a->cache.geometry;
    const qsa_cuda_row *r = &a->rows[row];
    const int32_t lane = threadIdx.x & 31, guess = row - lane;
    const int32_t previous = guess >= 0 && lane < g->ratio ? a->rows[guess].previous : -1;
    const int32_t cells = r->cells;
    if (cells <= 0)
        return;
    if (cells % g->ratio == 0) {
        const int32_t source = wide_sources(a, row, previous);
        const bool batch = source >= 0;
        const int64_t slot = batch || lane >= g->ratio ? 0 : slot_of(&a->cache, r->sequence, cells - g->ratio + lane);
        if (!angles) {
            wide_mean(a,
                      batch ? (const unsigned char *)a->index_k.data + source * a->index_k.row_stride
                            : (const unsigned char *)(a->cache.raw + slot * g->index_dim),
                      batch, mean);
            __syncwarp();
            if (g->index_dim == 256)
                wide_block<16, SPAN, PAIRS>(a, r, pair, mean, s);
            else
                wide_block<8, SPAN, PAIRS>(a, r, pair, mean, s);
            return;
        }
        const unsigned long long own =
            (unsigned long long)(uintptr_t)(batch ? a->rows[source].positions : a->cache.raw_positions + slot * 3);
        wide_angles(a, (const int32_t *)__shfl_sync(0xffffffffu, own, 0), s);
        wait_for_pair<PAIRS>(pair);
    }
    if (angles && r->keeps)
        wide_keep(a, r, row);
}

template <int SPAN, int WARPS, bool EARLY, int BLOCKS>
__global__ __launch_bounds__(32 * (WARPS + 1), BLOCKS) void prep_wide(const __grid_constant__ qsa_cuda_prep_args a,
                                                                      const wide_plan plan) {
    constexpr int PAIRS = (WARPS + 1) / 2;
    __shared__ wide_shared s[PAIRS];
    alignas(16) __shared__ float mean[PAIRS][256];
    const qsa_geometry *g = &a.cache.geometry;
    const int warp = threadIdx.x / 32;
    const unsigned group = blockIdx.x / (unsigned)plan.group, within = blockIdx.x - group * (unsigned)plan.group;
    if (within == 0) {
        const int pair = warp / 2;
        const int32_t row = (int32_t)group * PAIRS + pair;
        if (pair < PAIRS && row < a.count)
            wide_index<SPAN, PAIRS>(&a, row, pair, warp & 1, mean[pair], &s[pair]);
        return;
    }
    const unsigned one = (within - 1) / (unsigned)plan.parts, part = within - 1 - one * (unsigned)plan.parts;
    const int32_t row = (int32_t)(group * PAIRS + one);
    if (row >= a.count)
        return;
    if (warp == WARPS) {
        wide_angles(&a, a.rows[row].positions, s);
        __syncthreads();
        return;
    }
    int32_t task = (int32_t)part * WARPS + warp;
    int kind = QUERIES;
    if (task >= plan.queries) {
        task -= plan.queries, kind = INDEX_QUERIES;
        if (task >= plan.index_queries) {
            task -= plan.index_queries, kind = KEYS;
            if (task >= plan.keys) {
                task -= plan.keys, kind = VALUES;
                if (task >= plan.keys)
                    return;
            }
        }
    }
    if ((kind == INDEX_QUERIES ? g->index_dim : g->head_dim) == 256)
        wide_work<16, SPAN, EARLY>(&a, row, kind, 2 * SPAN * task, s);
    else
        wide_work<8, SPAN, EARLY>(&a, row, kind, 2 * SPAN * task, s);
}

inline bool wide_aligned(const void *p) {
    return ((uintptr_t)p & 15) == 0;
}
inline bool wide_rows(const qsa_rows *r) {
    return wide_aligned(r->data) && r->row_stride % 16 == 0 && r->head_stride % 16 == 0;
}

inline bool wide_fits(const qsa_cuda_prep_args *a) {
    const qsa_geometry *g = &a->cache.geometry;
    const auto fits = [](int32_t dim) { return dim == 128 || dim == 256; };
    bool aligned = true;
    for (const void *p :
         {(const void *)a->q_factor, (const void *)a->k_factor, (const void *)a->iq_factor, (const void *)a->ik_factor,
          (const void *)a->q_out, (const void *)a->index_q_out, (const void *)a->k_out, (const void *)a->v_out,
          (const void *)a->cache.k, (const void *)a->cache.v, (const void *)a->cache.block_keys,
          (const void *)a->cache.raw, (const void *)a->cache.raw_pending})
        aligned = aligned && wide_aligned(p);
    return aligned && fits(g->head_dim) && fits(g->index_dim) && g->rotary_dim == 2 * QSA_CUDA_HALF && g->ratio <= 32 &&
           wide_rows(&a->q) && wide_rows(&a->k) && wide_rows(&a->v) && wide_rows(&a->index_q) && wide_rows(&a->index_k);
}

template <int SPAN, int WARPS, bool EARLY, int BLOCKS> int launch_wide(const qsa_cuda_prep_args *args, void *stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const auto warps = [](int32_t heads) { return (heads + 2 * SPAN - 1) / (2 * SPAN); };
    constexpr int PAIRS = (WARPS + 1) / 2;
    wide_plan plan = {0, 0, warps(g->heads), warps(g->index_heads), warps(g->kv_heads)};
    plan.parts = (plan.queries + plan.index_queries + 2 * plan.keys + WARPS - 1) / WARPS;
    plan.group = 1 + plan.parts * PAIRS;
    const int64_t blocks = ((int64_t)args->count + PAIRS - 1) / PAIRS * plan.group;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    prep_wide<SPAN, WARPS, EARLY, BLOCKS><<<(unsigned)blocks, 32 * (WARPS + 1), 0, (cudaStream_t)stream>>>(*args, plan);
    return cudaGetLastError();
}

} // namespace

#endif
