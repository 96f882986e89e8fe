// SPDX-License-Identifier: Apache-2.0
//
// Scores for a few rows, on any device: a grid of warps shares the blocks of each four rows. The keys are read once for
// the rows of a four that share a sequence. A warp has the keys of two chunks of 16 blocks under way, and the places of a
// third; the first are asked for before the queries are there. A thread block reads its queries once: all of them ask for
// the same few lines.

#include "kernels/score/choose_cuda_mma_rows.cuh"

enum { SLOT_BYTES = 2 * CHOOSE_DIM + 32 }; // of a query in shared memory: eight of them in different banks

// What a warp does next.
typedef struct rows_item {
    int32_t chunk, blocks;     // chunk -1: nothing; blocks of this lane's row, 0 if it has another sequence
    int32_t page[2], inner[2]; // where keys g and g + 8 of the chunk lie; inner -1: there is none
} rows_item;

typedef struct rows_walk {
    int32_t mine, sequence; // of row q of the four
    unsigned left;          // rows whose sequence is still to come
    int32_t chunk, chunks, step, blocks, end;
    const int32_t *table;
} rows_walk;

static __device__ __forceinline__ rows_item next_item(const choose_job &job, rows_walk *w, int32_t start, int g) {
    w->chunk += w->step;
    while (w->chunk >= w->chunks && w->left) {
        const int32_t of = __shfl_sync(0xffffffffu, w->sequence, __ffs((int)w->left) - 1);
        w->blocks = w->mine > 0 && w->sequence == of ? w->mine : 0;
        w->left &= ~__ballot_sync(0xffffffffu, w->blocks > 0);
        w->end = (int32_t)__reduce_max_sync(0xffffffffu, (unsigned)w->blocks);
        w->table = job.tables + (int64_t)of * job.table_pages;
        w->chunks = (w->end + 15) / 16;
        w->chunk = start;
    }
    rows_item item = {-1, 0, {0, 0}, {-1, -1}};
    if (w->chunk < w->chunks) {
        item.chunk = w->chunk, item.blocks = w->blocks;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int32_t block = w->chunk * 16 + g + 8 * h, at = min(block, w->end - 1), page = choose_page(job, at);
            item.page[h] = w->table[page];
            item.inner[h] = block < w->end ? at - page * job.page_blocks : -1;
        }
    }
    return item;
}

static __device__ __forceinline__ void load_item(const choose_job &job, const rows_item &item, int q,
                                                 uint2 a[2][STEPS]) {
    uint32_t place[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        place[h] = item.inner[h] >= 0 ? (uint32_t)(item.page[h] * job.page_blocks + item.inner[h]) : NO_KEY;
    load_keys(job, place, q, a);
}

template <int PLANES, bool BF16>
__global__ void __launch_bounds__(WARPS * 32, PLANES == 1 ? 2 : 1) qsa_choose_mma_rows_kernel(const choose_job job) {
    __shared__ uint2 queries[PLANES][16 * SLOT_BYTES / 8];
    __shared__ float scales[4];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, q = lane & 3, g = lane >> 2;
    const int32_t first = blockIdx.y * 4;
    choose_chain();
    if (job.left) {
        __shared__ choose_tile tile;
        if (choose_tile_shared(job, first / CHOOSE_TILE_ROWS, &tile))
            return;
    }
    float4 x[4] = {};
    if (warp < 4 && first + warp < job.count) {
        const int64_t row = job.first + first + warp;
        const float4 *from = (const float4 *)(job.index_q + row * CHOOSE_HEADS * CHOOSE_DIM);
#pragma unroll
        for (int h = 0; h < CHOOSE_HEADS; h++)
            x[h] = from[h * 32 + lane];
    }
    rows_walk walk = {};
    walk.sequence = -1;
    walk.mine = choose_scored(job, first + q, &walk.sequence);
    walk.left = __ballot_sync(0xffffffffu, walk.mine > 0) & 15;
    if (walk.left == 0) // so for all warps
        return;
    const int32_t start = (int32_t)(blockIdx.x * WARPS) + warp;
    walk.step = (int32_t)gridDim.x * WARPS;
    uint2 a[2][2][STEPS];
    rows_item now[2];
    now[0] = next_item(job, &walk, start, g);
    now[1] = next_item(job, &walk, start, g);
    rows_item then = next_item(job, &walk, start, g);
    load_item(job, now[0], q, a[0]);
    load_item(job, now[1], q, a[1]);
    if (warp < 4) { // queries: (row r, head h) in slot 8 (h / 2) + 2 r + h % 2
        const int e = query_exponent(x);
        const float down = choose_power(-e);
#pragma unroll
        for (int h = 0; h < CHOOSE_HEADS; h++) {
            const query_planes of = query_halves<BF16>(x[h], down);
            const int to = ((h >> 1) * 8 + warp * 2 + (h & 1)) * (SLOT_BYTES / 8) + lane;
            queries[0][to] = of.half;
            if (PLANES == 2)
                queries[PLANES - 1][to] = of.rest;
        }
        if (lane == 0)
            scales[warp] = choose_scale(e);
    }
    __syncthreads();
    uint32_t b[PLANES][2][STEPS][2];
#pragma unroll
    for (int p = 0; p < PLANES; p++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const uint2 v = queries[p][(t * 8 + g) * (SLOT_BYTES / 8) + 4 * s + q];
                b[p][t][s][0] = v.x, b[p][t][s][1] = v.y;
            }
    const float scale = scales[q];
    while (now[0].chunk >= 0) { // a warp's chunks in turn through both: none follows nothing
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (now[i].chunk < 0)
                break;
            score_chunk<PLANES, BF16>(job, a[i], b, scale, first + q, now[i].blocks, now[i].chunk, lane);
            now[i] = then;
            load_item(job, then, q, a[i]);
            then = next_item(job, &walk, start, g);
        }
    }
}

cudaError_t choose_launch_rows(const choose_job &job, const choose_launch &launch, int planes) {
    const int32_t fours = (job.count + 3) / 4, units = (job.stride / 16 + WARPS * CHUNKS - 1) / (WARPS * CHUNKS);
    const int32_t most = fours > 2 * launch.sms ? 1 : 2 * launch.sms / fours;
    const dim3 grid((unsigned)(units < most ? units : most), (unsigned)fours);
    const void *kernel = launch.bf16   ? (const void *)qsa_choose_mma_rows_kernel<2, true>
                         : planes == 2 ? (const void *)qsa_choose_mma_rows_kernel<2, false>
                                       : (const void *)qsa_choose_mma_rows_kernel<1, false>;
    return choose_launch_kernel(kernel, grid, dim3(WARPS * 32), 0, launch, job);
}
