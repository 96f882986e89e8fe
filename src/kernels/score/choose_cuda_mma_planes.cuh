// SPDX-License-Identifier: Apache-2.0
//
// Queries in half precision: one plane, or two whose sum has 22 bits (f16) or 16 (bf16).

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_PLANES_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_PLANES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

template <bool BF16> static __device__ __forceinline__ uint16_t choose_half(float x) {
    if constexpr (BF16)
        return __bfloat16_as_ushort(__float2bfloat16_rn(x));
    else
        return __half_as_ushort(__float2half_rn(x));
}

template <bool BF16> static __device__ __forceinline__ float choose_unhalf(uint16_t x) {
    if constexpr (BF16)
        return __bfloat162float(__ushort_as_bfloat16(x));
    else
        return __half2float(__ushort_as_half(x));
}

// What the first plane leaves; +0 where that is no number, so that an infinite query stays infinite.
template <bool BF16> static __device__ __forceinline__ uint16_t choose_rest(float x, uint16_t first) {
    const float rest = x - choose_unhalf<BF16>(first);
    return choose_half<BF16>(rest == rest ? rest : 0.0f);
}

#endif
