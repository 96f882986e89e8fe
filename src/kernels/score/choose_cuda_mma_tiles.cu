// SPDX-License-Identifier: Apache-2.0
//
// Scores for many rows (sm_90a): a thread block holds the queries of 64 rows x 4 heads in shared memory and multiplies
// them with tiles of 128 block keys that a producer warpgroup fetches through the page table. Two consumer warpgroups
// take 32 rows each: 128 x 128 products in two m64n128 accumulators. Query row 64 t + 16 w + 8 h + g of a warpgroup is
// (row 8 w + g, head 2 t + h), so that one thread's accumulators hold all four heads of one row, and a score is made
// without leaving the thread. While one warpgroup makes scores the other's products keep the tensor cores busy.
//
// cp.async rather than the bulk tensor copy engine: pages may have any size, and no tensor map has to be made.
//
// A tile with rows of several sequences takes them one after the other. With fewer than 8 rows a sequence that wastes
// more than it saves, and the kernel leaves its tile to the mma.sync kernel (choose_tile_shared decides for both).

#include "kernels/score/choose_cuda_mma.cuh"
#include "kernels/score/choose_cuda_mma_planes.cuh"
#include "kernels/score/choose_cuda_mma_wgmma.cuh"

enum {
    THREADS = 384,
    PANEL = 128,                                // bytes of a row in a panel: 64 halves
    QUERY_ROWS = CHOOSE_TILE_ROWS * CHOOSE_HEADS, // 256
    QUERY_BYTES = 2 * QUERY_ROWS * PANEL,       // one plane
    STAGE_BYTES = 2 * CHOOSE_TILE_BLOCKS * PANEL
};

typedef struct tile_rows {
    choose_tile tile;
    uint64_t full[4], empty[4];
} tile_rows;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

static __device__ __forceinline__ uint32_t swizzled(uint32_t panel_rows, uint32_t row, uint32_t piece) {
    return (piece >> 3) * panel_rows * PANEL + row * PANEL + ((piece & 7) ^ (row & 7)) * 16;
}

template <int PLANES, int STAGES>
static __device__ void produce(const choose_job &job, const tile_rows &rows, uint32_t stages, int thread) {
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(rows.full),
                   empty = (uint32_t)__cvta_generic_to_shared(rows.empty);
    const int lane = thread & 31, warp = thread >> 5;
    const char *keys = (const char *)job.block_keys;
    int32_t step = 0;
    for (int s = 0; s < CHOOSE_TILE_ROWS; s++) {
        const int32_t end = rows.tile.end[s];
        if (end == 0)
            continue;
        const int32_t *table = job.tables + (int64_t)rows.tile.sequence[s] * job.table_pages;
        for (int32_t tile = blockIdx.x; tile * CHOOSE_TILE_BLOCKS < end; tile += gridDim.x, step++) {
            // A warp fetches 32 keys: a lane finds the place of one of them, half a warp copies one.
            const int32_t own = tile * CHOOSE_TILE_BLOCKS + warp * 32 + lane;
            const int64_t place = own < end ? choose_key_row(job, table, own) : -1;
            const int stage = step % STAGES;
            if (step >= STAGES)
                barrier_wait(empty + 8 * stage, (step / STAGES - 1) & 1);
#pragma unroll
            for (int i = 0; i < 16; i++) {
                const uint32_t row = 2 * i + (lane >> 4);
                const int64_t from = __shfl_sync(0xffffffffu, place, row);
                if (from >= 0)
                    copy16(stages + stage * STAGE_BYTES + swizzled(CHOOSE_TILE_BLOCKS, warp * 32 + row, lane & 15),
                           keys + from * (2 * CHOOSE_DIM) + (lane & 15) * 16);
            }
            copies_commit();
            if (step >= 2) { // two steps' copies stay under way: fewer than STAGES, or none would ever be handed over
                copies_wait<2>();
                fence_async();
                barrier_arrive(full + 8 * ((step - 2) % STAGES));
            }
        }
    }
    copies_wait<0>();
    fence_async();
    for (int32_t i = step < 2 ? 0 : step - 2; i < step; i++)
        barrier_arrive(full + 8 * (i % STAGES));
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
    const uint4 group = best_of_quad(best, q);
    if (start < blocks)
        *((uint4 *)(job.best + (int64_t)row * (job.stride / CHOOSE_GROUP) + start / CHOOSE_GROUP) + q) = group;
}

