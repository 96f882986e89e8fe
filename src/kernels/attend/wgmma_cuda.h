// SPDX-License-Identifier: Apache-2.0
//
// The instructions that only sm_90a has, one function each: products of a warpgroup with operand B in shared memory.
// Elsewhere nothing is generated, and kernels made of them are not launched.
//
// Products: A in registers, as m16n8kX of mma_cuda.h with warp w's rows at 16 w; so is C, columns 8 j + 2t, 2t + 1 in c[4 j ..].

#ifndef QSA_KERNELS_ATTEND_WGMMA_CUDA_H
#define QSA_KERNELS_ATTEND_WGMMA_CUDA_H

#include "kernels/attend/mma_cuda.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define QSA_WGMMA   1
#define QSA_SM90(x) asm volatile x
#else
#define QSA_WGMMA 0
#define QSA_SM90(x)
#endif

QSA_DEVICE uint32_t qsa_shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// Registers written before are the products' now; registers of products that were waited for may be read (qsa_wgmma_taken).
QSA_DEVICE void qsa_wgmma_fence(void) {
    QSA_SM90(("wgmma.fence.sync.aligned;" ::: "memory"));
}

QSA_DEVICE void qsa_wgmma_commit(void) {
    QSA_SM90(("wgmma.commit_group.sync.aligned;" ::: "memory"));
}

template <int LEFT> QSA_DEVICE void qsa_wgmma_wait(void) {
    QSA_SM90(("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"));
}

// The compiler must not move what reads a product's result above the wait.
template <int N> QSA_DEVICE void qsa_wgmma_taken(int32_t (&c)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(c[i])::"memory");
}

template <int N> QSA_DEVICE void qsa_wgmma_taken(float (&c)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(c[i])::"memory");
}

// What ordinary stores wrote to shared memory, products of threads behind the next barrier read.
QSA_DEVICE void qsa_wgmma_publish(void) {
    QSA_SM90(("fence.proxy.async.shared::cta;" ::: "memory"));
}

// c = (more ? c : 0) + A B, 8-bit signed, k = 32, n = 8 NT.
QSA_DEVICE void qsa_wgmma_s8(int32_t (&c)[12], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                             int more) {
    QSA_SM90(("{\n.reg .pred p;\nsetp.ne.b32 p, %17, 0;\n"
              "wgmma.mma_async.sync.aligned.m64n24k32.s32.s8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, "
              "{%12,%13,%14,%15}, %16, p;\n}"
              : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
                "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11])
              : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(more)));
}

QSA_DEVICE void qsa_wgmma_s8(int32_t (&c)[16], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                             int more) {
    QSA_SM90(
        ("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
         "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
         "{%16,%17,%18,%19}, %20, p;\n}"
         : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]), "+r"(c[8]),
           "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15])
         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(more)));
}

// The same of halves, k = 16, n = 16, B's rows are its k (n in a row).
QSA_DEVICE void qsa_wgmma_f16(float (&c)[8], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b, int more) {
    QSA_SM90(("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
              "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, "
              "{%8,%9,%10,%11}, %12, p, 1, 1, 1;\n}"
              : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
              : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(more)));
}

// The same with both operands in shared memory (qsa_describe_rows), n = 48.
QSA_DEVICE void qsa_wgmma_s8(int32_t (&c)[24], uint64_t a, uint64_t b, int more) {
    QSA_SM90(("{\n.reg .pred p;\nsetp.ne.b32 p, %26, 0;\n"
              "wgmma.mma_async.sync.aligned.m64n48k32.s32.s8.s8 {"
              "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23"
              "}, %24, %25, p;\n}"
              : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
                "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
                "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23])
              : "l"(a), "l"(b), "r"(more)));
}

QSA_DEVICE void qsa_wgmma_f16(float (&c)[48], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b,
                              int more) {
    QSA_SM90(("{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
              "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
              "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
              "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
              "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
              "}, {%48,%49,%50,%51}, %52, p, 1, 1, 1;\n}"
              : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
                "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
                "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47])
              : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(more)));
}

template <int LEFT> QSA_DEVICE void qsa_copy_wait_but(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

QSA_DEVICE bool qsa_any_thread(bool x) { // of the CTA; a barrier
    return __syncthreads_or(x);
}

// What all lanes of the warp have anyway, so that the compiler knows it too.
QSA_DEVICE int32_t qsa_uniform(int32_t x) {
    return __shfl_sync(0xffffffffu, x, 0);
}

// An operand with 128 bytes of k in a row: 16-byte pieces swizzled by row % 8, eights of rows 1,024 bytes apart. k advances by
// bytes of the address; the panel is aligned to 1,024.
QSA_DEVICE uint64_t qsa_describe_rows(uint32_t at) {
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

// Operand B of 8 x 8 halves in 128 bytes, rows are k: the next 8 k are 128 bytes further, the next 8 n next_n.
QSA_DEVICE uint64_t qsa_describe_blocks(uint32_t at, uint32_t next_n) {
    return (uint64_t)((at & 0x3ffff) >> 4) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(next_n >> 4) << 32;
}

#endif
