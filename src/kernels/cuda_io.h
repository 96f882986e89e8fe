// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA kernels share: elements of caller's arrays at any alignment, decoding without a call, lane folds. Half
// NaNs are made canonical only where the reference's bits need it (qsa_cuda_load); behind a dot or a product it does
// not show.

#ifndef QSA_KERNELS_CUDA_IO_H
#define QSA_KERNELS_CUDA_IO_H

#include "kernels/cuda_args.h"
#include "num/load.h"

#include <cuda_runtime.h>

// Whether elements at p can be read whole.
static __device__ __forceinline__ bool qsa_cuda_aligned(const void *p, qsa_type type) {
    return ((uintptr_t)p & (qsa_type_size(type) - 1)) == 0;
}

static __device__ __forceinline__ float qsa_cuda_half(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

// Element i of a vector of f32, f16 or bf16: qsa_load, a byte at a time only where it must be.
static __device__ __forceinline__ float qsa_cuda_load(const void *data, qsa_type type, bool aligned, int32_t i) {
    if (!aligned)
        return qsa_load(data, type, i);
    if (type == QSA_F32)
        return ((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    return qsa_canonical(type == QSA_F16 ? qsa_cuda_half(h) : qsa_f32_of_bits((uint32_t)h << 16));
}

// qsa_put, likewise.
static __device__ __forceinline__ void qsa_cuda_put(void *data, qsa_type type, bool aligned, int32_t i, float x) {
    if (!aligned)
        qsa_put(data, type, i, x);
    else if (type == QSA_F32)
        ((float *)data)[i] = qsa_canonical(x);
    else
        ((uint16_t *)data)[i] = type == QSA_F16 ? qsa_f16_of_f32(x) : qsa_bf16_of_f32(x);
}

// Element d of a cache row; scale of its group for i8. NaN bits may differ from qsa_decode_row's.
template <int FORMAT> static __device__ __forceinline__ float qsa_cuda_decode(const void *row, int64_t d, float scale) {
    if (FORMAT == QSA_F32)
        return ((const float *)row)[d];
    if (FORMAT == QSA_I8)
        return (float)((const int8_t *)row)[d] * scale;
    const uint16_t h = ((const uint16_t *)row)[d];
    return FORMAT == QSA_F16 ? qsa_cuda_half(h) : qsa_f32_of_bits((uint32_t)h << 16);
}

// The 16 lanes that this thread is one of, as a mask for shuffles.
static __device__ __forceinline__ unsigned qsa_cuda_lanes(void) {
    return 0xffffu << (threadIdx.x & 16);
}

// qsa_fold_lanes over 16 threads; all get the sum. Adding commutes, so both ends of a pair have the same bits.
static __device__ __forceinline__ float qsa_cuda_fold(float lane, unsigned mask) {
#pragma unroll
    for (int half = QSA_LANES / 2; half >= 1; half /= 2)
        lane = lane + __shfl_xor_sync(mask, lane, half);
    return lane;
}

// Folds four sums at once, with five shuffles in place of sixteen: threads j, j + 4, j + 8, j + 12 (j < 4) get sums 0
// to 3. Each addition is one of the tree of qsa_fold_lanes: lanes 8 apart, then 4, 2, 1.
static __device__ __forceinline__ float qsa_cuda_fold4(float a, float b, float c, float d, unsigned mask) {
    const bool eight = threadIdx.x & 8, four = threadIdx.x & 4;
    float first = eight ? c : a, second = eight ? d : b;
    first = first + __shfl_xor_sync(mask, eight ? a : c, 8);
    second = second + __shfl_xor_sync(mask, eight ? b : d, 8);
    float sum = four ? second : first;
    sum = sum + __shfl_xor_sync(mask, four ? first : second, 4);
    sum = sum + __shfl_xor_sync(mask, sum, 2);
    return sum + __shfl_xor_sync(mask, sum, 1);
}

// Row of cell c of a page table, for KV head g: table[c / page_cells] * kv_heads + g pages of one head.
static __device__ __forceinline__ int64_t qsa_cuda_cell_row(const qsa_cuda_cache *cache, const int32_t *table,
                                                            int32_t cell, int32_t head) {
    const int32_t page = cell / cache->page_cells;
    return ((int64_t)table[page] * cache->geometry.kv_heads + head) * cache->page_cells +
           (cell - page * cache->page_cells);
}

static __device__ __forceinline__ const int32_t *qsa_cuda_table(const qsa_cuda_cache *cache, int32_t sequence) {
    return cache->tables + (int64_t)sequence * cache->table_pages;
}

static __device__ __forceinline__ int32_t qsa_cuda_width(const qsa_geometry *g) {
    return g->budget + g->ratio - 1;
}

#endif
