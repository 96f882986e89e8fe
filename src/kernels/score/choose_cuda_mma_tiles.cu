// SPDX-License-Identifier: Apache-2.0
//
// Scores for many rows (sm_90a): a thread block holds the queries of 64 rows x 4 heads in shared memory and multiplies
// them with tiles of 128 block keys that two warps fetch through the page table. Two consumer warpgroups take 32 rows
// each: 128 x 128 products in two m64n128 accumulators. Query row 64 t + 16 w + 8 h + g of a warpgroup is (row 8 w + g,
// head 2 t + h), so that one thread's accumulators hold all four heads of one row, and a score is made without leaving
// the thread. While one warpgroup makes scores the other's products keep the tensor cores busy.
//
// cp.async rather than the bulk tensor copy engine: pages may have any size, and no tensor map has to be made. A third
// warp passes each stage on from the copies to the products: the fence between the two waits for all copies of its
// thread, so that a warp that fetches would lose those it has under way for later stages.
//
// Scores either go to the row's keys, or (LIST) those that reach the row's bar to the thread's own part of the row's
// list: no thread waits for another, and the list is a set that the bar alone determines.
//
// A tile with rows of several sequences takes them one after the other. With fewer than 8 rows a sequence that wastes
// more than it saves, and the kernel leaves its tile to others (choose_tile_shared decides for all).

#include "kernels/score/choose_cuda_mma.cuh"
#include "kernels/score/choose_cuda_mma_planes.cuh"
#include "kernels/score/choose_cuda_mma_wgmma.cuh"

enum {
    THREADS = 384,
    PANEL = 128,                                  // bytes of a row in a panel: 64 halves
    QUERY_ROWS = CHOOSE_TILE_ROWS * CHOOSE_HEADS, // 256
    QUERY_BYTES = 2 * QUERY_ROWS * PANEL,         // one plane
    STAGE_BYTES = 2 * CHOOSE_TILE_BLOCKS * PANEL
};

typedef struct tile_rows {
    choose_tile tile;
    float scale[CHOOSE_TILE_ROWS];
    uint64_t landed[4], full[4], empty[4];
} tile_rows;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static __device__ __forceinline__ uint32_t swizzled(uint32_t panel_rows, uint32_t row, uint32_t piece) {
    return (piece >> 3) * panel_rows * PANEL + row * PANEL + ((piece & 7) ^ (row & 7)) * 16;
}

// Calls `with(stage, lap, tile, s)` for each tile of this thread block: the same for all its warps. s: the tile's first
// row of the sequence.
template <int STAGES, class F> static __device__ __forceinline__ void each_tile(const tile_rows &rows, F with) {
    int32_t step = 0;
    for (int s = 0; s < CHOOSE_TILE_ROWS; s++) {
        const int32_t end = rows.tile.end[s];
        for (int32_t tile = blockIdx.x; tile * CHOOSE_TILE_BLOCKS < end; tile += gridDim.x, step++)
            with(step % STAGES, step / STAGES, tile, s);
        if (rows.tile.one)
            break;
    }
}

// Warps 0 and 1: 64 keys of a tile each; a lane finds the places of two of them, half a warp copies one.
template <int STAGES>
static __device__ __forceinline__ void fetch(const choose_job &job, const tile_rows &rows, uint32_t stages,
                                             int thread) {
    const uint32_t landed = (uint32_t)__cvta_generic_to_shared(rows.landed),
                   empty = (uint32_t)__cvta_generic_to_shared(rows.empty);
    const int lane = thread & 31, warp = thread >> 5;
    const char *keys = (const char *)job.block_keys + (lane & 15) * 16;
    uint32_t to[4]; // the swizzle repeats every eight rows
#pragma unroll
    for (int u = 0; u < 4; u++)
        to[u] = stages + swizzled(CHOOSE_TILE_BLOCKS, warp * 64 + 2 * u + (lane >> 4), lane & 15);
    each_tile<STAGES>(rows, [&](int stage, int32_t lap, int32_t tile, int s) {
        const int32_t end = rows.tile.end[s];
        const int32_t *table = job.tables + (int64_t)rows.tile.sequence[s] * job.table_pages;
        uint32_t place[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int32_t own = tile * CHOOSE_TILE_BLOCKS + warp * 64 + i * 32 + lane;
            place[i] = own < end ? (uint32_t)choose_key_row(job, table, choose_sampled(job, own)) : 0xffffffffu;
        }
        if (lap > 0)
            barrier_wait(empty + 8 * stage, (lap - 1) & 1);
        const uint32_t at = stage * STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const uint32_t from = __shfl_sync(0xffffffffu, place[i >> 4], (2 * i + (lane >> 4)) & 31);
            if (from != 0xffffffffu)
                copy16(at + to[i & 3] + (i >> 2) * 8 * PANEL, keys + (int64_t)from * (2 * CHOOSE_DIM));
        }
        copies_arrive(landed + 8 * stage);
    });
    copies_wait<0>();
}

