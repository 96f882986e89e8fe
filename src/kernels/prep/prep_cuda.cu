// SPDX-License-Identifier: Apache-2.0
//
// All of prep for a batch in one launch: what append.c does row by row with angles, norm_rope, store and pool, the same
// bytes. A thread block takes 16 vectors of one row, 16 threads each (vector_cuda.h), while one more warp works out the
// row's angles, a frequency a thread. One block more per row keeps the raw index key and makes the block key. Rows do
// not wait for each other: a block key is made of raw keys of the batch or of cells committed before. The preset's
// sizes, aligned, have a kernel of their own (prep_wide_cuda.h).

#include "kernels/prep/prep_wide_cuda.h"
#include "kernels/prep/sincos_cuda.h"
#include "kernels/prep/vector_cuda.h"

namespace {

enum { VECTORS = 16, WORKERS = 16 * VECTORS, THREADS = WORKERS + 32 };
enum { NOTHING, WIDE, NARROW, ANY }; // how a vector is worked on: 256 or 128 elements in registers, or any number

struct shared {
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    float mean[QSA_MAX_HEAD_DIM];
    int32_t source[QSA_MAX_RATIO]; // of each cell of the block: its row of the batch, or -1
    int32_t positions[3];
};

__device__ int way_of(const qsa_cuda_vector *v) {
    if (!v->x)
        return NOTHING;
    const bool fits = v->aligned && v->half == QSA_CUDA_HALF;
    return fits && v->dim == 256 ? WIDE : fits && v->dim == 128 ? NARROW : ANY;
}

__device__ void take_row(qsa_cuda_vector *v, const qsa_rows *rows, int32_t row, int32_t head) {
    v->x = (const unsigned char *)rows->data + row * rows->row_stride + (head ? head * rows->head_stride : 0);
    v->type = rows->type;
    v->aligned = qsa_cuda_aligned(v->x, rows->type);
}

// Vector number i of a row: queries, index queries, keys, values.
__device__ qsa_cuda_vector vector_of(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, int32_t row, int32_t i) {
    const qsa_geometry *g = &a->cache.geometry;
    qsa_cuda_vector v = {};
    v.half = g->rotary_dim / 2;
    v.eps = g->eps;
    v.dim = g->head_dim;
    if (i < g->heads) {
        if (r->attends && a->q_out) {
            take_row(&v, &a->q, row, i);
            v.factor = a->q_factor;
            v.out = a->q_out + ((int64_t)row * g->heads + i) * g->head_dim;
        }
        return v;
    }
    i -= g->heads;
    if (i < g->index_heads) {
        v.dim = g->index_dim;
        if (r->attends && a->index_q_out) {
            take_row(&v, &a->index_q, row, i);
            v.factor = a->iq_factor;
            v.out = a->index_q_out + ((int64_t)row * g->index_heads + i) * g->index_dim;
        }
        return v;
    }
    i -= g->index_heads;
    if (i >= 2 * g->kv_heads)
        return v;
    const bool value = i >= g->kv_heads;
    const int32_t head = value ? i - g->kv_heads : i;
    const int64_t at = qsa_cuda_cell_row(&a->cache, qsa_cuda_table(&a->cache, r->sequence), r->cells - 1, head);
    float *out = value ? a->v_out : a->k_out;
    take_row(&v, value ? &a->v : &a->k, row, head);
    v.factor = value ? NULL : a->k_factor;
    v.out = out ? out + ((int64_t)row * g->kv_heads + head) * g->head_dim : NULL;
    v.format = a->cache.kv_type;
    v.codes = (unsigned char *)(value ? a->cache.v : a->cache.k) +
              at * (int64_t)(g->head_dim * qsa_type_size(a->cache.kv_type));
    if (v.format == QSA_I8)
        v.scales = (value ? a->cache.v_scales : a->cache.k_scales) + at * ((g->head_dim + QSA_GROUP - 1) / QSA_GROUP);
    return v;
}

__device__ void keep_raw(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, int32_t row) {
    const int64_t slot = slot_of(&a->cache, r->sequence, r->cells - 1);
    const int32_t dim = a->cache.geometry.index_dim;
    qsa_cuda_vector v;
    take_row(&v, &a->index_k, row, 0);
    for (int32_t d = threadIdx.x; d < dim; d += THREADS)
        a->cache.raw_pending[slot * dim + d] = qsa_cuda_load(v.x, v.type, v.aligned, d);
    if (threadIdx.x < 3)
        a->cache.raw_positions_pending[slot * 3 + threadIdx.x] = r->positions[threadIdx.x];
}

// Where the raw keys of the block are, and the positions of its first cell: backwards along the batch, then committed
// cells.
__device__ void find_block(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, int32_t row, shared *s) {
    const int32_t ratio = a->cache.geometry.ratio, first = r->cells - ratio;
    int32_t at = row;
    for (int32_t c = ratio - 1; c >= 0; c--) {
        s->source[c] = at;
        if (at >= 0 && c > 0)
            at = a->rows[at].previous;
    }
    const int32_t *positions =
        at >= 0 ? a->rows[at].positions : a->cache.raw_positions + slot_of(&a->cache, r->sequence, first) * 3;
    for (int i = 0; i < 3; i++)
        s->positions[i] = positions[i];
}

// The mean of the block's raw keys: a chain of additions in cell order from the first key, then one division.
__device__ void average(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, shared *s) {
    const int32_t ratio = a->cache.geometry.ratio, dim = a->cache.geometry.index_dim, first = r->cells - ratio;
    for (int32_t d = threadIdx.x; d < dim; d += WORKERS) {
        float sum = 0.0f;
#pragma unroll 4
        for (int32_t c = 0; c < ratio; c++) {
            float x;
            if (s->source[c] >= 0) {
                qsa_cuda_vector v;
                take_row(&v, &a->index_k, s->source[c], 0);
                x = qsa_cuda_load(v.x, v.type, v.aligned, d);
            } else {
                x = a->cache.raw[slot_of(&a->cache, r->sequence, first + c) * dim + d];
            }
            sum = c ? sum + x : x;
        }
        s->mean[d] = sum / (float)ratio;
    }
}

__device__ qsa_cuda_vector block_of(const qsa_cuda_prep_args *a, const qsa_cuda_row *r, const shared *s) {
    const qsa_geometry *g = &a->cache.geometry;
    const int32_t page_blocks = a->cache.page_cells / g->ratio, block = r->cells / g->ratio - 1;
    const int64_t at =
        (int64_t)qsa_cuda_table(&a->cache, r->sequence)[block / page_blocks] * page_blocks + block % page_blocks;
    qsa_cuda_vector v = {};
    v.x = (const unsigned char *)s->mean;
    v.type = QSA_F32;
    v.aligned = true;
    v.dim = g->index_dim;
    v.half = g->rotary_dim / 2;
    v.factor = a->ik_factor;
    v.eps = g->eps;
    v.format = a->cache.block_key_type;
    v.codes = (unsigned char *)a->cache.block_keys + at * (int64_t)(g->index_dim * qsa_type_size(v.format));
    return v;
}

// Cosines and sines at `positions`, by the last warp.
__device__ void turn_angles(const qsa_cuda_prep_args *a, const int32_t *positions, shared *s) {
    for (int32_t f = threadIdx.x - WORKERS; f < a->cache.geometry.rotary_dim / 2; f += THREADS - WORKERS) {
        const float angle = a->inv_freq[f] * (float)positions[a->axis[f]];
        qsa_cuda_sincos(angle, &s->sine[f], &s->cosine[f]);
    }
}

__global__ __launch_bounds__(THREADS) void prep(const __grid_constant__ qsa_cuda_prep_args a, int32_t groups) {
    __shared__ shared s;
    const int32_t row = (int32_t)(blockIdx.x / (unsigned)(groups + 1)),
                  group = (int32_t)(blockIdx.x % (unsigned)(groups + 1));
    const qsa_cuda_row *r = &a.rows[row];
    const qsa_geometry *g = &a.cache.geometry;
    const bool angles = threadIdx.x >= WORKERS;
    if (r->cells <= 0)
        return;
    qsa_cuda_vector v = {};
    if (group == groups) {
        if (r->keeps)
            keep_raw(&a, r, row);
        if (r->cells % g->ratio)
            return;
        if (threadIdx.x == 0)
            find_block(&a, r, row, &s);
        __syncthreads();
        if (angles)
            turn_angles(&a, s.positions, &s);
        else
            average(&a, r, &s);
        __syncthreads();
        if (threadIdx.x < 16)
            v = block_of(&a, r, &s);
    } else {
        if (!r->attends && (group + 1) * VECTORS <= g->heads + g->index_heads)
            return;
        if (angles)
            turn_angles(&a, r->positions, &s);
        else
            v = vector_of(&a, r, row, group * VECTORS + (int32_t)threadIdx.x / 16);
    }
    const int way = way_of(&v);
    const unsigned mask = qsa_cuda_lanes();
    float y[16], inverse = 0.0f;
    if (way == WIDE)
        qsa_cuda_begin<16>(&v, y, mask);
    else if (way == NARROW)
        qsa_cuda_begin<8>(&v, y, mask);
    else if (way == ANY)
        inverse = qsa_cuda_begin_any(&v, mask);
    __syncthreads(); // the angles are there
    uint64_t events[3] = {0, 0, 0};
    if (way == WIDE)
        qsa_cuda_end<16>(&v, y, s.cosine, s.sine, mask, events);
    else if (way == NARROW)
        qsa_cuda_end<8>(&v, y, s.cosine, s.sine, mask, events);
    else if (way == ANY)
        qsa_cuda_end_any(&v, inverse, s.cosine, s.sine, mask, events);
    add_events(&a, events);
}

} // namespace

// How the wide kernel is built for few rows, where waiting is what counts, and for many; a bench may say otherwise.
#ifndef QSA_PREP_FEW
#define QSA_PREP_FEW  2, 2, true, 1
#define QSA_PREP_MANY 2, 3, false, 8
#endif

extern "C" int qsa_prep_cuda(const qsa_cuda_prep_args *args, void *stream) {
    if (args->count <= 0)
        return 0;
    if (wide_fits(args))
        return args->count <= 64 ? launch_wide<QSA_PREP_FEW>(args, stream) : launch_wide<QSA_PREP_MANY>(args, stream);
    const qsa_geometry *g = &args->cache.geometry;
    const int32_t groups = (g->heads + g->index_heads + 2 * g->kv_heads + VECTORS - 1) / VECTORS;
    const int64_t blocks = (int64_t)args->count * (groups + 1);
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    prep<<<(unsigned)blocks, THREADS, 0, (cudaStream_t)stream>>>(*args, groups);
    return cudaGetLastError();
}
