// SPDX-License-Identifier: Apache-2.0
//
// Fast attention on matrix units: mma.sync from compute capability 8.0 on; for i8 caches on sm_90a, products of warpgroups.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_H

#include "kernels/cuda_args.h"

#ifdef __cplusplus
extern "C" {
#endif

// 1 if the kernels serve caches of this kind: i8, f16 or bf16, head_dim 256, at most 16 query heads per KV head, ratio a
// multiple of 4, budget at most 8192.
int qsa_attention_cuda_mma_serves(const qsa_cuda_cache *cache);
// Scratch of a call with `count` rows; its contents may be anything before and after.
size_t qsa_attention_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count);
// 1 if the current device runs the kernels for sm_90a.
int qsa_attention_cuda_mma_wide(void);
int qsa_attention_cuda_mma(const qsa_cuda_attention_args *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