// One lane of warp 2.
template <int STAGES> static __device__ __forceinline__ void pass_on(const tile_rows &rows) {
    const uint32_t landed = (uint32_t)__cvta_generic_to_shared(rows.landed),
                   full = (uint32_t)__cvta_generic_to_shared(rows.full);
    each_tile<STAGES>(rows, [&](int stage, int32_t lap, int32_t, int) {
        barrier_wait(landed + 8 * stage, lap & 1);
        fence_async();
        barrier_arrive(full + 8 * stage);
    });
}

// The largest keys of 16 units of 8: lane q of a quad gets those of units 4 q .. 4 q + 3. x[i]: the largest of this lane's
// four keys of the blocks 16 i ..; lanes 0 and 1 hold positions 0 .. 7 of them, lanes 2 and 3 positions 8 .. 15.
static __device__ __forceinline__ uint4 best_of_quad(const uint32_t x[8], int q) {
    uint32_t r[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int i = k < 2 ? k : k + 2; // 0 1 4 5
        const uint32_t sent = q & 1 ? x[i] : x[i + 2], kept = q & 1 ? x[i + 2] : x[i];
        r[k] = max(kept, __shfl_xor_sync(0xffffffffu, sent, 1));
    }
    const uint32_t got0 = __shfl_xor_sync(0xffffffffu, q & 2 ? r[0] : r[2], 2),
                   got1 = __shfl_xor_sync(0xffffffffu, q & 2 ? r[1] : r[3], 2);
    return q & 2 ? make_uint4(got0, r[2], got1, r[3]) : make_uint4(r[0], got0, r[1], got1);
}

// Keys of one row and one tile from the accumulators of its thread.
static __device__ __forceinline__ void write_keys(const choose_job &job, const float (&c)[2][64], float scale,
                                                  int32_t row, int32_t blocks, int32_t tile, int q) {
    const int32_t start = tile * CHOOSE_TILE_BLOCKS;
    const int whole = start + CHOOSE_TILE_BLOCKS <= blocks;
    uint4 *to = (uint4 *)(job.keys + (int64_t)row * job.stride + start) + q;
    uint32_t best[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint32_t key[4];
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int at = (2 * i + j) * 4 + e;
                key[2 * j + e] = choose_key(c[0][at], c[0][at + 2], c[1][at], c[1][at + 2], scale);
            }
        if (!whole) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                key[k] = start + choose_block_of(16 * i + 4 * q + k) < blocks ? key[k] : CHOOSE_MASKED;
        }
        best[i] = max(max(key[0], key[1]), max(key[2], key[3]));
        if (start < blocks)
            to[4 * i] = make_uint4(key[0], key[1], key[2], key[3]);
    }
    if (!job.best) // a sample
        return;
    const uint4 group = best_of_quad(best, q);
    if (start < blocks)
        *((uint4 *)(job.best + (int64_t)row * (job.stride / CHOOSE_GROUP) + start / CHOOSE_GROUP) + q) = group;
}

// A thread's part of its row's list.
typedef struct list_part {
    uint2 *to, *next, *last; // last: where one step's keys still fit
    uint32_t bar, over;
} list_part;