template <int PLANES, bool BF16, int STAGES, int ORDER>
static __device__ void consume(const choose_job &job, const tile_rows &rows, uint32_t queries, uint32_t stages,
                               int group, int thread) {
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(rows.full),
                   empty = (uint32_t)__cvta_generic_to_shared(rows.empty);
    const int lane = thread & 31, q = lane & 3;
    const int32_t in_tile = group * 32 + (thread >> 5) * 8 + (lane >> 2), row = blockIdx.y * CHOOSE_TILE_ROWS + in_tile;
    const float scale = rows.tile.blocks[in_tile] > 0 ? job.scales[job.first + row] : 0.0f;
    queries += group * 128 * PANEL;
    if (ORDER != 0 && group == 1)
        named_arrive(1, 256);
    int32_t step = 0;
    for (int s = 0; s < CHOOSE_TILE_ROWS; s++) {
        const int32_t end = rows.tile.end[s];
        if (end == 0)
            continue;
        const int32_t blocks = rows.tile.sequence[in_tile] == rows.tile.sequence[s] ? rows.tile.blocks[in_tile] : 0;
        for (int32_t tile = blockIdx.x; tile * CHOOSE_TILE_BLOCKS < end; tile += gridDim.x, step++) {
            const int stage = step % STAGES;
            float c[2][64];
            barrier_wait(full + 8 * stage, (step / STAGES) & 1);
            if (ORDER != 0)
                named_sync(1 + group, 256);
            product_fence();
#pragma unroll
            for (int p = 0; p < PLANES; p++)
#pragma unroll
                for (int k = 0; k < CHOOSE_DIM / 16; k++) {
                    const uint64_t b =
                        describe(stages + stage * STAGE_BYTES + (k >> 2) * CHOOSE_TILE_BLOCKS * PANEL + (k & 3) * 32);
                    const uint32_t a = queries + p * QUERY_BYTES + (k >> 2) * QUERY_ROWS * PANEL + (k & 3) * 32;
                    if (ORDER == 4 && p + k > 0) // timing: without the products
                        break;
                    product<BF16>(c[0], describe(a), b, p + k > 0);
                    product<BF16>(c[1], describe(a + 64 * PANEL), b, p + k > 0);
                }
            product_commit();
            if (ORDER == 1 || ORDER == 3)
                named_arrive(2 - group, 256);
            product_wait();
            if (ORDER == 2 || ORDER == 4)
                named_arrive(2 - group, 256);
            if (lane == 0)
                barrier_arrive(empty + 8 * stage);
            if (ORDER != 3 || scale == 12345.0f) // 3: timing, without the scores
                write_keys(job, c, scale, row, blocks, tile, q);
        }
    }
    if (ORDER != 0 && group == 0)
        named_sync(1, 256); // takes the other's last arrival
}

#endif

template <int PLANES, bool BF16, int STAGES, int ORDER>
__global__ void __launch_bounds__(THREADS, 1) qsa_choose_mma_tiles_kernel(const choose_job job) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char dynamic[];
    __shared__ tile_rows rows;
    const uint32_t queries = ((uint32_t)__cvta_generic_to_shared(dynamic) + 1023) & ~1023u;
    const uint32_t stages = queries + PLANES * QUERY_BYTES;
    const int thread = threadIdx.x, group = thread >> 7;
    choose_chain();
    if (thread == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init((uint32_t)__cvta_generic_to_shared(rows.full + i), 128);
            barrier_init((uint32_t)__cvta_generic_to_shared(rows.empty + i), 8);
        }
        fence_async();
    }
    if (!choose_tile_shared(job, blockIdx.y, &rows.tile))
        return;
    // queries: row r, head h is row 128 (r / 32) + 64 (h / 2) + 16 (r % 32 / 8) + 8 (h % 2) + r % 8
    for (int i = thread; i < PLANES * QUERY_ROWS * 16; i += THREADS) {
        const int piece = i & 15, head = i >> 4 & 3, plane = PLANES == 2 ? i >> 6 & 1 : 0;
        const int r = i >> (PLANES == 2 ? 7 : 6);
        const uint32_t at = (r >> 5) * 128 + (head >> 1) * 64 + (r >> 3 & 3) * 16 + (head & 1) * 8 + (r & 7);
        if (rows.tile.blocks[r] > 0)
            copy16(queries + plane * QUERY_BYTES + swizzled(QUERY_ROWS, at, piece),
                   job.planes + (((int64_t)(job.first + blockIdx.y * CHOOSE_TILE_ROWS + r) * PLANES + plane) *
                                     CHOOSE_HEADS +
                                 head) * CHOOSE_DIM + piece * 8);
    }
    copies_commit();
    copies_wait<0>();
    fence_async();
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        produce<PLANES, STAGES>(job, rows, stages, thread - 256);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume<PLANES, BF16, STAGES, ORDER>(job, rows, queries, stages, group, thread & 127);
    }
#else
    __trap(); // built for no sm_90a: loud, not wrong
#endif
}

template <int PLANES, bool BF16, int STAGES, int ORDER>
static cudaError_t launch(const choose_job &job, const choose_launch &launch, int splits) {
    const void *kernel = (const void *)qsa_choose_mma_tiles_kernel<PLANES, BF16, STAGES, ORDER>;
    const size_t shared = 1024 + PLANES * QUERY_BYTES + STAGES * STAGE_BYTES;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    const dim3 grid((unsigned)splits, (unsigned)((job.count + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS));
    return choose_launch_kernel(kernel, grid, dim3(THREADS), shared, launch, job);
}

cudaError_t choose_launch_tiles(const choose_job &job, const choose_launch &at, int planes, int order, int splits) {
    if (at.bf16)
        return launch<2, true, 3, 1>(job, at, splits);
    if (planes == 2)
        return launch<2, false, 3, 1>(job, at, splits);
    return order == 0   ? launch<1, false, 4, 0>(job, at, splits)
           : order == 1 ? launch<1, false, 4, 1>(job, at, splits)
           : order == 2 ? launch<1, false, 4, 2>(job, at, splits)
           : order == 3 ? launch<1, false, 4, 3>(job, at, splits)
                        : launch<1, false, 4, 4>(job, at, splits);
}
