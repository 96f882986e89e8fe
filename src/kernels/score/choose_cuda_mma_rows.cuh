// SPDX-License-Identifier: Apache-2.0
//
// Scores for a few rows: mma.sync with 16 block keys as A, straight from memory to registers, and 4 rows x 4 heads as
// B. Column 2 q + e of the n-tile t is (row q, head 2 t + e): the thread that holds it has all heads of its row, and
// no sum crosses threads.

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_ROWS_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_ROWS_CUH

#include "kernels/score/choose_cuda_mma.cuh"
#include "kernels/score/choose_cuda_mma_planes.cuh"

#define NO_KEY 0xffffffffu

enum { WARPS = 8, STEPS = CHOOSE_DIM / 16, CHUNKS = 2 };

template <bool BF16>
static __device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], const uint32_t b[2]) {
    if constexpr (BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The B fragments of four rows. Thread (g, q) holds column g: row g / 2, head 2 t + g % 2; the eight lanes with one g / 2
// hold all of that row. Register r of step s is dims 16 s + 4 q + 2 r, + 1.
template <int PLANES, bool BF16>
static __device__ __forceinline__ float load_queries(const choose_job &job, int32_t first, int lane,
                                                     uint32_t b[PLANES][2][STEPS][2]) {
    const int g = lane >> 2, q = lane & 3;
    const int32_t row = first + (g >> 1);
    float x[2][STEPS][4];
    uint32_t largest = 0;
#pragma unroll
    for (int t = 0; t < 2; t++) {
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const float *from =
                job.index_q + ((int64_t)(job.first + row) * CHOOSE_HEADS + 2 * t + (g & 1)) * CHOOSE_DIM + 16 * s;
            if (row >= job.count) {
                x[t][s][0] = x[t][s][1] = x[t][s][2] = x[t][s][3] = 0.0f;
            } else {
                const float4 u = *(const float4 *)(from + 4 * q);
                x[t][s][0] = u.x, x[t][s][1] = u.y, x[t][s][2] = u.z, x[t][s][3] = u.w;
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                largest = max(largest, __float_as_uint(x[t][s][i]) & 0x7fffffffu);
        }
    }
#pragma unroll
    for (int d = 1; d <= 4; d *= 2)
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, d));
    const int e = choose_exponent(largest);
    const float down = choose_power(-e);
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float u = x[t][s][2 * r] * down, v = x[t][s][2 * r + 1] * down;
                const uint16_t hu = choose_half<BF16>(u), hv = choose_half<BF16>(v);
                b[0][t][s][r] = hu | (uint32_t)hv << 16;
                if (PLANES == 2)
                    b[PLANES - 1][t][s][r] = choose_rest<BF16>(u, hu) | (uint32_t)choose_rest<BF16>(v, hv) << 16;
            }
    return __shfl_sync(0xffffffffu, choose_scale(e), q * 8); // of row q, whose keys this thread will write
}

// A fragments of 16 blocks: keys g and g + 8, by their rows in memory; NO_KEY reads nothing.
static __device__ __forceinline__ void load_keys(const choose_job &job, const uint32_t place[2], int q,
                                                 uint2 a[2][STEPS]) {
    const char *keys = (const char *)job.block_keys + 8 * q;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint2 *from = (const uint2 *)(keys + (int64_t)place[h] * (2 * CHOOSE_DIM));
        if (place[h] != NO_KEY) {
#pragma unroll
            for (int s = 0; s < STEPS; s++)
                a[h][s] = __ldg(from + 4 * s);
        } else {
#pragma unroll
            for (int s = 0; s < STEPS; s++)
                a[h][s] = make_uint2(0, 0);
        }
    }
}

template <int PLANES, bool BF16>
static __device__ __forceinline__ void score_chunk(const choose_job &job, const uint2 a[2][STEPS],
                                                   const uint32_t b[PLANES][2][STEPS][2], float scale, int32_t row,
                                                   int32_t blocks, int32_t chunk, int lane) {
    float c[2][4] = {};
#pragma unroll
    for (int p = 0; p < PLANES; p++)
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            const uint32_t frag[4] = {a[0][s].x, a[1][s].x, a[0][s].y, a[1][s].y};
#pragma unroll
            for (int t = 0; t < 2; t++)
                multiply<BF16>(c[t], frag, b[p][t][s]);
        }
    const int g = lane >> 2;
    uint32_t low = choose_key(c[0][0], c[0][1], c[1][0], c[1][1], scale);
    uint32_t high = choose_key(c[0][2], c[0][3], c[1][2], c[1][3], scale);
    low = chunk * 16 + g < blocks ? low : CHOOSE_MASKED;
    high = chunk * 16 + g + 8 < blocks ? high : CHOOSE_MASKED;
    uint32_t best = max(low, high);
    if (job.best) {
        best = max(best, __shfl_xor_sync(0xffffffffu, best, 4));
        best = max(best, __shfl_xor_sync(0xffffffffu, best, 8));
    }
    if (chunk * 16 < blocks) {
        uint32_t *to = job.keys + (int64_t)row * job.stride + chunk * 16 + (g >> 1) * 4 + (g & 1);
        to[0] = low;
        to[2] = high;
        if (job.best && (g & 3) == 0)
            job.best[(int64_t)row * (job.stride / CHOOSE_GROUP) + chunk * 2 + (g >> 2)] = best;
    }
}

#endif
