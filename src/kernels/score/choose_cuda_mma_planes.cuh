// SPDX-License-Identifier: Apache-2.0
//
// Queries in half precision: one plane, or two whose sum has 22 bits (f16) or 16 (bf16).

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_PLANES_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_PLANES_CUH

#include "kernels/score/choose_cuda_mma.cuh"

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

// A row's queries in a warp: dims 4 lane .. 4 lane + 3 of each head.
static __device__ __forceinline__ int query_exponent(const float4 (&x)[CHOOSE_HEADS]) {
    uint32_t largest = 0;
#pragma unroll
    for (int h = 0; h < CHOOSE_HEADS; h++) {
        const float v[4] = {x[h].x, x[h].y, x[h].z, x[h].w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            largest = max(largest, __float_as_uint(v[i]) & 0x7fffffffu);
    }
    return choose_exponent(__reduce_max_sync(0xffffffffu, largest));
}

typedef struct query_planes {
    uint2 half, rest;
} query_planes;

template <bool BF16> static __device__ __forceinline__ query_planes query_halves(float4 x, float down) {
    const float v[4] = {x.x * down, x.y * down, x.z * down, x.w * down};
    uint32_t half[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        half[i] = choose_half<BF16>(v[i]);
        rest[i] = choose_rest<BF16>(v[i], (uint16_t)half[i]);
    }
    query_planes to;
    to.half = make_uint2(half[0] | half[1] << 16, half[2] | half[3] << 16);
    to.rest = make_uint2(rest[0] | rest[1] << 16, rest[2] | rest[3] << 16);
    return to;
}

#endif
