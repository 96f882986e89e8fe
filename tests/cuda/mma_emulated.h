// SPDX-License-Identifier: Apache-2.0
//
// The instructions of mma_cuda.h on the CPU: a CTA's threads are fibers, and what a warp does together is done through a
// buffer between two meetings of its lanes. Slow, and enough to check every index of a kernel without a GPU.

#ifndef QSA_TESTS_CUDA_MMA_EMULATED_H
#define QSA_TESTS_CUDA_MMA_EMULATED_H

#include "num/load.h"

#include <stdlib.h>
#include <ucontext.h>

#include <algorithm>
#include <functional>

using std::max;
using std::min;

#define QSA_DEVICE                static inline
#define QSA_KERNEL(threads, ctas) static void
#define QSA_GRID_CONSTANT
#define QSA_SHARED

struct float2 {
    float x, y;
};
struct uint2 {
    uint32_t x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline uint2 make_uint2(uint32_t x, uint32_t y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    return {x, y, z, w};
}

alignas(1024) uint4 shared_bytes[16384];

namespace emulated {
struct index {
    int x, y, z;
};
const int most_threads = 1024, stack_bytes = 256 << 10;
int threads, current, live, arrived[33], generation[33], alive_in[33];
bool done[most_threads];
ucontext_t contexts[most_threads], scheduler;
char *stacks;
std::function<void()> body;
uint32_t exchange[most_threads][8];

inline void entry() {
    body();
    done[current] = true;
    live--;
    alive_in[current / 32]--, alive_in[32]--;
    for (;;)
        swapcontext(&contexts[current], &scheduler);
}

inline void meet(int group) { // a warp, or 32: the CTA
    int seen = generation[group];
    if (++arrived[group] >= alive_in[group]) {
        arrived[group] = 0;
        generation[group]++;
        return;
    }
    while (generation[group] == seen) {
        int me = current;
        swapcontext(&contexts[me], &scheduler);
        if (arrived[group] >= alive_in[group] && generation[group] == seen) {
            arrived[group] = 0;
            generation[group]++;
        }
    }
}
} // namespace emulated

static emulated::index threadIdx, blockIdx, gridDim;

namespace emulated {
inline void run_cta(int block, int blocks, int n, std::function<void()> f) {
    if (!stacks)
        stacks = (char *)malloc((size_t)most_threads * stack_bytes);
    for (size_t i = 0; i < sizeof shared_bytes / 4; i++)
        ((uint32_t *)shared_bytes)[i] = 0x7fc1dead; // uninitialised shared memory is NaN
    threads = live = n;
    body = f;
    blockIdx.x = block, gridDim.x = blocks;
    for (int g = 0; g < 33; g++)
        arrived[g] = 0, alive_in[g] = g < 32 ? max(0, min(32, n - 32 * g)) : n;
    for (int i = 0; i < n; i++) {
        done[i] = false;
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks + (size_t)i * stack_bytes;
        contexts[i].uc_stack.ss_size = stack_bytes;
        contexts[i].uc_link = 0;
        makecontext(&contexts[i], entry, 0);
    }
    while (live)
        for (int i = n - 1; i >= 0; i--) // warps in descending order: a missing barrier shows
            if (!done[i]) {
                current = i;
                threadIdx.x = i;
                swapcontext(&scheduler, &contexts[i]);
            }
}
inline void give(const uint32_t *v, int n) {
    for (int i = 0; i < n; i++)
        exchange[current][i] = v[i];
    meet(current / 32);
}
inline uint32_t taken(int lane, int i) {
    return exchange[current / 32 * 32 + lane][i];
}
inline void over() {
    meet(current / 32);
}
} // namespace emulated

static inline void __syncthreads() {
    emulated::meet(32);
}
static inline void __syncwarp() {
    emulated::over();
}
QSA_DEVICE void qsa_trigger_dependents(void) {}
QSA_DEVICE void qsa_wait_dependency(void) {}

static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t s) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)(both >> (8 * (s >> (4 * i) & 7)) & 255) << (8 * i);
    return r;
}