template <bool WHOLE>
static __device__ __forceinline__ void list_keys_of(list_part *part, const float (&c)[2][64], float scale,
                                                    int32_t blocks, int32_t start, int q) {
    uint2 *next = part->next;
#pragma unroll
    for (int at = 0; at < 64; at += at & 1 ? 3 : 1) {
        const uint32_t key = choose_key(c[0][at], c[0][at + 2], c[1][at], c[1][at + 2], scale);
        const int32_t block = start + 2 * q + (at >> 2) * 8 + (at & 1);
        if (key >= part->bar && (WHOLE || block < blocks))
            *next++ = make_uint2(key, (uint32_t)block);
    }
    part->next = next;
}

static __device__ __forceinline__ void list_keys(list_part *part, const float (&c)[2][64], float scale, int32_t blocks,
                                                 int32_t tile, int q) {
    const int32_t start = tile * CHOOSE_TILE_BLOCKS;
    if (part->next > part->last)
        part->next = part->last, part->over = 1;
    if (__all_sync(0xffffffffu, start + CHOOSE_TILE_BLOCKS <= blocks))
        list_keys_of<true>(part, c, scale, blocks, start, q);
    else
        list_keys_of<false>(part, c, scale, blocks, start, q);
}

template <int PLANES, bool BF16, int STAGES, bool LIST>
static __device__ __forceinline__ void consume(const choose_job &job, const tile_rows &rows, uint32_t queries,
                                               uint32_t stages, int group, int thread) {
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(rows.full),
                   empty = (uint32_t)__cvta_generic_to_shared(rows.empty);
    const int lane = thread & 31, q = lane & 3;
    const int32_t in_tile = group * 32 + (thread >> 5) * 8 + (lane >> 2), row = blockIdx.y * CHOOSE_TILE_ROWS + in_tile;
    const int32_t own_blocks = rows.tile.blocks[in_tile], own_sequence = rows.tile.sequence[in_tile];
    const float scale = rows.scale[in_tile];
    const int64_t part_at = ((int64_t)row * gridDim.x + blockIdx.x) * 4 + q;
    list_part part = {};
    if (LIST) {
        part.to = part.next = job.lists + part_at * job.list_part;
        part.last = part.to + job.list_part - 32;
        part.bar = !job.bars ? 1u : own_blocks > 0 ? job.bars[row] : 0xffffffffu;
    }
    queries += group * 128 * PANEL;
    if (group == 1)
        named_arrive(1, 256);
    each_tile<STAGES>(rows, [&](int stage, int32_t lap, int32_t tile, int s) {
        const int32_t blocks = own_sequence == rows.tile.sequence[s] ? own_blocks : 0;
        float c[2][64];
        barrier_wait(full + 8 * stage, lap & 1);
        named_sync(1 + group, 256);
        product_fence();
#pragma unroll
        for (int p = 0; p < PLANES; p++)
#pragma unroll
            for (int k = 0; k < CHOOSE_DIM / 16; k++) {
                const uint64_t b =
                    describe(stages + stage * STAGE_BYTES + (k >> 2) * CHOOSE_TILE_BLOCKS * PANEL + (k & 3) * 32);
                const uint32_t a = queries + p * QUERY_BYTES + (k >> 2) * QUERY_ROWS * PANEL + (k & 3) * 32;
                product<BF16>(c[0], describe(a), b, p + k > 0);
                product<BF16>(c[1], describe(a + 64 * PANEL), b, p + k > 0);
            }
        product_commit();
        named_arrive(2 - group, 256);
        product_wait();
        if (lane == 0)
            barrier_arrive(empty + 8 * stage);
        if (LIST)
            list_keys(&part, c, scale, blocks, tile, q);
        else
            write_keys(job, c, scale, row, blocks, tile, q);
    });
    if (group == 0)
        named_sync(1, 256); // takes the other's last arrival
    if (LIST && row < job.count)
        job.list_held[part_at] = part.over ? CHOOSE_OVER : (uint32_t)(part.next - part.to);
}

