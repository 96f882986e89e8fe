// SPDX-License-Identifier: Apache-2.0
//
// Launches of the fast CUDA attention. Few rows: a CTA per tile of 64 cells, and a second kernel joins the records; on sm_90a and
// i8 caches a cluster of CTAs per row and KV head does both. More: a CTA per row and KV head walks its tiles. Both give the
// same bits. Rows that come in whole groups of neighbours and share cells are served together before (i8 caches; eight on
// sm_90a, four of 16 elsewhere); fewer rows than a group cannot have such.

#include "kernels/attend/attention_cuda_mma.h"
#include "kernels/attend/attention_cuda_mma_row.h"
#include "kernels/attend/attention_cuda_mma_tile.h"
#include "kernels/attend/attention_cuda_mma_union_kernel.h"
#include "kernels/attend/attention_cuda_mma_wide_kernel.h"

#include <cuda_runtime.h>

// Up to here a CTA per tile: 15 rows are 990 CTAs, and their records 16 MB. Never a whole group of qsa_attend_tiles.
#ifndef QSA_SPLIT_ROWS
#define QSA_SPLIT_ROWS (QSA_GROUP_ROWS - 1)
#endif
#ifndef QSA_TILES
#define QSA_TILES 1
#endif
#ifndef QSA_WIDE
#define QSA_WIDE 1
#endif
#ifndef QSA_CLUSTER_ROWS
#define QSA_CLUSTER_ROWS 96 // up to here a cluster per row and KV head
#endif
#ifndef QSA_CLUSTER_16
#define QSA_CLUSTER_16 16 // up to so many of them 16 CTAs each, beyond 8
#endif
#define QSA_SHARED_MOST (227 << 10)

int qsa_attention_cuda_mma_serves(const qsa_cuda_cache *cache) {
    const qsa_geometry *g = &cache->geometry;
    return (cache->kv_type == QSA_I8 || cache->kv_type == QSA_F16 || cache->kv_type == QSA_BF16) &&
           g->head_dim == QSA_DIM && g->heads <= 16 * g->kv_heads && g->ratio % 4 == 0 && g->budget <= 8192;
}

static int32_t tiles_most(const qsa_geometry *g, int32_t most_cells) {
    int32_t cells = g->budget + 2 * g->ratio - 1; // the cut rule's one block more
    cells = most_cells < cells ? most_cells : cells;
    return (cells + QSA_TILE - 1) / QSA_TILE;
}

size_t qsa_attention_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count) {
    if (count > QSA_SPLIT_ROWS)
        return (size_t)count * cache->geometry.kv_heads * sizeof(int32_t);
    return (size_t)count * cache->geometry.kv_heads * tiles_most(&cache->geometry, INT32_MAX) * QSA_RECORD_FLOATS *
           sizeof(float);
}

// A launch that may begin while what is before it in the stream ends: the kernel waits itself (qsa_wait_dependency).
template <class... PARAMETERS, class... ARGUMENTS>
static cudaError_t launch_over(cudaStream_t stream, bool overlap, void (*kernel)(PARAMETERS...), int32_t blocks,
                               int32_t threads, size_t shared, ARGUMENTS... arguments) {
    int device = 0, major = 0; // programmatic launches came with 9.0
    if (overlap &&
        (cudaGetDevice(&device) != cudaSuccess ||
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess || major < 9))
        overlap = false;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, (PARAMETERS)arguments...);
}

static cudaError_t launch_tiles(const qsa_cuda_attention_args *args, cudaStream_t stream, int32_t *served) {
    const cudaError_t error = cudaFuncSetAttribute(qsa_attend_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   (int)sizeof(qsa_tile_shared));
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, false, qsa_attend_tiles, args->count * args->cache.geometry.kv_heads, 128,
                       sizeof(qsa_tile_shared), *args, served);
}

template <int FORM, int NT> static cudaError_t launch(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const bool split = args->count <= QSA_SPLIT_ROWS;
    const int32_t tiles = tiles_most(g, args->most_cells), items = args->count * g->kv_heads;
    float *records = (float *)args->scratch;
    const size_t shared = sizeof(qsa_row_shared<FORM, NT>) + (split ? 1 : tiles) * QSA_QUADS * sizeof(qsa_quad);
    if (!split) {
        int32_t *served = FORM == QSA_FORM_I8 && NT == 3 && QSA_TILES ? (int32_t *)args->scratch : 0;
        const cudaError_t error = served ? launch_tiles(args, stream, served) : cudaSuccess;
        if (error != cudaSuccess)
            return error;
        return launch_over(stream, served != 0, qsa_attend_rows<FORM, NT, false>, items, 128, shared, *args, records,
                           (const int32_t *)served, tiles);
    }
    cudaError_t error = cudaSuccess;
    if (tiles)
        error = launch_over(stream, false, qsa_attend_rows<FORM, NT, true>, items * tiles, 128, shared, *args, records,
                            (const int32_t *)0, tiles);
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, tiles > 0, qsa_join_records, args->count * g->heads, QSA_DIM,
                       (size_t)tiles * 2 * sizeof(float2), *args, (const float *)records, tiles);
}

