// SPDX-License-Identifier: Apache-2.0
//
// Block scores: 16 threads per key, which are the 16 lanes of a dot, two keys at a time. With four heads of 128 dims
// (the preset) the queries stay in registers and the four dots are folded together; other shapes read them again for
// every key.

#include "kernels/cuda_io.h"

namespace {

enum { THREADS = 256, KEYS = THREADS / 16, SPAN = 256 /* blocks per thread block */, STEPS = 8 };

template <int FORMAT>
__device__ __forceinline__ const char *key_at(const qsa_cuda_cache *cache, const int32_t *table, int32_t block) {
    const int32_t page_blocks = cache->page_cells / cache->geometry.ratio, page = block / page_blocks;
    const int64_t at = (int64_t)table[page] * page_blocks + (block - page * page_blocks);
    return (const char *)cache->block_keys + at * (int64_t)(cache->geometry.index_dim * (FORMAT == QSA_F32 ? 4 : 2));
}

// relu of four dots, added to the score in the order of the heads. The dots lie in threads 0, 4, 8 and 12.
__device__ __forceinline__ float add_heads(float sum, float dots, unsigned mask) {
    const float relu = qsa_relu(dots);
#pragma unroll
    for (int h = 0; h < 4; h++)
        sum = sum + __shfl_sync(mask, relu, 4 * h, 16);
    return sum;
}

template <int FORMAT>
__device__ void preset(const qsa_cuda_cache *cache, const int32_t *table, const float *q, float *scores, int32_t first,
                       int32_t end, float divisor) {
    const int lane = threadIdx.x & 15;
    const unsigned mask = qsa_cuda_lanes();
    float query[4][STEPS];
#pragma unroll
    for (int h = 0; h < 4; h++)
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            query[h][k] = q[h * 16 * STEPS + 16 * k + lane];
#pragma unroll 2
    for (int32_t b = first + (int32_t)threadIdx.x / 16; b < end; b += KEYS) {
        const char *key = key_at<FORMAT>(cache, table, b);
        float x[STEPS], dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int k = 0; k < STEPS; k++)
            x[k] = qsa_cuda_decode<FORMAT>(key, 16 * k + lane, 0.0f);
#pragma unroll
        for (int h = 0; h < 4; h++)
#pragma unroll
            for (int k = 0; k < STEPS; k++)
                dot[h] = fmaf(query[h][k], x[k], dot[h]);
        const float sum = add_heads(0.0f, qsa_cuda_fold4(dot[0], dot[1], dot[2], dot[3], mask), mask);
        if (lane == 0)
            scores[b] = qsa_canonical(sum / divisor);
    }
}

template <int FORMAT>
__device__ void any(const qsa_cuda_cache *cache, const int32_t *table, const float *q, float *scores, int32_t first,
                    int32_t end, float divisor) {
    const int lane = threadIdx.x & 15;
    const unsigned mask = qsa_cuda_lanes();
    const int32_t dim = cache->geometry.index_dim;
    for (int32_t b = first + (int32_t)threadIdx.x / 16; b < end; b += KEYS) {
        const char *key = key_at<FORMAT>(cache, table, b);
        float sum = 0.0f;
        for (int32_t h = 0; h < cache->geometry.index_heads; h++) {
            float dot = 0.0f;
            for (int32_t d = lane; d < dim; d += QSA_LANES)
                dot = fmaf(q[(int64_t)h * dim + d], qsa_cuda_decode<FORMAT>(key, d, 0.0f), dot);
            sum = sum + qsa_relu(qsa_cuda_fold(dot, mask));
        }
        if (lane == 0)
            scores[b] = qsa_canonical(sum / divisor);
    }
}

template <int FORMAT>
__global__ __launch_bounds__(THREADS) void score(const __grid_constant__ qsa_cuda_score_args a, int64_t work,
                                                 int32_t spans) {
    const qsa_geometry *g = &a.cache.geometry;
    const float divisor = sqrtf((float)g->index_dim);
    for (int64_t w = blockIdx.x; w < work; w += gridDim.x) {
        const int64_t i = w / spans;
        const qsa_cuda_row *r = &a.rows[i];
        const int32_t cells = r->cells < a.most_cells ? r->cells : a.most_cells, blocks = cells / g->ratio;
        const int64_t first = (w - i * spans) * SPAN;
        if (!r->attends || first >= blocks || (a.skip_identity && cells <= qsa_cuda_width(g)))
            continue;
        const int32_t end = blocks - first < SPAN ? blocks : (int32_t)first + SPAN;
        const int32_t *table = qsa_cuda_table(&a.cache, r->sequence);
        const float *q = a.index_q + i * g->index_heads * g->index_dim;
        if (g->index_heads == 4 && g->index_dim == 16 * STEPS)
            preset<FORMAT>(&a.cache, table, q, a.scores + i * a.stride, (int32_t)first, end, divisor);
        else
            any<FORMAT>(&a.cache, table, q, a.scores + i * a.stride, (int32_t)first, end, divisor);
    }
}

} // namespace

extern "C" int qsa_score_cuda(const qsa_cuda_score_args *args, void *stream) {
    const int32_t blocks = args->most_cells / args->cache.geometry.ratio, spans = (blocks + SPAN - 1) / SPAN;
    const int64_t work = (int64_t)spans * args->count;
    if (work <= 0)
        return 0;
    const unsigned grid = (unsigned)(work < INT32_MAX ? work : INT32_MAX);
    const cudaStream_t s = (cudaStream_t)stream;
    switch (args->cache.block_key_type) {
    case QSA_F32:
        score<QSA_F32><<<grid, THREADS, 0, s>>>(*args, work, spans);
        break;
    case QSA_F16:
        score<QSA_F16><<<grid, THREADS, 0, s>>>(*args, work, spans);
        break;
    default:
        score<QSA_BF16><<<grid, THREADS, 0, s>>>(*args, work, spans);
        break;
    }
    return cudaGetLastError();
}