// Eight rows, by one warp: row r, head h is row 128 (r / 32) + 64 (h / 2) + 16 (r % 32 / 8) + 8 (h % 2) + r % 8.
template <int PLANES, bool BF16>
static __device__ __forceinline__ void load_tile_queries(const choose_job &job, tile_rows *rows, unsigned char *queries,
                                                         int32_t first) {
    const uint32_t lane = threadIdx.x & 31;
    const int64_t row = job.first + blockIdx.y * CHOOSE_TILE_ROWS + first;
    const float4 *from = (const float4 *)(job.index_q + row * CHOOSE_HEADS * CHOOSE_DIM);
#pragma unroll 2
    for (int i = 0; i < 8; i++) {
        const uint32_t r = (uint32_t)(first + i);
        const bool live = rows->tile.blocks[r] > 0;
        float4 x[CHOOSE_HEADS];
#pragma unroll
        for (int h = 0; h < CHOOSE_HEADS; h++)
            x[h] = live ? from[(i * CHOOSE_HEADS + h) * 32 + lane] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const int e = query_exponent(x);
        const float down = choose_power(-e);
#pragma unroll
        for (uint32_t h = 0; h < CHOOSE_HEADS; h++) {
            const query_planes of = query_halves<BF16>(x[h], down);
            const uint32_t at = (r >> 5) * 128 + (h >> 1) * 64 + (r >> 3 & 3) * 16 + (h & 1) * 8 + (r & 7);
            unsigned char *to = queries + swizzled(QUERY_ROWS, at, lane >> 1) + (lane & 1) * 8;
            *(uint2 *)to = of.half;
            if (PLANES == 2)
                *(uint2 *)(to + QUERY_BYTES) = of.rest;
        }
        if (lane == 0)
            rows->scale[r] = choose_scale(e);
    }
}

#endif

template <int PLANES, bool BF16, int STAGES, bool LIST>
__global__ void __launch_bounds__(THREADS, 1) qsa_choose_mma_tiles_kernel(const choose_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ tile_rows rows;
    const uint32_t queries = ((uint32_t)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const uint32_t stages = queries + PLANES * QUERY_BYTES;
    const int thread = threadIdx.x, group = thread >> 7;
    if (thread == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init((uint32_t)__cvta_generic_to_shared(rows.landed + i), 64);
            barrier_init((uint32_t)__cvta_generic_to_shared(rows.full + i), 1);
            barrier_init((uint32_t)__cvta_generic_to_shared(rows.empty + i), 8);
        }
        fence_async();
    }
    choose_chain();
    const bool shared = choose_tile_shared(job, blockIdx.y, &rows.tile);
    if (LIST && thread == 0 && blockIdx.x == 0) {
        job.listed[blockIdx.y] = shared;
        if (blockIdx.y == 0)
            job.failed[0] = 0;
    }
    if (!shared)
        return;
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        if (thread < 256 + 64)
            fetch<STAGES>(job, rows, stages, thread - 256);
        else if (thread == 256 + 64)
            pass_on<STAGES>(rows);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
        load_tile_queries<PLANES, BF16>(job, &rows, dynamic + (queries - (uint32_t)__cvta_generic_to_shared(dynamic)),
                                        group * 32 + (thread >> 5 & 3) * 8);
        fence_async();
        named_sync(3 + group, 128);
        consume<PLANES, BF16, STAGES, LIST>(job, rows, queries, stages, group, thread & 127);
    }
#else
    __trap(); // built for no sm_90a: loud, not wrong
#endif
}

template <int PLANES, bool BF16, int STAGES, bool LIST>
static cudaError_t launch(const choose_job &job, const choose_launch &launch, int splits) {
    const void *kernel = (const void *)qsa_choose_mma_tiles_kernel<PLANES, BF16, STAGES, LIST>;
    const size_t shared = 1024 + PLANES * QUERY_BYTES + STAGES * STAGE_BYTES;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    const dim3 grid((unsigned)splits, (unsigned)((job.count + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS));
    return choose_launch_kernel(kernel, grid, dim3(THREADS), shared, launch, job);
}

cudaError_t choose_launch_tiles(const choose_job &job, const choose_launch &at, int planes, int splits) {
    const bool list = job.lists != nullptr;
    if (at.bf16)
        return list ? launch<2, true, 3, true>(job, at, splits) : launch<2, true, 3, false>(job, at, splits);
    if (planes == 2)
        return list ? launch<2, false, 3, true>(job, at, splits) : launch<2, false, 3, false>(job, at, splits);
    return list ? launch<1, false, 4, true>(job, at, splits) : launch<1, false, 4, false>(job, at, splits);
}