template <class F>
static inline void emulated_mma(F product, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                uint32_t b1) {
    uint32_t v[6] = {a0, a1, a2, a3, b0, b1};
    emulated::give(v, 6);
    int lane = emulated::current % 32;
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
        for (int t = 0; t < 4; t++)
            for (int high = 0; high < 2; high++)
                product(i, emulated::taken(row % 8 * 4 + t, (row >= 8) + 2 * high),
                        emulated::taken(column * 4 + t, 4 + high));
    }
    emulated::over();
}

QSA_DEVICE void qsa_mma_s8(int32_t c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emulated_mma(
        [&](int i, uint32_t a, uint32_t b) {
            for (int k = 0; k < 4; k++)
                c[i] += (int)(int8_t)(a >> 8 * k) * (int8_t)(b >> 8 * k);
        },
        a0, a1, a2, a3, b0, b1);
}
QSA_DEVICE void qsa_mma_f16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emulated_mma(
        [&](int i, uint32_t a, uint32_t b) {
            for (int k = 0; k < 2; k++)
                c[i] += qsa_f32_of_f16((uint16_t)(a >> 16 * k)) * qsa_f32_of_f16((uint16_t)(b >> 16 * k));
        },
        a0, a1, a2, a3, b0, b1);
}
QSA_DEVICE void qsa_mma_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emulated_mma(
        [&](int i, uint32_t a, uint32_t b) {
            for (int k = 0; k < 2; k++)
                c[i] += qsa_f32_of_bf16((uint16_t)(a >> 16 * k)) * qsa_f32_of_bf16((uint16_t)(b >> 16 * k));
        },
        a0, a1, a2, a3, b0, b1);
}
QSA_DEVICE void emulated_ldmatrix(uint32_t r[4], const void *shared, bool transposed) {
    uint64_t p = (uint64_t)(uintptr_t)shared;
    uint32_t v[2] = {(uint32_t)p, (uint32_t)(p >> 32)};
    emulated::give(v, 2);
    int lane = emulated::current % 32, g = lane / 4, t = lane % 4;
    auto row = [&](int i, int j) {
        return (const uint16_t *)(uintptr_t)((uint64_t)emulated::taken(8 * i + j, 1) << 32 |
                                             emulated::taken(8 * i + j, 0));
    };
    for (int i = 0; i < 4; i++)
        r[i] = transposed ? row(i, 2 * t)[g] | (uint32_t)row(i, 2 * t + 1)[g] << 16
                          : row(i, g)[2 * t] | (uint32_t)row(i, g)[2 * t + 1] << 16;
    emulated::over();
}
QSA_DEVICE void qsa_ldmatrix_trans(uint32_t r[4], const void *shared) {
    emulated_ldmatrix(r, shared, true);
}
QSA_DEVICE void qsa_ldmatrix(uint32_t r[4], const void *shared) {
    emulated_ldmatrix(r, shared, false);
}
QSA_DEVICE uint32_t qsa_shuffle(uint32_t x, int mask) {
    emulated::give(&x, 1);
    uint32_t y = emulated::taken(emulated::current % 32 ^ mask, 0);
    emulated::over();
    return y;
}
QSA_DEVICE float qsa_shuffle(float x, int mask) {
    return qsa_f32_of_bits(qsa_shuffle(qsa_bits_of_f32(x), mask));
}
QSA_DEVICE float qsa_exp2(float x) {
    return x < -126 ? 0.0f : exp2f(x);
}
QSA_DEVICE uint32_t qsa_pack_f16(float l, float h) {
    return qsa_f16_of_f32(l) | (uint32_t)qsa_f16_of_f32(h) << 16;
}
QSA_DEVICE uint32_t qsa_pack_bf16(float l, float h) {
    return qsa_bf16_of_f32(l) | (uint32_t)qsa_bf16_of_f32(h) << 16;
}
QSA_DEVICE float2 qsa_unpack_f16(uint32_t u) {
    return {qsa_f32_of_f16((uint16_t)u), qsa_f32_of_f16((uint16_t)(u >> 16))};
}
QSA_DEVICE uint32_t qsa_max_f16(uint32_t a, uint32_t b) {
    float2 x = qsa_unpack_f16(a), y = qsa_unpack_f16(b);
    return qsa_pack_f16(fmaxf(x.x, y.x), fmaxf(x.y, y.y));
}
QSA_DEVICE uint32_t qsa_sub_f16(uint32_t a, uint32_t b) {
    float2 x = qsa_unpack_f16(a), y = qsa_unpack_f16(b);
    return qsa_pack_f16(x.x - y.x, x.y - y.y);
}
QSA_DEVICE uint32_t qsa_mul_f16(uint32_t a, uint32_t b) {
    float2 x = qsa_unpack_f16(a), y = qsa_unpack_f16(b);
    return qsa_pack_f16(x.x * y.x, x.y * y.y);
}
QSA_DEVICE uint32_t qsa_max_u16(uint32_t a, uint32_t b) {
    return max(a & 0xffffu, b & 0xffffu) | max(a >> 16, b >> 16) << 16;
}
QSA_DEVICE void qsa_copy16(void *shared, const void *global) {
    memcpy(shared, global, 16);
}
QSA_DEVICE void qsa_copy_commit(void) {}
QSA_DEVICE void qsa_copy_wait(void) {}
QSA_DEVICE void qsa_atomic_or(uint32_t *p, uint32_t bits) {
    *p |= bits;
}
QSA_DEVICE int32_t qsa_popcount(uint32_t x) {
    return __builtin_popcount(x);
}
QSA_DEVICE uint32_t qsa_ballot(bool x) {
    uint32_t v = x, all = 0;
    emulated::give(&v, 1);
    for (int i = 0; i < 32; i++)
        all |= emulated::taken(i, 0) << i;
    emulated::over();
    return all;
}
QSA_DEVICE uint4 qsa_gather16(const void *p) {
    return *(const uint4 *)p;
}
QSA_DEVICE uint2 qsa_gather8(const void *p) {
    return *(const uint2 *)p;
}

