// SPDX-License-Identifier: Apache-2.0
//
// Caches and queries for the checks and timings of qsa_choose_cuda_mma.

#ifndef QSA_TESTS_CUDA_CHOOSE_WORLD_CUH
#define QSA_TESTS_CUDA_CHOOSE_WORLD_CUH

#include "kernels/score/choose_cuda_mma.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const int error_ = (int)(call);                                                                                \
        if (error_) {                                                                                                  \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString((cudaError_t)error_));             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

extern "C" int qsa_choose_cuda_mma(const qsa_cuda_choose_args *args, void *stream);
extern "C" size_t qsa_choose_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells);
extern "C" int qsa_choose_cuda_mma_serves(const qsa_cuda_cache *cache);

enum { RANDOM, EQUAL, ZERO, FEW, ODD, RISING, FALLING, SPARSE, MOSTLY_NAN, MODES };

typedef struct world {
    qsa_cuda_cache cache;
    int32_t cells, sequences, pages;
    std::vector<int32_t> tables;
} world;

__host__ __device__ static inline uint32_t mix(uint32_t x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ static inline float normal(uint32_t seed) {
    const float u = (float)(mix(seed * 2 + 1) >> 8) * 0x1p-24f + 0x1p-25f, v = (float)(mix(seed * 2 + 77) >> 8) * 0x1p-24f;
    return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

// A warp per vector of 128; `slot` of a block key is where the page table puts it, `block` what it holds.
static __global__ void fill_keys(uint16_t *to, const int32_t *tables, int32_t table_pages, int32_t page_blocks, int32_t blocks,
                          int32_t sequences, int bf16, int mode, uint32_t seed) {
    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int lane = threadIdx.x & 31;
    if (i >= (int64_t)blocks * sequences)
        return;
    const int32_t s = (int32_t)(i / blocks), b = (int32_t)(i % blocks);
    const int64_t slot = (int64_t)tables[(int64_t)s * table_pages + b / page_blocks] * page_blocks + b % page_blocks;
    uint32_t of = (uint32_t)i;
    if (mode == EQUAL)
        of = 5;
    if (mode == FEW)
        of = mix((uint32_t)b + seed) % 5;
    float x[4], sum = 0.0f;
    for (int k = 0; k < 4; k++) {
        x[k] = normal((of * 128 + (uint32_t)lane * 4 + (uint32_t)k) ^ seed);
        sum += x[k] * x[k];
    }
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int k = 0; k < 4; k++) {
        float v = x[k] * rsqrtf(sum / 128.0f + 1e-6f);
        if (mode == ZERO)
            v = 0.0f;
        if (mode == RISING)
            v = (float)(b + 1) / (float)blocks;
        if (mode == FALLING)
            v = (float)(blocks - b) / (float)blocks;
        if (mode == SPARSE) // the queries of these modes are positive
            v = mix((uint32_t)b * 3 + seed) % 64 ? -fabsf(v) : fabsf(v);
        if (mode == ODD && mix((uint32_t)b + 9) % 7 == 0 && lane == 3 && k == 1)
            v = __uint_as_float(0x7fc00000u);
        if (mode == ODD && mix((uint32_t)b + 8) % 90 == 0 && lane == 5 && k == 2)
            v = __uint_as_float(b & 1 ? 0x7f800000u : 0xff800000u);
        if (mode == MOSTLY_NAN && b % 50 && lane == 7 && k == 0)
            v = __uint_as_float(0xffc00000u);
        to[slot * 128 + lane * 4 + k] = bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : __half_as_ushort(__float2half_rn(v));
    }
}

static __global__ void fill_queries(float *to, int32_t rows, int positive, uint32_t seed) {
    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int lane = threadIdx.x & 31;
    if (i >= (int64_t)rows * 4)
        return;
    float x[4], sum = 0.0f;
    for (int k = 0; k < 4; k++) {
        x[k] = normal(((uint32_t)i * 128 + (uint32_t)lane * 4 + (uint32_t)k) ^ (seed + 0x5bd1e995u));
        sum += x[k] * x[k];
    }
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int k = 0; k < 4; k++) {
        const float v = x[k] * rsqrtf(sum / 128.0f + 1e-6f);
        to[i * 128 + lane * 4 + k] = positive ? fabsf(v) : v;
    }
}

template <class T> static T *on_device(size_t count) {
    T *p = nullptr;
    MUST(cudaMalloc(&p, count * sizeof(T) + 256));
    return p;
}

