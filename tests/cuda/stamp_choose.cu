// SPDX-License-Identifier: Apache-2.0
//
// Clocks between the steps of one row's selection from its keys, which the batch's scratch holds.

#include "check_choose.h"
#include "choose_world.cuh"

enum { STAMPS = 12 };
static __device__ long long stamps[STAMPS];
#define CHOOSE_STAMP(step)                                                                                             \
    if (threadIdx.x == 0)                                                                                              \
        stamps[step] = clock64();

#include "kernels/score/choose_cuda_mma_select.cuh"

template <int THREADS, int PER> __global__ void __launch_bounds__(THREADS, 1) stamped(const choose_job job) {
    extern __shared__ uint4 dynamic[];
    __shared__ select_shared sh;
    select_by_keys<THREADS, PER>(job, &sh, dynamic, 0, job.keys, job.best);
    __syncthreads();
    CHOOSE_STAMP(11)
}

template <int THREADS, int PER> static void stamp(const choose_job &job) {
    static const char *const names[STAMPS] = {"",      "task", "best loaded", "largest", "least, some", "bisection", "hits",
                                              "gather", "bisection", "bitmaps",    "ids",     "barrier"};
    MUST(cudaFuncSetAttribute(stamped<THREADS, PER>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)select_bytes(job)));
    for (int i = 0; i < 3; i++)
        stamped<THREADS, PER><<<1, THREADS, select_bytes(job)>>>(job);
    long long at[STAMPS];
    MUST(cudaMemcpyFromSymbol(at, stamps, sizeof at));
    printf("    %d threads, clocks:", THREADS);
    for (int i = 1; i < STAMPS; i++)
        printf(" %s %lld,", names[i], at[i] - at[i - 1]);
    printf(" in all %lld\n", at[STAMPS - 1] - at[0]);
    fflush(stdout);
}

void stamp_choose(const qsa_cuda_choose_args *args, const choose_tuning *tuning) {
    choose_job job = {};
    const int32_t sub = qsa_choose_mma_sub_rows(4, args->count, args->most_cells, tuning, 132, &job.stride);
    job.rows = args->rows;
    job.count = 1;
    job.ratio = 4, job.blocks_budget = 512, job.free_cells = 2051;
    job.rule = args->rule;
    job.selection = args->selection;
    const size_t count = (size_t)args->count;
    job.keys = (uint32_t *)((char *)args->scratch + (count * (size_t)tuning->planes * 1024 + 255) / 256 * 256 + (count * 4 + 255) / 256 * 256);
    job.best = job.keys + (size_t)sub * (size_t)job.stride;
    stamp<256, 16>(job);
    stamp<512, 16>(job);
    stamp<1024, 8>(job);
}
