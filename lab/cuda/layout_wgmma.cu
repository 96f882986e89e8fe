// SPDX-License-Identifier: Apache-2.0
//
// wgmma m64n8k16 of halves with a and b in shared memory, without a swizzle: a is K-major once and MN-major once. b[k][0] = k + 1
// names the k that an element of a meets, b[0][n] = n + 1 the column of a register; an element of a is 1 at one place of shared
// memory after another. The rows are numbered as they lie in the K-major tile: 16 bytes apart, eights of rows 256.

#include "lab/cuda/layout.h"
#include "lab/cuda/module.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cuda_fp16.h>
#include <vector>

namespace {

// Tile of a in bytes, and where b lies behind it. leading and stride: of the descriptor.
enum { TILE = 2048, THREADS = 128, PLACES = TILE / 2 };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ uint64_t describe(const void *at, int leading, int stride) {
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(at);
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}

template <int MN> __device__ void product(float (&d)[4], uint64_t a, uint64_t b) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, %6, 0;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b), "n"(MN));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
}
#endif

// out[place][thread][register]; columns: b names the columns and not k.
template <int MN> __global__ void probe(float *out, int columns, int leading, int stride) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    __shared__ __align__(1024) __half a[PLACES], b[128];
    for (int place = blockIdx.x; place < PLACES; place += gridDim.x) {
        for (int i = threadIdx.x; i < PLACES; i += THREADS)
            a[i] = __float2half(i == place ? 1.0f : 0.0f);
        const int k = (int)threadIdx.x / 64 * 8 + (int)threadIdx.x % 8, n = (int)threadIdx.x / 8 % 8; // K-major
        b[threadIdx.x] = __float2half(columns ? (k == 0 ? n + 1.0f : 0.0f) : n == 0 ? k + 1.0f : 0.0f);
        float d[4] = {0, 0, 0, 0};
        product<MN>(d, describe(a, leading, stride), describe(b, 128, 128));
        for (int r = 0; r < 4; r++)
            out[((size_t)place * THREADS + threadIdx.x) * 4 + r] = d[r];
    }
#else
    (void)out, (void)columns, (void)leading, (void)stride;
#endif
}

std::vector<float> measure(bool mn, int columns, int leading, int stride) {
    std::vector<float> out((size_t)PLACES * THREADS * 4);
    float *device = nullptr;
    lab_check(cudaMalloc(&device, out.size() * sizeof(float)), "memory");
    lab_check(cudaMemset(device, 0, out.size() * sizeof(float)), "memory");
    if (mn)
        probe<1><<<128, THREADS>>>(device, columns, leading, stride);
    else
        probe<0><<<128, THREADS>>>(device, columns, leading, stride);
    lab_check(cudaMemcpy(out.data(), device, out.size() * sizeof(float), cudaMemcpyDeviceToHost), "the probe");
    cudaFree(device);
    return out;
}

struct held {
    int row[THREADS * 4], column[THREADS * 4];
};

// The registers of d, from a K-major a and b's columns: places with k = 0 are every eighth in the first half of an eight of rows.
held registers() {
    held h;
    memset(&h, 0xff, sizeof h);
    const std::vector<float> d = measure(false, 1, 128, 256);
    for (int row = 0; row < 64; row++) {
        const int place = row / 8 * 128 + row % 8 * 8;
        for (int i = 0; i < THREADS * 4; i++) {
            const int n = (int)d[(size_t)place * THREADS * 4 + i];
            if (n > 0)
                h.row[i] = row, h.column[i] = n - 1;
        }
    }
    for (int i = 0; i < THREADS * 4; i++)
        if (h.row[i] < 0)
            throw lab_stop{-1, "a register of d got no product"};
    return h;
}

// place[row][k]: the byte of the tile at which the element lies, -1 where none does.
std::vector<int> places(const held &h, bool mn, int leading, int stride) {
    std::vector<int> place(64 * 16, -1);
    const std::vector<float> d = measure(mn, 0, leading, stride);
    for (int p = 0; p < PLACES; p++)
        for (int i = 0; i < THREADS * 4; i++) {
            const int k = (int)d[(size_t)p * THREADS * 4 + i];
            if (k > 0 && h.column[i] == 0)
                place[h.row[i] * 16 + k - 1] = 2 * p;
        }
    return place;
}

bool whole(const std::vector<int> &place) {
    return std::find(place.begin(), place.end(), -1) == place.end();
}

void say_tile(char *said, size_t room, bool json, const char *name, const std::vector<int> &place, int leading,
              int stride) {
    if (json)
        lab_layout_say(said, room, ",\"a_%s\":{\"leading\":%d,\"stride\":%d,\"bytes\":[", name, leading, stride);
    else
        lab_layout_say(said, room,
                       "a %s-major, no swizzle, leading offset %d, stride offset %d: byte of a[row][0..15]\n", name,
                       leading, stride);
    for (int row = 0; row < 64; row++) {
        lab_layout_say(said, room, json ? "%s[" : "a[%.0s%d]:", row ? "," : "", row);
        for (int k = 0; k < 16; k++)
            lab_layout_say(said, room, json ? "%s%d" : " %.0s%d", json && k ? "," : "", place[row * 16 + k]);
        lab_layout_say(said, room, json ? "]" : "\n");
    }
    if (json)
        lab_layout_say(said, room, "]}");
}

} // namespace

void lab_layout_wgmma(bool json, char *said, size_t room) {
    int device = 0, major = 0;
    lab_check(cudaGetDevice(&device), "device");
    lab_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
    if (major != 9)
        throw lab_stop{-1, "this device has no wgmma (compute capability 9.0)"};
    const held h = registers();
    const std::vector<int> k_major = places(h, false, 128, 256);
    // Which of the two offsets of a descriptor goes along the rows is found out, too.
    int leading = 1024, stride = 128;
    std::vector<int> mn_major = places(h, true, leading, stride);
    if (!whole(mn_major)) {
        std::swap(leading, stride);
        mn_major = places(h, true, leading, stride);
    }
    if (!whole(k_major) || !whole(mn_major))
        throw lab_stop{-1, "an element of a lies at no byte of its tile"};
    const char *types = "a f16[64][16], b f16[16][8] in shared memory -> d f32[64][8]";
    lab_layout_say(said, room, json ? "{\"instruction\":\"%s\",\"types\":\"%s\",\"d\":[" : "%s: %s\n",
                   "wgmma.m64n8k16.f16", types);
    for (int t = 0; t < THREADS; t++) {
        lab_layout_say(said, room, json ? "%s[" : "thread %.0s%d:", t ? "," : "", t);
        for (int r = 0; r < 4; r++)
            if (json)
                lab_layout_say(said, room, "%s[%d,%d]", r ? "," : "", h.row[t * 4 + r], h.column[t * 4 + r]);
            else
                lab_layout_say(said, room, "%s d%d = d[%d][%d]", r ? "," : "", r, h.row[t * 4 + r],
                               h.column[t * 4 + r]);
        lab_layout_say(said, room, json ? "]" : "\n");
    }
    lab_layout_say(said, room, json ? "]" : "");
    say_tile(said, room, json, json ? "k" : "K", k_major, 128, 256);
    say_tile(said, room, json, json ? "mn" : "MN", mn_major, leading, stride);
    lab_layout_say(said, room, json ? "}" : "");
}