// Pages are shuffled among all sequences; spare pages hold NaN, and the tables' unused entries no page at all.
static inline world make_world(int32_t cells, int32_t sequences, int32_t page_cells, qsa_type type, int mode, uint32_t seed) {
    world w = {};
    w.cells = cells, w.sequences = sequences;
    qsa_cuda_cache *c = &w.cache;
    c->geometry.index_heads = 4, c->geometry.index_dim = 128, c->geometry.ratio = 4, c->geometry.budget = 2048;
    c->block_key_type = type, c->page_cells = page_cells;
    const int32_t used = (cells + page_cells - 1) / page_cells, total = used * sequences;
    c->table_pages = used + 3;
    w.pages = total + 2;
    std::vector<int32_t> order((size_t)total);
    for (int32_t i = 0; i < total; i++)
        order[(size_t)i] = i;
    for (int32_t i = total - 1; i > 0; i--)
        std::swap(order[(size_t)i], order[mix((uint32_t)i + seed) % (uint32_t)(i + 1)]);
    w.tables.assign((size_t)c->table_pages * (size_t)sequences, 0x3fffffff);
    for (int32_t s = 0; s < sequences; s++)
        for (int32_t p = 0; p < used; p++)
            w.tables[(size_t)s * (size_t)c->table_pages + (size_t)p] = order[(size_t)s * (size_t)used + (size_t)p];
    int32_t *tables = on_device<int32_t>(w.tables.size());
    MUST(cudaMemcpy(tables, w.tables.data(), w.tables.size() * 4, cudaMemcpyHostToDevice));
    c->tables = tables;
    const int32_t page_blocks = page_cells / 4, blocks = used * page_blocks;
    const size_t bytes = (size_t)w.pages * (size_t)page_blocks * 256;
    uint16_t *keys = on_device<uint16_t>(bytes / 2);
    MUST(cudaMemset(keys, 0xff, bytes));
    c->block_keys = keys;
    fill_keys<<<(unsigned)(((int64_t)blocks * sequences + 7) / 8), 256>>>(keys, tables, c->table_pages, page_blocks, blocks,
                                                                        sequences, type == QSA_BF16, mode, seed);
    MUST(cudaDeviceSynchronize());
    return w;
}

static inline void free_world(world *w) {
    cudaFree((void *)w->cache.tables);
    cudaFree(w->cache.block_keys);
}

// A batch with its device memory and the selection's.
typedef struct batch {
    std::vector<qsa_cuda_row> rows;
    qsa_cuda_choose_args args;
    int32_t *out; // ids, counts, cut_index, cut_cells one after the other
    size_t out_count;
    choose_tuning tuning;
} batch;

enum { ID_STRIDE = 516 };

static inline batch make_batch(const world &w, const std::vector<qsa_cuda_row> &rows, int positive, uint32_t seed,
                        const choose_tuning &tuning, qsa_rule rule, int identity) {
    batch b = {};
    b.rows = rows;
    b.tuning = tuning;
    qsa_cuda_choose_args *a = &b.args;
    a->cache = w.cache;
    a->count = (int32_t)rows.size();
    for (const qsa_cuda_row &r : rows)
        a->most_cells = r.cells > a->most_cells ? r.cells : a->most_cells;
    qsa_cuda_row *device = on_device<qsa_cuda_row>(rows.size());
    MUST(cudaMemcpy(device, rows.data(), rows.size() * sizeof(qsa_cuda_row), cudaMemcpyHostToDevice));
    a->rows = device;
    float *q = on_device<float>(rows.size() * 512);
    fill_queries<<<(unsigned)((rows.size() * 4 + 7) / 8), 256>>>(q, a->count, positive, seed);
    a->index_q = q;
    a->rule = rule, a->identity = identity;
    const size_t n = rows.size();
    b.out_count = n * (ID_STRIDE + 3);
    b.out = on_device<int32_t>(b.out_count);
    MUST(cudaMemset(b.out, 0xee, b.out_count * 4));
    a->selection.ids = b.out, a->selection.stride = ID_STRIDE;
    a->selection.counts = b.out + n * ID_STRIDE;
    a->selection.cut_index = a->selection.counts + n;
    a->selection.cut_cells = a->selection.cut_index + n;
    a->scratch_bytes = qsa_choose_mma_scratch_tuned(&a->cache, a->count, a->most_cells, &tuning);
    a->scratch = on_device<unsigned char>(a->scratch_bytes);
    MUST(cudaMemset(a->scratch, 0xff, a->scratch_bytes));
    MUST(cudaDeviceSynchronize());
    return b;
}

static inline void free_batch(batch *b) {
    cudaFree((void *)b->args.rows);
    cudaFree((void *)b->args.index_q);
    cudaFree(b->out);
    cudaFree(b->args.scratch);
}

static inline qsa_cuda_row row_of(int32_t cells, int32_t sequence) {
    qsa_cuda_row r = {};
    r.cells = cells, r.sequence = sequence, r.previous = -1, r.attends = 1;
    return r;
}

#endif
