// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the wgmma kernel: barriers in shared memory, cp.async, m64n128k16 products.

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_WGMMA_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_WGMMA_CUH

#include <stdint.h>

static __device__ __forceinline__ void barrier_init(uint32_t at, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint32_t at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra.uni done;\n"
                 "bra.uni again;\n"
                 "done:\n"
                 "}" ::"r"(at),
                 "r"(parity)
                 : "memory");
}

static __device__ __forceinline__ void named_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

static __device__ __forceinline__ void named_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

static __device__ __forceinline__ void copy16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// An arrival at the barrier once this thread's copies so far have landed.
static __device__ __forceinline__ void copies_arrive(uint32_t at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}

static __device__ __forceinline__ void copies_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static __device__ __forceinline__ void copies_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// What ordinary stores and cp.async wrote, wgmma reads next. The compiler adds a memory barrier that waits for all of the
// thread's own copies under way: not for a thread that has later ones.
static __device__ __forceinline__ void fence_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void product_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void product_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void product_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Panels of rows of 128 bytes, 16-byte pieces swizzled by row % 8, eights of rows 1,024 bytes apart.
static __device__ __forceinline__ uint64_t describe(uint32_t at) {
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

#define QSA_PRODUCT(type)                                                                                              \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred p;\n"                                                                                     \
                 "setp.ne.b32 p, %66, 0;\n"                                                                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {"                                     \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                              \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                    \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                    \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"                      \
                 "}, %64, %65, p, 1, 1, 0, 0;\n"                                                                       \
                 "}"                                                                                                   \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),     \
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),            \
                   "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),          \
                   "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),          \
                   "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),          \
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),          \
                   "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),          \
                   "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),          \
                   "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])           \
                 : "l"(a), "l"(b), "r"(more))

// c = (more ? c : 0) + A x B^T, A 64 x 16, B 128 x 16.
template <bool BF16> static __device__ __forceinline__ void product(float (&c)[64], uint64_t a, uint64_t b, int more) {
    if constexpr (BF16)
        QSA_PRODUCT("bf16");
    else
        QSA_PRODUCT("f16");
}

#undef QSA_PRODUCT

#endif
