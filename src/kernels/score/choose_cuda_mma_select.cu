// SPDX-License-Identifier: Apache-2.0
//
// The selection of rows whose keys are in memory: a thread block per row.

#include "kernels/score/choose_cuda_mma_select.cuh"

template <int THREADS, int PER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) qsa_choose_mma_select_kernel(const choose_job job) {
    extern __shared__ uint4 dynamic[];
    __shared__ select_shared sh;
    choose_chain();
    select_by_keys<THREADS, PER>(job, &sh, dynamic, job.first + blockIdx.x, job.keys + (int64_t)blockIdx.x * job.stride,
                                 job.best + (int64_t)blockIdx.x * (job.stride / CHOOSE_GROUP));
}

template <int THREADS, int PER> static cudaError_t launch(const choose_job &job, const choose_launch &launch) {
    const void *kernel = (const void *)qsa_choose_mma_select_kernel<THREADS, PER>;
    const size_t shared = select_bytes(job);
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    return choose_launch_kernel(kernel, dim3((unsigned)job.count), dim3(THREADS), shared, launch, job);
}

cudaError_t choose_launch_select(const choose_job &job, const choose_launch &at, int32_t most_blocks) {
    const int32_t groups = (most_blocks + 7) / 8 + 1;
    // Few rows: more threads each, for the time of one.
    const int threads = job.count <= at.sms && groups > 2048 ? 1024 : 256;
    if (threads >= 1024)
        return groups <= 4096   ? launch<1024, 4>(job, at)
               : groups <= 8192 ? launch<1024, 8>(job, at)
                                : launch<1024, 16>(job, at);
    if (groups <= 1024)
        return launch<256, 4>(job, at);
    if (groups <= 2048)
        return launch<256, 8>(job, at);
    return groups <= 4096 ? launch<256, 16>(job, at) : launch<512, 16>(job, at);
}
