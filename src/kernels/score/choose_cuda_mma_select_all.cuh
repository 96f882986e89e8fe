// SPDX-License-Identifier: Apache-2.0
//
// What the selections share, and the exact way for any input: a radix select over all keys of a row.

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_SELECT_ALL_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_SELECT_ALL_CUH

#include "kernels/score/choose_cuda_mma.cuh"

enum { HELD = 4096, HITS = 2048, BINS = 2048 };

typedef struct select_shared {
    uint32_t part[2][32];
    int32_t hits, held, digit, wanted, last;
} select_shared;

typedef struct select_row {
    const uint32_t *keys, *best;
    int32_t blocks, take;
    uint32_t *held_key, *held_block, *above, *equal; // shared memory; above, equal: bitmaps of blocks
    uint16_t *hit;
} select_row;

typedef struct select_bar {
    uint32_t key;   // keys above it are taken
    int32_t wanted; // and so many of the lowest blocks of those equal to it
} select_bar;

enum { SUM, MAX, MIN };

// Over the thread block. `turn` alternates between two buffers, so that one barrier a call is enough.
template <int THREADS, int OP>
static __device__ __forceinline__ uint32_t reduce(select_shared *sh, uint32_t x, int *turn) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const uint32_t none = OP == MIN ? 0xffffffffu : 0u;
#define QSA_REDUCE(v)                                                                                                  \
    (OP == SUM   ? __reduce_add_sync(0xffffffffu, v)                                                                   \
     : OP == MAX ? __reduce_max_sync(0xffffffffu, v)                                                                   \
                 : __reduce_min_sync(0xffffffffu, v))
    x = QSA_REDUCE(x);
    if (lane == 0)
        sh->part[*turn][warp] = x;
    __syncthreads();
    x = lane < THREADS / 32 ? sh->part[*turn][lane] : none;
    *turn ^= 1;
    return QSA_REDUCE(x);
#undef QSA_REDUCE
}

// Sum of the threads before this one.
template <int THREADS> static __device__ __forceinline__ int32_t scan(select_shared *sh, int32_t x, int *turn) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int32_t sum = x;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int32_t y = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? y : 0;
    }
    if (lane == 31)
        sh->part[*turn][warp] = (uint32_t)sum;
    __syncthreads();
    const uint32_t before = __reduce_add_sync(0xffffffffu, lane < warp ? sh->part[*turn][lane] : 0u);
    *turn ^= 1;
    return (int32_t)before + sum - x;
}

// One more in a bin; equal digits of a warp, which ties make common, are counted together.
static __device__ __forceinline__ void count_digit(uint32_t *bins, bool some, uint32_t digit) {
    unsigned left = __ballot_sync(0xffffffffu, some);
    for (int peel = 0; peel < 2 && left; peel++) {
        const int leader = __ffs(left) - 1;
        const uint32_t of = __shfl_sync(0xffffffffu, digit, leader);
        const unsigned same = __ballot_sync(0xffffffffu, some && digit == of);
        if ((int)(threadIdx.x & 31) == leader)
            atomicAdd(bins + of, (uint32_t)__popc(same));
        some = some && digit != of;
        left &= ~same;
    }
    if (some)
        atomicAdd(bins + digit, 1u);
}

// The digit of the wanted-th key from above, by one warp; sh->wanted: how many of it are wanted.
static __device__ void find_digit(select_shared *sh, const uint32_t *bins) {
    const int lane = threadIdx.x & 31;
    const int32_t wanted = sh->wanted;
    const uint32_t top = BINS - 1 - (uint32_t)lane * (BINS / 32);
    int32_t own = 0;
#pragma unroll 4
    for (int i = 0; i < BINS / 32; i++)
        own += (int32_t)bins[top - (uint32_t)((i + lane) % (BINS / 32))];
    int32_t sum = own;
    for (int d = 1; d < 32; d *= 2) {
        const int32_t y = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? y : 0;
    }
    __syncwarp();
    if (sum >= wanted && sum - own < wanted) {
        int32_t rest = wanted - (sum - own);
        uint32_t digit = top;
        while ((int32_t)bins[digit] < rest)
            rest -= (int32_t)bins[digit--];
        sh->digit = (int32_t)digit;
        sh->wanted = rest;
    }
}

// The exact way for any input: three digits over all the row's keys.
template <int THREADS> static __device__ __noinline__ select_bar among_all(const select_row &row, select_shared *sh) {
    uint32_t *bins = row.held_key, prefix = 0;
    const int32_t positions = (row.blocks + 15) / 16 * 16;
    __syncthreads();
    if (threadIdx.x == 0)
        sh->wanted = row.take;
#pragma unroll 1
    for (int pass = 0; pass < 3; pass++) {
        const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0, bits = pass == 2 ? 10 : 11;
        for (int i = threadIdx.x; i < BINS; i += THREADS)
            bins[i] = 0;
        __syncthreads();
        for (int32_t base = 0; base < positions; base += 4 * THREADS) {
            const int32_t at = base + 4 * (int32_t)threadIdx.x;
            const uint4 v = at < positions ? *(const uint4 *)(row.keys + at) : make_uint4(0, 0, 0, 0);
            const uint32_t k[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
                count_digit(bins,
                            k[i] != CHOOSE_MASKED && (pass == 0 || k[i] >> (shift + bits) == prefix >> (shift + bits)),
                            k[i] >> shift & ((1u << bits) - 1));
        }
        __syncthreads();
        if (threadIdx.x < 32)
            find_digit(sh, bins);
        __syncthreads();
        prefix |= (uint32_t)sh->digit << shift;
    }
    const select_bar bar = {prefix, sh->wanted};
    for (int32_t at = 4 * (int32_t)threadIdx.x; at < positions; at += 4 * THREADS) {
        const uint4 v = *(const uint4 *)(row.keys + at);
        const uint32_t k[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int32_t block = choose_block_of(at + i);
            if (k[i] >= bar.key && k[i] != CHOOSE_MASKED)
                atomicOr((k[i] > bar.key ? row.above : row.equal) + (block >> 5), 1u << (block & 31));
        }
    }
    return bar;
}

#endif
