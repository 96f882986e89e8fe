// SPDX-License-Identifier: Apache-2.0
//
// Raw index keys and positions of newly committed cells: from the pending slots to the committed ones, in every layer.

#include "kernels/cuda_io.h"

namespace {

enum { THREADS = 128 };

// A thread block per span, layer and cell of it.
__global__ void commit(const qsa_cuda_commit_args a, int64_t work) {
    for (int64_t w = blockIdx.x; w < work; w += gridDim.x) {
        const int32_t k = (int32_t)(w % a.keep), layer = (int32_t)(w / a.keep % a.layers);
        const int32_t *span = a.spans + w / a.keep / a.layers * 3;
        if (k >= span[2])
            continue;
        const int64_t cell = (int64_t)span[1] + k;
        const int64_t slot = layer * a.layer_slots + (int64_t)span[0] * a.keep + cell % a.keep;
        for (int32_t d = threadIdx.x; d < a.index_dim; d += THREADS)
            a.raw[slot * a.index_dim + d] = a.raw_pending[slot * a.index_dim + d];
        if (threadIdx.x < 3)
            a.raw_positions[slot * 3 + threadIdx.x] = a.raw_positions_pending[slot * 3 + threadIdx.x];
    }
}

} // namespace

extern "C" int qsa_commit_cuda(const qsa_cuda_commit_args *args, void *stream) {
    const int64_t work = (int64_t)args->count * args->layers * args->keep;
    if (work <= 0)
        return 0;
    commit<<<(unsigned)(work < 65536 ? work : 65536), THREADS, 0, (cudaStream_t)stream>>>(*args, work);
    return cudaGetLastError();
}
