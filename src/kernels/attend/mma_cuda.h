// SPDX-License-Identifier: Apache-2.0
//
// The instructions that the fast CUDA attention is made of, one function each: matrix products on register fragments,
// fragment loads, packed halves.
//
// Fragments of m16n8kX, lane = 4 g + t: A holds rows g and g + 8, B column g, C rows g and g + 8, columns 2t and 2t + 1.

#ifndef QSA_KERNELS_ATTEND_MMA_CUDA_H
#define QSA_KERNELS_ATTEND_MMA_CUDA_H

#include <cuda_fp16.h>
#include <stdint.h>

#define QSA_DEVICE                static __device__ __forceinline__
#define QSA_KERNEL(threads, ctas) static __global__ void __launch_bounds__(threads, ctas)
#define QSA_GRID_CONSTANT         __grid_constant__
#define QSA_SHARED                extern __shared__ __align__(1024) uint4 shared_bytes[] // swizzles count from 1,024

// Programmatic dependent launch: the next kernel may start, and wait where it needs this one's results.
QSA_DEVICE void qsa_trigger_dependents(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

QSA_DEVICE void qsa_wait_dependency(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// c += a b, 8-bit signed, k = 32: a0 row g, k 4t..4t+3; a1 row g + 8; a2, a3 the same at k + 16; b0, b1 likewise.
QSA_DEVICE void qsa_mma_s8(int32_t c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// c += a b, halves, k = 16: a0 row g, k 2t, 2t + 1; a1 row g + 8; a2, a3 the same at k + 8; b0, b1 likewise.
QSA_DEVICE void qsa_mma_f16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

QSA_DEVICE void qsa_mma_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit elements, transposed: lane 8 i + j names row j of matrix i; r[i] of lane (g, t) becomes
// elements [2t][g] and [2t + 1][g] of matrix i.
QSA_DEVICE void qsa_ldmatrix_trans(uint32_t r[4], const void *shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(shared))
                 : "memory");
}

// The same as they are: r[i] becomes elements [g][2t] and [g][2t + 1] of matrix i, or bytes [g][4t .. 4t + 3].
QSA_DEVICE void qsa_ldmatrix(uint32_t r[4], const void *shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(shared))
                 : "memory");
}

QSA_DEVICE float qsa_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

QSA_DEVICE uint32_t qsa_pack_f16(float low, float high) {
    uint32_t u;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}

QSA_DEVICE uint32_t qsa_pack_bf16(float low, float high) {
    uint32_t u;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}

QSA_DEVICE float2 qsa_unpack_f16(uint32_t u) {
    __half2 h;
    memcpy(&h, &u, sizeof h);
    return __half22float2(h);
}

// The larger of each half; a NaN loses to a number.
QSA_DEVICE uint32_t qsa_max_f16(uint32_t a, uint32_t b) {
    uint32_t u;
    asm("max.f16x2 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    return u;
}

QSA_DEVICE uint32_t qsa_sub_f16(uint32_t a, uint32_t b) {
    uint32_t u;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    return u;
}

// Gathered rows are read once by their CTA; no write to them is in flight.
QSA_DEVICE uint4 qsa_gather16(const void *p) {
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

QSA_DEVICE uint2 qsa_gather8(const void *p) {
    uint2 v;
    asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}

QSA_DEVICE uint32_t qsa_mul_f16(uint32_t a, uint32_t b) {
    uint32_t u;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    return u;
}

QSA_DEVICE uint32_t qsa_max_u16(uint32_t a, uint32_t b) {
    return __vmaxu2(a, b);
}

// 16 bytes from global to shared memory, behind the thread's back.
QSA_DEVICE void qsa_copy16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global)
                 : "memory");
}

QSA_DEVICE void qsa_copy_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

QSA_DEVICE void qsa_copy_wait(void) {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

QSA_DEVICE void qsa_atomic_or(uint32_t *p, uint32_t bits) {
    atomicOr(p, bits);
}

QSA_DEVICE uint32_t qsa_ballot(bool x) {
    return __ballot_sync(0xffffffffu, x);
}

QSA_DEVICE int32_t qsa_popcount(uint32_t x) {
    return __popc(x);
}

QSA_DEVICE float qsa_shuffle(float x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

QSA_DEVICE uint32_t qsa_shuffle(uint32_t x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

QSA_DEVICE int32_t qsa_shuffle_from(int32_t x, int lane) {
    return __shfl_sync(0xffffffffu, x, lane);
}

QSA_DEVICE uint32_t qsa_reduce_max(uint32_t x) {
    return __reduce_max_sync(0xffffffffu, x);
}

// Codes of cells a, b (and dims 4 each, one byte per dim) to halves (a, b) of each dim, exactly: 1024 + (code + 128) has the
// code in its low bits, and 1152 comes off.
QSA_DEVICE void qsa_halves_of_codes(uint32_t out[4], uint32_t a, uint32_t b) {
    const uint32_t low = __byte_perm(a, b, 0x5140) ^ 0x80808080u, high = __byte_perm(a, b, 0x7362) ^ 0x80808080u;
    out[0] = qsa_sub_f16(__byte_perm(low, 0x64646464u, 0x4140), 0x64806480u);
    out[1] = qsa_sub_f16(__byte_perm(low, 0x64646464u, 0x4342), 0x64806480u);
    out[2] = qsa_sub_f16(__byte_perm(high, 0x64646464u, 0x4140), 0x64806480u);
    out[3] = qsa_sub_f16(__byte_perm(high, 0x64646464u, 0x4342), 0x64806480u);
}

#endif
