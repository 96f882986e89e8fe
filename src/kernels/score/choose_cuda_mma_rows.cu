// SPDX-License-Identifier: Apache-2.0
//
// Scores for a few rows, on any device: a grid of warps shares the blocks of each four rows. The keys are read once for
// the rows of a four that share a sequence.

#include "kernels/score/choose_cuda_mma_rows.cuh"

template <int PLANES, bool BF16, bool NATURAL>
__global__ void __launch_bounds__(WARPS * 32, PLANES == 1 ? 2 : 1) qsa_choose_mma_rows_kernel(const choose_job job) {
    const int lane = threadIdx.x & 31, q = lane & 3, g = lane >> 2;
    const int32_t first = blockIdx.y * 4;
    choose_chain();
    if (job.left) {
        __shared__ choose_tile tile;
        if (choose_tile_shared(job, first / CHOOSE_TILE_ROWS, &tile))
            return;
    }
    int32_t sequence = -1;
    const int32_t mine = choose_scored(job, first + q, &sequence); // blocks of row q of the four
    if (__reduce_max_sync(0xffffffffu, (unsigned)mine) == 0)
        return;
    uint32_t b[PLANES][2][STEPS][2];
    const float scale = load_queries<PLANES, BF16, NATURAL>(job, first, lane, b);
    unsigned left = __ballot_sync(0xffffffffu, mine > 0) & 15; // rows still without scores
    while (left) {
        const int32_t of = __shfl_sync(0xffffffffu, sequence, __ffs(left) - 1);
        const int32_t blocks = mine > 0 && sequence == of ? mine : 0;
        left &= ~__ballot_sync(0xffffffffu, blocks > 0);
        const int32_t end = (int32_t)__reduce_max_sync(0xffffffffu, (unsigned)blocks);
        const int32_t *table = job.tables + (int64_t)of * job.table_pages;
        const int32_t warps = gridDim.x * WARPS, chunks = (end + 15) / 16;
        for (int32_t c = (blockIdx.x * WARPS + threadIdx.x / 32) * CHUNKS; c < chunks; c += warps * CHUNKS) {
            uint2 a[CHUNKS][2][STEPS];
#pragma unroll
            for (int i = 0; i < CHUNKS; i++)
                load_keys<NATURAL>(job, table, (c + i) * 16 + g, end, q, a[i]);
#pragma unroll
            for (int i = 0; i < CHUNKS; i++)
                score_chunk<PLANES, BF16>(job, a[i], b, scale, first + q, blocks, c + i, lane);
        }
    }
}

cudaError_t choose_launch_rows(const choose_job &job, const choose_launch &launch, int planes, int natural) {
    const int32_t fours = (job.count + 3) / 4, units = (job.stride / 16 + WARPS * CHUNKS - 1) / (WARPS * CHUNKS);
    const int32_t most = fours > 2 * launch.sms ? 1 : 2 * launch.sms / fours;
    const dim3 grid((unsigned)(units < most ? units : most), (unsigned)fours);
    const void *kernel;
    if (launch.bf16)
        kernel = natural ? (const void *)qsa_choose_mma_rows_kernel<2, true, true>
                         : (const void *)qsa_choose_mma_rows_kernel<2, true, false>;
    else if (planes == 2)
        kernel = natural ? (const void *)qsa_choose_mma_rows_kernel<2, false, true>
                         : (const void *)qsa_choose_mma_rows_kernel<2, false, false>;
    else
        kernel = natural ? (const void *)qsa_choose_mma_rows_kernel<1, false, true>
                         : (const void *)qsa_choose_mma_rows_kernel<1, false, false>;
    return choose_launch_kernel(kernel, grid, dim3(WARPS * 32), 0, launch, job);
}
