// SPDX-License-Identifier: Apache-2.0
//
// What the device can do, for shares of it in the same run: a copy, random gathers out of L2, and products on tensor cores. Each
// launch fills the device and is long against a launch.

#include "backend/cuda/launch.h"

#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int THREADS = 256;

__global__ void copy_half(const uint4 *from, uint4 *to, size_t count, int rounds) {
    const size_t stride = static_cast<size_t>(gridDim.x) * THREADS;
    for (int round = 0; round < rounds; round++)
        for (size_t i = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x; i < count; i += stride)
            to[i] = from[i];
}

// A warp reads a KiB (two 16-byte loads a lane) at a random place; eight of them are in flight.
__global__ void gather(const uint4 *from, uint32_t kib, uint32_t *sink, int pieces) {
    const uint32_t lane = threadIdx.x % 32, warp = (blockIdx.x * THREADS + threadIdx.x) / 32;
    uint32_t state = warp * 2654435761u + 12345u;
    uint4 sum = {0, 0, 0, 0};
    for (int i = 0; i < pieces; i += 8) {
        uint4 part[16];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            state = state * 1664525u + 1013904223u;
            const uint4 *piece = from + static_cast<size_t>((state >> 8) % kib) * 64;
            part[2 * j] = piece[lane];
            part[2 * j + 1] = piece[lane + 32];
        }
#pragma unroll
        for (int j = 0; j < 16; j++) {
            sum.x ^= part[j].x;
            sum.y ^= part[j].y;
            sum.z ^= part[j].z;
            sum.w ^= part[j].w;
        }
    }
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) // hardly ever, and the loads stay
        sink[warp] = sum.x;
}

// Eight independent sums a warp; values that are no zeros.
__global__ void products(uint32_t *sink, int rounds) {
    float sum[8][4];
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = 0x2c012e03u + threadIdx.x * 65537u % 1021u + static_cast<uint32_t>(i);
    for (int i = 0; i < 2; i++)
        b[i] = 0x2d05ac07u + threadIdx.x * 257u % 509u + static_cast<uint32_t>(i);
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 4; i++)
            sum[k][i] = 0;
    for (int round = 0; round < rounds; round++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                         "{%0,%1,%2,%3};"
                         : "+f"(sum[k][0]), "+f"(sum[k][1]), "+f"(sum[k][2]), "+f"(sum[k][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    float all = 0;
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 4; i++)
            all += sum[k][i];
    if (all == 12345.678f)
        sink[blockIdx.x] = 1;
}

} // namespace

int qsa_roof_cuda(int which, void *memory, size_t bytes, int rounds, void *stream) {
    int device = 0, processors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess)
        return status;
    cudaStream_t on = static_cast<cudaStream_t>(stream);
    const uint4 *from = static_cast<const uint4 *>(memory);
    uint32_t *sink = static_cast<uint32_t *>(memory);
    if (which == QSA_ROOF_COPY)
        copy_half<<<processors * 8, THREADS, 0, on>>>(from, static_cast<uint4 *>(memory) + bytes / 32, bytes / 32, rounds);
    else if (which == QSA_ROOF_GATHER)
        gather<<<QSA_ROOF_GATHER_BLOCKS, THREADS, 0, on>>>(from, 32 * 1024, sink, QSA_ROOF_GATHER_PIECES * rounds);
    else
        products<<<QSA_ROOF_TENSOR_BLOCKS, THREADS, 0, on>>>(sink, QSA_ROOF_TENSOR_ROUNDS * rounds);
    return cudaGetLastError();
}