// 1 where the code made for sm_90a runs: the same kernel made from code for older devices is empty.
int qsa_attention_cuda_mma_wide(void) {
    static signed char known[64]; // 1: no, 2: yes
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        return 0;
    signed char *k = &known[device & 63];
    if (!*k) {
        cudaFuncAttributes attributes = {};
        const bool yes =
            QSA_WIDE && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
            major == 9 && cudaFuncGetAttributes(&attributes, qsa_attend_rows_wide<3, false>) == cudaSuccess &&
            attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
        *k = yes ? 2 : 1;
    }
    return *k == 2;
}

static cudaError_t launch_union(const qsa_cuda_attention_args *args, cudaStream_t stream, int32_t *served) {
    cudaError_t error = cudaFuncSetAttribute(qsa_attend_union, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             (int)sizeof(qsa_union_shared));
    if (error == cudaSuccess)
        error = launch_over(stream, false, qsa_attend_decide, (args->count + 3) / 4, 128, 0, *args, served);
    if (error != cudaSuccess)
        return error;
    const int32_t groups = (args->count + QSA_UNION_ROWS - 1) / QSA_UNION_ROWS;
    return launch_over(stream, true, qsa_attend_union, groups * args->cache.geometry.kv_heads, QSA_UNION_THREADS,
                       sizeof(qsa_union_shared), *args, served);
}

// A cluster of `size` CTAs per item, up to `tiles` tiles each.
template <int NT>
static cudaError_t launch_clusters(const qsa_cuda_attention_args *args, cudaStream_t stream, const int32_t *served,
                                   int32_t size, int32_t tiles, size_t shared) {
    auto kernel = qsa_attend_rows_wide<NT, true>;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error == cudaSuccess && size > 8)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)size, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(args->count * args->cache.geometry.kv_heads * size));
    config.blockDim = dim3(128);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, *args, served, tiles);
}

template <int NT> static cudaError_t launch_wide(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const int32_t tiles = tiles_most(g, args->most_cells), items = args->count * g->kv_heads;
    int32_t *served = NT == 3 && QSA_TILES && args->count >= QSA_UNION_ROWS ? (int32_t *)args->scratch : 0;
    cudaError_t error = served ? launch_union(args, stream, served) : cudaSuccess;
    if (error != cudaSuccess)
        return error;
    if (args->count <= QSA_CLUSTER_ROWS && 4 * NT * tiles * sizeof(float4) <= sizeof(uint4[2][QSA_TILE][16])) {
        int32_t size = items <= QSA_CLUSTER_16 ? 16 : 8;
        while (size > 1 && size / 2 >= tiles)
            size /= 2;
        const int32_t here = (tiles + size - 1) / size;
        const size_t shared =
            sizeof(qsa_wide_shared<NT>) + here * (QSA_QUADS * sizeof(qsa_quad) + sizeof(qsa_wide_record<NT>));
        if (shared <= QSA_SHARED_MOST)
            return launch_clusters<NT>(args, stream, served, size, here, shared);
    }
    const size_t shared = sizeof(qsa_wide_shared<NT>) + tiles * QSA_QUADS * sizeof(qsa_quad);
    error =
        cudaFuncSetAttribute(qsa_attend_rows_wide<NT, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, served != 0, qsa_attend_rows_wide<NT, false>, items, 128, shared, *args,
                       (const int32_t *)served, tiles);
}

template <int FORM> static cudaError_t launch_heads(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const bool few = args->cache.geometry.heads / args->cache.geometry.kv_heads <= 12;
    if (args->scratch_bytes < qsa_attention_cuda_mma_scratch(&args->cache, args->count))
        return cudaErrorInvalidValue;
    if (FORM == QSA_FORM_I8 && qsa_attention_cuda_mma_wide())
        return few ? launch_wide<3>(args, stream) : launch_wide<4>(args, stream);
    return few ? launch<FORM, 3>(args, stream) : launch<FORM, 4>(args, stream);
}

int qsa_attention_cuda_mma(const qsa_cuda_attention_args *args, void *stream) {
    if (!qsa_attention_cuda_mma_serves(&args->cache))
        return cudaErrorNotSupported;
    if (args->count == 0)
        return cudaSuccess;
    switch (args->cache.kv_type) {
    case QSA_I8:
        return launch_heads<QSA_FORM_I8>(args, (cudaStream_t)stream);
    case QSA_F16:
        return launch_heads<QSA_FORM_F16>(args, (cudaStream_t)stream);
    default:
        return launch_heads<QSA_FORM_BF16>(args, (cudaStream_t)stream);
    }
}
