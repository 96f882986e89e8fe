// SPDX-License-Identifier: Apache-2.0
//
// The launches of the rows of src/kernels/<stage>/*_cuda*.cu. Each returns a cudaError_t as a number.

#ifndef QSA_BACKEND_CUDA_LAUNCH_H
#define QSA_BACKEND_CUDA_LAUNCH_H

#include "backend/device.h"

#ifdef __cplusplus
extern "C" {
#endif

int qsa_prep_cuda(const qsa_cuda_prep_args *args, void *stream);
int qsa_score_cuda(const qsa_cuda_score_args *args, void *stream);
int qsa_topk_cuda(const qsa_cuda_topk_args *args, void *stream);
int qsa_attend_cuda(const qsa_cuda_attend_args *args, void *stream);
int qsa_merge_cuda(const qsa_cuda_merge_args *args, void *stream);
int qsa_gate_cuda(const qsa_cuda_gate_args *args, void *stream);
int qsa_commit_cuda(const qsa_cuda_commit_args *args, void *stream);

// Whether a fast row serves a cache of these types and this geometry; bytes of scratch; the launch.
int qsa_choose_cuda_mma_serves(const qsa_cuda_cache *cache);
size_t qsa_choose_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells);
int qsa_choose_cuda_mma(const qsa_cuda_choose_args *args, void *stream);
int qsa_attention_cuda_mma_serves(const qsa_cuda_cache *cache);
size_t qsa_attention_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count);
int qsa_attention_cuda_mma(const qsa_cuda_attention_args *args, void *stream);

// What the device can do, to compare with; `memory` has `bytes` bytes, 2^28 at least.
int qsa_roof_cuda(int which, void *memory, size_t bytes, int rounds, void *stream);

#ifdef __cplusplus
}
#endif

#endif
