// SPDX-License-Identifier: Apache-2.0
//
// The selection of rows by list: scores below a bar are never written.
//
// The bar is a guess: a place among the scores of a sample of the row's blocks, so far down that some more than `take` of
// all its scores should reach it. The result does not depend on the guess. If at least `take` scores reached it and all
// of them are in the list, the list holds the `take` best, whatever the bar was; else the row goes the way of a row
// alone: all its scores, and the selection among these.

#include "kernels/score/choose_cuda_mma_rows.cuh"
#include "kernels/score/choose_cuda_mma_select.cuh"

enum {
    LISTED_HELD = 3072,
    LISTED_PARTS = 1024, // most parts of a row
    LANES = 8,           // threads a part
    LISTED_THREADS = 128,
    FAILED_THREADS = 256
};

// The bars: WARPS warps a row, 32 of the sample's keys a thread.
template <int WARPS> __global__ void __launch_bounds__(WARPS * 32) qsa_choose_mma_bars_kernel(const choose_job job) {
    __shared__ select_shared sh;
    choose_chain();
    int32_t sequence;
    const int32_t all = choose_scored(job, (int32_t)blockIdx.x, &sequence), blocks = all / job.sample;
    if (all == 0)
        return;
    int turn = 0;
    const uint32_t *keys = job.keys + (int64_t)blockIdx.x * job.stride;
    const int32_t positions = (blocks + 15) / 16 * 16;
    uint32_t own[32], most = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int32_t at = (i * WARPS * 32 + (int32_t)threadIdx.x) * 4;
        const uint4 v = at < positions ? *(const uint4 *)(keys + at) : make_uint4(0, 0, 0, 0);
        own[4 * i] = v.x, own[4 * i + 1] = v.y, own[4 * i + 2] = v.z, own[4 * i + 3] = v.w;
        most = max(max(most, max(v.x, v.y)), max(v.z, v.w));
    }
    most = reduce<WARPS * 32, MAX>(&sh, most, &turn);
    // All scores but NaN if the sample has too few others, all of them if the list holds the row anyway.
    uint32_t low = 0x80000000u, high = most + 1;
    while (high > low && high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        int32_t n = 0;
#pragma unroll
        for (int i = 0; i < 32; i++)
            n += own[i] >= middle;
        n = (int32_t)reduce<WARPS * 32, SUM>(&sh, (uint32_t)n, &turn);
        if (n >= job.wanted)
            low = middle;
        else
            high = middle;
        if (n >= job.wanted && n <= job.wanted + job.wanted / 32)
            break;
    }
    if (threadIdx.x == 0)
        job.bars[blockIdx.x] = all <= CHOOSE_ALL_LISTED ? 1u : low;
}

// The row's list in shared memory; 0 if it does not do.
static __device__ __forceinline__ int32_t collect(const choose_job &job, const select_row &row, select_shared *sh,
                                                  int32_t *before, uint32_t *most, int *turn) {
    const int32_t parts = job.list_parts, per = (parts + LISTED_THREADS - 1) / LISTED_THREADS;
    const uint32_t *held = job.list_held + (int64_t)blockIdx.x * parts;
    int32_t n = 0, over = !job.listed[blockIdx.x / CHOOSE_TILE_ROWS];
    if (__syncthreads_or(over))
        return 0;
    for (int32_t p = (int32_t)threadIdx.x * per; p < (int32_t)(threadIdx.x + 1) * per && p < parts; p++) {
        const uint32_t of = held[p];
        over |= of == CHOOSE_OVER;
        before[p] = n;
        n += of == CHOOSE_OVER ? 0 : (int32_t)of;
    }
    const int32_t sum = scan<LISTED_THREADS>(sh, n, turn);
    for (int32_t p = (int32_t)threadIdx.x * per; p < (int32_t)(threadIdx.x + 1) * per && p < parts; p++)
        before[p] += sum;
    if (threadIdx.x == LISTED_THREADS - 1)
        before[parts] = sum + n;
    over = __syncthreads_or(over);
    const int32_t total = before[parts];
    if (over || total < row.take || total > LISTED_HELD)
        return 0;
    const uint2 *lists = job.lists + (int64_t)blockIdx.x * parts * job.list_part;
    uint32_t largest = 0;
    for (int32_t p = (int32_t)threadIdx.x / LANES; p < parts; p += LISTED_THREADS / LANES) {
        const int32_t to = before[p], count = before[p + 1] - to;
#pragma unroll 4
        for (int32_t i = (int32_t)threadIdx.x % LANES; i < count; i += LANES) {
            const uint2 v = lists[(int64_t)p * job.list_part + i];
            row.held_key[to + i] = v.x;
            row.held_block[to + i] = v.y;
            largest = max(largest, v.x);
        }
    }
    *most = reduce<LISTED_THREADS, MAX>(sh, largest, turn);
    return total;
}

