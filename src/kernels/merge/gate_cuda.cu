// SPDX-License-Identifier: Apache-2.0
//
// The output gate alone: x * sigmoid(gate), a thread block for a row and head. Element by element, so out may be x.

#include "kernels/cuda_io.h"

namespace {

enum { THREADS = 128 };

__global__ __launch_bounds__(THREADS) void gate(const __grid_constant__ qsa_cuda_gate_args a) {
    const int64_t i = blockIdx.x / (unsigned)a.geometry.heads;
    const int32_t h = (int32_t)(blockIdx.x % (unsigned)a.geometry.heads);
    const unsigned char *x = (const unsigned char *)a.x.data + i * a.x.row_stride + (h ? h * a.x.head_stride : 0);
    const unsigned char *g =
        (const unsigned char *)a.gate.data + i * a.gate.row_stride + (h ? h * a.gate.head_stride : 0);
    unsigned char *out = (unsigned char *)a.out.data + i * a.out.row_stride + (h ? h * a.out.head_stride : 0);
    const bool x_aligned = qsa_cuda_aligned(x, a.x.type), g_aligned = qsa_cuda_aligned(g, a.gate.type),
               aligned = qsa_cuda_aligned(out, a.out.type);
    for (int32_t d = threadIdx.x; d < a.geometry.head_dim; d += THREADS) {
        const float value =
            qsa_cuda_load(x, a.x.type, x_aligned, d) * qsa_sigmoid(qsa_cuda_load(g, a.gate.type, g_aligned, d));
        qsa_cuda_put(out, a.out.type, aligned, d, value);
    }
}

} // namespace

extern "C" int qsa_gate_cuda(const qsa_cuda_gate_args *args, void *stream) {
    const int64_t blocks = (int64_t)args->count * args->geometry.heads;
    if (blocks <= 0)
        return 0;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    gate<<<(unsigned)blocks, THREADS, 0, (cudaStream_t)stream>>>(*args);
    return cudaGetLastError();
}
