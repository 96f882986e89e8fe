// SPDX-License-Identifier: Apache-2.0
//
// The parts of the device's radix select: reading scores in tiles, sums over a thread block, finding a digit in a
// histogram.

#ifndef QSA_KERNELS_TOPK_SELECT_CUDA_H
#define QSA_KERNELS_TOPK_SELECT_CUDA_H

#include "kernels/cuda_io.h"
#include "kernels/topk/key.h"

enum { QSA_TILE_EACH = 16 }; // scores per thread and tile, read before any is used

// Scores begin .. end - 1 of a row, begin a multiple of 4: f(x, b) gets 16 scores of this thread, of which x[4 q + e]
// is block b(q) + e, b(q) = b + 4 * THREADS * q; blocks of `end` and beyond come as NaN and are to be skipped. All
// threads of the block come equally often.
template <int THREADS, class F>
static __device__ __forceinline__ void qsa_cuda_tiles(const float *scores, int32_t begin, int32_t end, F f) {
    const bool aligned = ((uintptr_t)scores & 15) == 0;
    for (int64_t base = begin; base < end; base += QSA_TILE_EACH * THREADS) {
        const int64_t b = base + 4 * threadIdx.x;
        float x[QSA_TILE_EACH];
#pragma unroll
        for (int q = 0; q < QSA_TILE_EACH / 4; q++) {
            const int64_t at = b + 4 * THREADS * q;
            if (aligned && at + 4 <= end) {
                const float4 four = *(const float4 *)(scores + at);
                x[4 * q] = four.x, x[4 * q + 1] = four.y, x[4 * q + 2] = four.z, x[4 * q + 3] = four.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[4 * q + e] = at + e < end ? scores[at + e] : qsa_nan();
            }
        }
        f(x, b);
    }
}

// The sum of x over the threads before this one. `part` is scratch of THREADS / 32; used again only behind a barrier.
template <int THREADS> static __device__ uint64_t qsa_cuda_sum_before(uint64_t x, uint64_t *part) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint64_t sum = x;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint64_t below = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? below : 0;
    }
    if (lane == 31)
        part[warp] = sum;
    __syncthreads();
    const uint64_t mine = lane < THREADS / 32 ? part[lane] : 0;
    uint64_t before = lane < warp ? mine : 0;
#pragma unroll
    for (int step = 16; step >= 1; step /= 2)
        before += __shfl_xor_sync(~0u, before, step);
    return before + sum - x;
}

// From the top of a histogram, the bin in which the wanted-th entry lies (bin 0 if there are fewer) and how many of
// that bin are wanted. Begins and ends with a barrier.
struct qsa_cuda_found {
    uint32_t digit;
    int32_t wanted;
    int32_t count; // entries of the bin
};
template <int THREADS, int BINS>
static __device__ void qsa_cuda_find(const int32_t *histogram, int32_t wanted, qsa_cuda_found *found, uint64_t *part) {
    constexpr int each = BINS / THREADS;
    __syncthreads();
    if (threadIdx.x == 0)
        *found = {0, 0, 0};
    int32_t count[each], sum = 0;
#pragma unroll
    for (int i = 0; i < each; i++) {
        count[i] = histogram[BINS - 1 - (int)threadIdx.x * each - i];
        sum += count[i];
    }
    int64_t before = (int64_t)qsa_cuda_sum_before<THREADS>((uint64_t)sum, part); // its barrier lies behind the reset
#pragma unroll
    for (int i = 0; i < each; i++) {
        if (before < wanted && wanted <= before + count[i])
            *found = {(uint32_t)(BINS - 1 - (int)threadIdx.x * each - i), (int32_t)(wanted - before), count[i]};
        before += count[i];
    }
    __syncthreads();
}

#endif