__global__ void __launch_bounds__(LISTED_THREADS, 1024 / LISTED_THREADS)
    qsa_choose_mma_listed_kernel(const choose_job job) {
    extern __shared__ uint4 dynamic[];
    __shared__ select_shared sh;
    __shared__ int32_t before[LISTED_PARTS + 1];
    choose_chain();
    const int64_t at = job.first + blockIdx.x;
    const select_task task = begin_row<LISTED_THREADS>(job, &sh, at);
    if (task.take == 0)
        return;
    select_row row = {};
    row.blocks = task.blocks;
    row.take = task.take;
    row.held_key = (uint32_t *)dynamic;
    row.held_block = row.held_key + LISTED_HELD;
    const int32_t words = (task.blocks + 31) / 32;
    row.above = row.held_block + LISTED_HELD;
    row.equal = row.above + words;
    clear_bitmaps(row, words, LISTED_THREADS);
    int turn = 0;
    uint32_t most = 0;
    const int32_t n = collect(job, row, &sh, before, &most, &turn);
    if (n == 0) {
        if (threadIdx.x == 0) {
            const int32_t to = atomicAdd(job.failed, 1);
            if (to < job.count)
                job.failed[1 + to] = (int32_t)blockIdx.x;
        }
        return;
    }
    const uint32_t low = job.bars ? job.bars[blockIdx.x] : 1u;
    const select_bar bar =
        among_held<LISTED_THREADS, 1536 / LISTED_THREADS>(row, &sh, n, n, low, most, task.cut_cells > 0, &turn);
    end_row<LISTED_THREADS>(job, row, &sh, at, bar.wanted, task.cut_cells, &turn);
}

// Rows whose list did not do, a thread block each.
template <int PLANES, bool BF16>
__global__ void __launch_bounds__(FAILED_THREADS, 1) qsa_choose_mma_failed_kernel(const choose_job job) {
    extern __shared__ uint4 dynamic[];
    __shared__ select_shared sh;
    choose_chain();
    const int lane = threadIdx.x & 31, q = lane & 3;
    const int32_t rows = min(job.failed[0], job.count);
    uint32_t *keys = job.keys + (int64_t)blockIdx.x * job.stride;
    uint32_t *best = job.best + (int64_t)blockIdx.x * (job.stride / CHOOSE_GROUP);
    choose_job own = job;
    own.keys = keys, own.best = best;
    for (int32_t i = blockIdx.x; i < rows; i += gridDim.x) {
        const int32_t row = job.failed[1 + i];
        int32_t sequence;
        const int32_t blocks = choose_scored(job, row, &sequence);
        const int32_t *table = job.tables + (int64_t)sequence * job.table_pages;
        uint32_t b[PLANES][2][STEPS][2];
        const float scale = load_queries<PLANES, BF16>(job, row, lane, b);
        const int32_t chunks = (blocks + 15) / 16;
        for (int32_t c = ((int32_t)threadIdx.x / 32) * CHUNKS; c < chunks; c += FAILED_THREADS / 32 * CHUNKS) {
            uint2 a[CHUNKS][2][STEPS];
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) {
                const int32_t block = (c + k) * 16 + (lane >> 2);
                const uint32_t place[2] = {block < blocks ? (uint32_t)choose_key_row(job, table, block) : NO_KEY,
                                           block + 8 < blocks ? (uint32_t)choose_key_row(job, table, block + 8)
                                                              : NO_KEY};
                load_keys(job, place, q, a[k]);
            }
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) // row 0 of the four alone has blocks
                score_chunk<PLANES, BF16>(own, a[k], b, scale, 0, q == 0 ? blocks : 0, c + k, lane);
        }
        __syncthreads();
        select_by_keys<FAILED_THREADS, 16>(job, &sh, dynamic, job.first + row, keys, best);
        __syncthreads();
    }
}

static cudaError_t launch(const void *kernel, unsigned grid, unsigned threads, size_t shared, const choose_job &job,
                          const choose_launch &launch) {
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    return error != cudaSuccess ? error : choose_launch_kernel(kernel, dim3(grid), dim3(threads), shared, launch, job);
}

cudaError_t choose_launch_bars(const choose_job &job, const choose_launch &at, int32_t most_sampled) {
    const unsigned warps = most_sampled <= 1024 ? 1 : most_sampled <= 2048 ? 2 : most_sampled <= 4096 ? 4 : 8;
    const void *kernel = warps == 1   ? (const void *)qsa_choose_mma_bars_kernel<1>
                         : warps == 2 ? (const void *)qsa_choose_mma_bars_kernel<2>
                         : warps == 4 ? (const void *)qsa_choose_mma_bars_kernel<4>
                                      : (const void *)qsa_choose_mma_bars_kernel<8>;
    return choose_launch_kernel(kernel, dim3((unsigned)job.count), dim3(32 * warps), 0, at, job);
}

cudaError_t choose_launch_listed(const choose_job &job, const choose_launch &at) {
    return launch((const void *)qsa_choose_mma_listed_kernel, (unsigned)job.count, LISTED_THREADS,
                  LISTED_HELD * 8 + (size_t)job.stride / 32 * 8, job, at);
}

cudaError_t choose_launch_failed(const choose_job &job, const choose_launch &at, int planes) {
    const void *kernel = at.bf16       ? (const void *)qsa_choose_mma_failed_kernel<2, true>
                         : planes == 2 ? (const void *)qsa_choose_mma_failed_kernel<2, false>
                                       : (const void *)qsa_choose_mma_failed_kernel<1, false>;
    return launch(kernel, (unsigned)job.slots, FAILED_THREADS, select_bytes(job), job, at);
}