// Warpgroup products: operand B out of shared memory as the descriptor says. Clusters are of one CTA.
QSA_DEVICE uint32_t qsa_shared_address(const void *p) {
    return (uint32_t)((const char *)p - (const char *)shared_bytes);
}
QSA_DEVICE void qsa_wgmma_fence(void) {}
QSA_DEVICE void qsa_wgmma_commit(void) {}
QSA_DEVICE void qsa_wgmma_publish(void) {}
template <int LEFT> QSA_DEVICE void qsa_wgmma_wait(void) {}
template <int LEFT> QSA_DEVICE void qsa_copy_wait_but(void) {}
template <int N> QSA_DEVICE void qsa_wgmma_taken(int32_t (&)[N]) {}
template <int N> QSA_DEVICE void qsa_wgmma_taken(float (&)[N]) {}
static inline uint32_t emulated_word(uint64_t d, int row, int k) { // of an operand in panels
    uint32_t at = (uint32_t)(d & 0x3fff) * 16 + (uint32_t)row / 8 * (uint32_t)(d >> 32 & 0x3fff) * 16 +
                  (uint32_t)row % 8 * 128 + (uint32_t)k,
             u;
    at ^= at >> 3 & 0x70;
    memcpy(&u, (const char *)shared_bytes + at, 4);
    return u;
}
template <int N>
QSA_DEVICE void qsa_wgmma_s8(int32_t (&c)[N], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                             int more) {
    const int lane = emulated::current % 32, t = lane % 4;
    for (int j = 0; j < N / 4; j++) {
        if (!more)
            c[4 * j] = c[4 * j + 1] = c[4 * j + 2] = c[4 * j + 3] = 0;
        qsa_mma_s8(c + 4 * j, a0, a1, a2, a3, emulated_word(b, 8 * j + lane / 4, 4 * t),
                   emulated_word(b, 8 * j + lane / 4, 16 + 4 * t));
    }
}
QSA_DEVICE void qsa_wgmma_s8(int32_t (&c)[48], uint64_t a, uint64_t b, int more) {
    const int lane = emulated::current % 32, t = lane % 4, row = emulated::current / 32 % 4 * 16 + lane / 4;
    qsa_wgmma_s8(c, emulated_word(a, row, 4 * t), emulated_word(a, row + 8, 4 * t), emulated_word(a, row, 16 + 4 * t),
                 emulated_word(a, row + 8, 16 + 4 * t), b, more);
}
template <int N>
QSA_DEVICE void qsa_wgmma_f16(float (&c)[N], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b, int more) {
    const uint32_t start = (uint32_t)(b & 0x3fff) * 16, next_k = (uint32_t)(b >> 16 & 0x3fff) * 16,
                   next_n = (uint32_t)(b >> 32 & 0x3fff) * 16;
    const int lane = emulated::current % 32, t = lane % 4;
    auto half = [&](int n, int k) {
        uint16_t h;
        memcpy(&h, (const char *)shared_bytes + start + n / 8 * next_n + k / 8 * next_k + k % 8 * 16 + n % 8 * 2, 2);
        return (uint32_t)h;
    };
    for (int j = 0; j < N / 4; j++) {
        const int n = 8 * j + lane / 4;
        if (!more)
            c[4 * j] = c[4 * j + 1] = c[4 * j + 2] = c[4 * j + 3] = 0;
        qsa_mma_f16(c + 4 * j, a0, a1, a2, a3, half(n, 2 * t) | half(n, 2 * t + 1) << 16,
                    half(n, 8 + 2 * t) | half(n, 9 + 2 * t) << 16);
    }
}
QSA_DEVICE bool qsa_any_thread(bool x) {
    static int any[2], turn[emulated::most_threads]; // a buffer per parity of the thread's calls
    int *mine = &any[turn[emulated::current]++ & 1], *other = &any[turn[emulated::current] & 1];
    *mine |= x;
    emulated::meet(32);
    const bool y = *mine;
    emulated::meet(32);
    *mine = *other = 0;
    emulated::meet(32);
    return y;
}
QSA_DEVICE uint32_t qsa_reduce_max(uint32_t x) {
    for (int mask = 1; mask < 32; mask *= 2)
        x = max(x, qsa_shuffle(x, mask));
    return x;
}
QSA_DEVICE int32_t qsa_uniform(int32_t x) {
    return x;
}
QSA_DEVICE float qsa_shuffle_from(float x, int lane) {
    uint32_t u = qsa_bits_of_f32(x);
    emulated::give(&u, 1);
    const uint32_t y = emulated::taken(lane, 0);
    emulated::over();
    return qsa_f32_of_bits(y);
}
QSA_DEVICE float qsa_shuffle_up(float x, int lanes) {
    const int lane = emulated::current % 32;
    uint32_t u = qsa_bits_of_f32(x);
    emulated::give(&u, 1);
    const uint32_t y = emulated::taken(lane < lanes ? lane : lane - lanes, 0);
    emulated::over();
    return qsa_f32_of_bits(y);
}
QSA_DEVICE int32_t qsa_cluster_rank(void) {
    return 0;
}
QSA_DEVICE int32_t qsa_cluster_size(void) {
    return 1;
}
QSA_DEVICE void qsa_cluster_sync(void) {
    __syncthreads();
}
QSA_DEVICE uint32_t qsa_cluster_address(const void *p, int32_t) {
    return qsa_shared_address(p);
}
QSA_DEVICE float4 qsa_cluster_load4(uint32_t at) {
    return *(const float4 *)((const char *)shared_bytes + at);
}
QSA_DEVICE float2 qsa_cluster_load2(uint32_t at) {
    return *(const float2 *)((const char *)shared_bytes + at);
}

#endif
