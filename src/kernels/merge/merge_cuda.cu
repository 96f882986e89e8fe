// SPDX-License-Identifier: Apache-2.0
//
// Records to outputs, a thread block for a row and head: the maximum of all records, then their weights 256 at a time,
// each dim's chain in a thread of its own, and the division, the gate and the log of the sum at the end.

#include "kernels/attend/cells_cuda.h"
#include "num/num64.h"

namespace {

enum { THREADS = 256, DIMS = QSA_MAX_HEAD_DIM / THREADS };

struct shared {
    float e[THREADS], l[THREADS]; // weights and sums of some records
    float maximum[THREADS / 32];
    int seen[THREADS / 32]; // 1: a record, 2: with a NaN
};

__device__ float log_sum_exp(float maximum, float sum) {
    if (!(sum > 0.0f && sum < qsa_infinity()) || !(fabsf(maximum) < qsa_infinity()))
        return qsa_canonical(maximum + sum);
    return (float)((double)maximum + qsa_log64((double)sum));
}

// Of all records that hold anything; *any: there is one.
__device__ float maximum_of(const float *records, int64_t stride, int32_t chunks, shared *s, bool *any) {
    float m = -qsa_infinity();
    int seen = 0;
    for (int32_t k = threadIdx.x; k < chunks; k += THREADS) {
        const float x = records[k * stride], l = records[k * stride + 1];
        if (l == 0.0f)
            continue;
        seen |= x != x ? 3 : 1;
        m = x > m ? x : m;
    }
#pragma unroll
    for (int step = 16; step >= 1; step /= 2) {
        m = fmaxf(m, __shfl_xor_sync(~0u, m, step));
        seen |= __shfl_xor_sync(~0u, seen, step);
    }
    if (threadIdx.x % 32 == 0) {
        s->maximum[threadIdx.x / 32] = m;
        s->seen[threadIdx.x / 32] = seen;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++) {
        m = fmaxf(m, s->maximum[i]);
        seen |= s->seen[i];
    }
    *any = seen != 0;
    return seen & 2 ? qsa_nan() : m;
}

__global__ __launch_bounds__(THREADS) void merge(const __grid_constant__ qsa_cuda_merge_args a) {
    __shared__ shared s;
    const qsa_geometry *g = &a.geometry;
    const int32_t h = (int32_t)(blockIdx.x % (unsigned)g->heads), dim = g->head_dim;
    const int64_t i = a.first + blockIdx.x / (unsigned)g->heads;
    const qsa_cuda_row *r = &a.rows[i];
    if (!r->attends)
        return;
    int32_t chunks;
    if (a.chunks) {
        chunks = a.chunks[i - a.first];
    } else {
        const qsa_cuda_pick pick = qsa_cuda_pick_of(g, r, &a.selection, i);
        chunks = qsa_cuda_pick_chunks(&pick);
    }
    const float *records = a.records + (i - a.first) * a.row_stride + (int64_t)h * (2 + dim);
    const int64_t stride = (int64_t)g->heads * (2 + dim);
    bool any;
    const float maximum = maximum_of(records, stride, chunks, &s, &any);
    float o[DIMS] = {}, sum = 0.0f;
    for (int32_t first = 0; first < chunks; first += THREADS) {
        const int32_t count = chunks - first < THREADS ? chunks - first : THREADS;
        const float *record = records + first * stride;
        __syncthreads();
        if ((int32_t)threadIdx.x < count) {
            s.l[threadIdx.x] = record[threadIdx.x * stride + 1];
            s.e[threadIdx.x] = qsa_exp(record[threadIdx.x * stride] - maximum);
        }
        __syncthreads();
#pragma unroll
        for (int n = 0; n < DIMS; n++) {
            const int32_t d = (int32_t)threadIdx.x + n * THREADS;
            if (d >= dim)
                continue;
#pragma unroll 8
            for (int32_t k = 0; k < count; k++) {
                const float x = record[k * stride + 2 + d];
                o[n] = s.l[k] == 0.0f ? o[n] : fmaf(x, s.e[k], o[n]); // an empty record may hold anything
            }
        }
        for (int32_t k = 0; k < count; k++)
            sum = s.l[k] == 0.0f ? sum : fmaf(s.l[k], s.e[k], sum);
    }
    const unsigned char *gate = (const unsigned char *)a.gate.data;
    if (gate)
        gate += i * a.gate.row_stride + (h ? h * a.gate.head_stride : 0);
    unsigned char *out = (unsigned char *)a.out.data + i * a.out.row_stride + (h ? h * a.out.head_stride : 0);
    const bool gate_aligned = gate && qsa_cuda_aligned(gate, a.gate.type), aligned = qsa_cuda_aligned(out, a.out.type);
#pragma unroll
    for (int n = 0; n < DIMS; n++) {
        const int32_t d = (int32_t)threadIdx.x + n * THREADS;
        if (d >= dim)
            continue;
        float x = any ? qsa_canonical(o[n] / sum) : 0.0f;
        if (gate)
            x = x * qsa_sigmoid(qsa_cuda_load(gate, a.gate.type, gate_aligned, d));
        qsa_cuda_put(out, a.out.type, aligned, d, x);
    }
    if (a.lse && threadIdx.x == 0)
        a.lse[i * g->heads + h] = any ? log_sum_exp(maximum, sum) : -qsa_infinity();
}

} // namespace

extern "C" int qsa_merge_cuda(const qsa_cuda_merge_args *args, void *stream) {
    const int64_t blocks = (int64_t)args->count * args->geometry.heads;
    if (blocks <= 0)
        return 0;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    merge<<<(unsigned)blocks, THREADS, 0, (cudaStream_t)stream>>>(*args);
    return cudaGetLastError();
}
