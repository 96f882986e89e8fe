// SPDX-License-Identifier: Apache-2.0
//
// The launches of the rows of src/kernels/<stage>/*_cuda*.cu. Each returns a cudaError_t as a number.

#ifndef QSA_BACKEND_CUDA_LAUNCH_H
#define QSA_BACKEND_CUDA_LAUNCH_H

#include "backend/device.h"

#ifdef __cplusplus
extern "C" {
#endif

// Every row of the table.
#define QSA_KERNEL(stage, kernel, where, rank, kernel_class)                                                           \
    int qsa_##kernel##_##where(const qsa_cuda_##kernel##_args *args, void *stream);
#include "kernels/cuda.tbl"
#undef QSA_KERNEL

// Whether a fast row serves a cache of these types and this geometry; bytes of scratch.
int qsa_choose_cuda_mma_serves(const qsa_cuda_cache *cache);
size_t qsa_choose_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells);
int qsa_attention_cuda_mma_serves(const qsa_cuda_cache *cache);
size_t qsa_attention_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count);

// What the device can do, to compare with; `memory` has `bytes` bytes, 2^28 at least.
int qsa_roof_cuda(int which, void *memory, size_t bytes, int rounds, void *stream);

#ifdef __cplusplus
}
#endif

#endif
