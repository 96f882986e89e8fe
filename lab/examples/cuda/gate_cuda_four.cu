// SPDX-License-Identifier: Apache-2.0
//
// The gate with four elements to a thread, read and written at once where all three arrays are aligned floats, and four heads to
// a thread block.
// LAUNCH: kernel=qsa_gate_cuda_four grid=rows*up(heads,4) block=256
#include "kernels/cuda_io.h"

static __device__ bool whole(const void *p, qsa_type type) {
    return type == QSA_F32 && ((uintptr_t)p & 15) == 0;
}

extern "C" __global__ void __launch_bounds__(256) qsa_gate_cuda_four(const __grid_constant__ qsa_cuda_gate_args a) {
    const int32_t groups = (a.geometry.heads + 3) / 4, dim = a.geometry.head_dim;
    const int64_t i = blockIdx.x / (unsigned)groups;
    const int32_t h = (int32_t)(blockIdx.x % (unsigned)groups) * 4 + (int32_t)threadIdx.x / 64;
    if (h >= a.geometry.heads)
        return;
    const unsigned char *x = (const unsigned char *)a.x.data + i * a.x.row_stride + (h ? h * a.x.head_stride : 0);
    const unsigned char *g =
        (const unsigned char *)a.gate.data + i * a.gate.row_stride + (h ? h * a.gate.head_stride : 0);
    unsigned char *out = (unsigned char *)a.out.data + i * a.out.row_stride + (h ? h * a.out.head_stride : 0);
    if (whole(x, a.x.type) && whole(g, a.gate.type) && whole(out, a.out.type) && dim % 4 == 0) {
        for (int32_t d = (int32_t)threadIdx.x % 64; d < dim / 4; d += 64) {
            const float4 from = ((const float4 *)x)[d], by = ((const float4 *)g)[d];
            ((float4 *)out)[d] =
                make_float4(qsa_canonical(from.x * qsa_sigmoid(by.x)), qsa_canonical(from.y * qsa_sigmoid(by.y)),
                            qsa_canonical(from.z * qsa_sigmoid(by.z)), qsa_canonical(from.w * qsa_sigmoid(by.w)));
        }
        return;
    }
    for (int32_t d = (int32_t)threadIdx.x % 64; d < dim; d += 64)
        qsa_put(out, a.out.type, d, qsa_load(x, a.x.type, d) * qsa_sigmoid(qsa_load(g, a.gate.type, d)));
}
