// SPDX-License-Identifier: Apache-2.0
//
// Does not end.
// KERNEL: gate
// EXPECT: prove cap: a call did not end
// SECONDS: 8
// LAUNCH: kernel=qsa_gate_cuda_loops grid=rows*heads block=128
#include "kernels/cuda_io.h"

// Element d of head h of row i, at any alignment and stride.
static __device__ float product(const qsa_cuda_gate_args &a, int64_t i, int32_t h, int32_t d) {
    const unsigned char *x = (const unsigned char *)a.x.data + i * a.x.row_stride + (h ? h * a.x.head_stride : 0);
    const unsigned char *g =
        (const unsigned char *)a.gate.data + i * a.gate.row_stride + (h ? h * a.gate.head_stride : 0);
    return qsa_load(x, a.x.type, d) * qsa_sigmoid(qsa_load(g, a.gate.type, d));
}

extern "C" __global__ void qsa_gate_cuda_loops(const __grid_constant__ qsa_cuda_gate_args a) {
    const int64_t i = blockIdx.x / (unsigned)a.geometry.heads;
    const int32_t h = (int32_t)(blockIdx.x % (unsigned)a.geometry.heads);
    unsigned char *out = (unsigned char *)a.out.data + i * a.out.row_stride + (h ? h * a.out.head_stride : 0);
    // Memory that nobody changes is read until it changes: of a volatile local variable the compiler knew better.
    const volatile unsigned char *same = (const volatile unsigned char *)a.x.data;
    const unsigned char first = *same;
    while (*same == first) {
    }
    for (int32_t d = threadIdx.x; d < a.geometry.head_dim; d += 128)
        qsa_put(out, a.out.type, d, product(a, i, h, d));
}
