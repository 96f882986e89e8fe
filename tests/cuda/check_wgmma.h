// SPDX-License-Identifier: Apache-2.0
//
// Each form of warpgroup product that the fast CUDA attention uses, alone against integers. Part of bench_attention.cu (MUST).

#ifndef QSA_TESTS_CUDA_CHECK_WGMMA_H
#define QSA_TESTS_CUDA_CHECK_WGMMA_H

#include "kernels/attend/wgmma_cuda.h"

#include <cuda_runtime.h>

#include <vector>

// The warpgroup products alone, small integers, two steps of k: is the machine's layout what wgmma_cuda.h says?
static __host__ __device__ int unit_a(int m, int k) {
    return (m * 7 + k * 3 + m * k % 5) % 11 - 5;
}
static __host__ __device__ int unit_b(int n, int k) {
    return (n * 5 + k * 2 + n * k % 7) % 13 - 6;
}
enum { UNIT_S8_24, UNIT_F16_16, UNIT_S8_48, UNIT_F16_96 };

static constexpr __host__ __device__ int unit_columns(int which) {
    return which == UNIT_S8_24 ? 24 : which == UNIT_F16_16 ? 16 : which == UNIT_S8_48 ? 48 : 96;
}

static __device__ uint32_t unit_word(int row, int k, bool half) {
    uint32_t u = 0;
    for (int i = 0; i < (half ? 2 : 4); i++)
        u |= half ? (uint32_t)qsa_pack_f16((float)unit_a(row, k + i), 0) << 16 * i
                  : (uint32_t)(unit_a(row, k + i) & 255) << 8 * i;
    return u;
}

template <int WHICH> static __global__ void unit(float *out) {
    extern __shared__ __align__(1024) uint4 shared_bytes[];
    char *s = (char *)shared_bytes;
    const bool half = WHICH & 1;
    const int n = unit_columns(WHICH), steps = half ? 16 : 32;
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, t = lane % 4,
              next_n = n == 16 ? 256 : 1024;
    for (int i = threadIdx.x; i < n * 2 * steps; i += 128) {
        const int c = i / (2 * steps), k = i % (2 * steps);
        if (half)
            *(uint16_t *)(s + (n == 16 ? k / 16 * 512 + k / 8 % 2 * 128 : k / 8 * 128) + c / 8 * next_n + k % 8 * 16 +
                          c % 8 * 2) = (uint16_t)qsa_pack_f16((float)unit_b(c, k), 0);
        else
            s[c * 128 + ((k / 16) ^ (c & 7)) * 16 + k % 16] = (char)unit_b(c, k);
    }
    for (int i = threadIdx.x; i < 64 * 64 && !half; i += 128)
        s[16384 + i / 64 * 128 + ((i % 64 / 16) ^ (i / 64 & 7)) * 16 + i % 16] = (char)unit_a(i / 64, i % 64);
    qsa_wgmma_publish();
    __syncthreads();
    const uint32_t at = qsa_shared_address(s);
    const uint64_t b = half ? qsa_describe_blocks(at, (uint32_t)next_n) : qsa_describe_rows(at);
    float f[n / 2];
    int32_t c[n / 2];
    qsa_wgmma_fence();
    for (int k = 0; k < 2; k++) {
        const int from = k * steps + (half ? 2 : 4) * t;
        const uint32_t a[4] = {unit_word(row, from, half), unit_word(row + 8, from, half),
                               unit_word(row, from + steps / 2, half), unit_word(row + 8, from + steps / 2, half)};
        qsa_wgmma_fence();
        if constexpr (WHICH == UNIT_S8_24)
            qsa_wgmma_s8(c, a[0], a[1], a[2], a[3], b + k * 2, k);
        else if constexpr (WHICH == UNIT_S8_48)
            qsa_wgmma_s8(c, qsa_describe_rows(at + 16384) + k * 2, b + k * 2, k);
        else
            qsa_wgmma_f16(f, a[0], a[1], a[2], a[3], b + k * (n == 16 ? 512 : 256) / 16, k);
        qsa_wgmma_commit();
        qsa_wgmma_wait<0>();
        if constexpr (WHICH & 1)
            qsa_wgmma_taken(f);
        else
            qsa_wgmma_taken(c);
    }
    for (int i = 0; i < n / 2; i++)
        out[(row + i % 4 / 2 * 8) * n + i / 4 * 8 + 2 * t + (i & 1)] = half ? f[i] : (float)c[i];
}

template <int WHICH> static void check_unit(const char *name) {
    const int n = unit_columns(WHICH), depth = WHICH & 1 ? 32 : 64;
    float *out;
    std::vector<float> got((size_t)64 * n);
    MUST(cudaMalloc((void **)&out, got.size() * 4));
    unit<WHICH><<<1, 128, 32768>>>(out);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost));
    MUST(cudaFree(out));
    int wrong = 0;
    for (int m = 0; m < 64; m++)
        for (int j = 0; j < n; j++) {
            int want = 0;
            for (int k = 0; k < depth; k++)
                want += unit_a(m, k) * unit_b(j, k);
            wrong += got[(size_t)(m * n + j)] != (float)want;
        }
    printf("product %-22s: %d of %d wrong\n", name, wrong, 64 * n);
}

#endif
