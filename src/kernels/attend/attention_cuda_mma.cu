// SPDX-License-Identifier: Apache-2.0
//
// Launches of the fast CUDA attention. Few rows: a CTA per tile of 64 cells, and a second kernel joins the records. More:
// a CTA per row and KV head walks its tiles. Both give the same bits. Rows that come in whole groups of 16 neighbours and
// share cells are served four at a time before (i8 caches); fewer rows than a group cannot have such.

#include "kernels/attend/attention_cuda_mma.h"
#include "kernels/attend/attention_cuda_mma_row.h"
#include "kernels/attend/attention_cuda_mma_tile.h"

#include <cuda_runtime.h>

// Up to here a CTA per tile: 15 rows are 990 CTAs, and their records 16 MB. Never a whole group of qsa_attend_tiles.
#ifndef QSA_SPLIT_ROWS
#define QSA_SPLIT_ROWS (QSA_GROUP_ROWS - 1)
#endif
#ifndef QSA_TILES
#define QSA_TILES 1
#endif

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

#ifndef QSA_OVERLAP_ATTEND
#define QSA_OVERLAP_ATTEND 0
#endif

template <int FORM, int NT> static cudaError_t launch(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const bool split = args->count <= QSA_SPLIT_ROWS;
    const int32_t tiles = tiles_most(g, args->most_cells), items = args->count * g->kv_heads;
    float *records = (float *)args->scratch;
    const size_t shared = sizeof(qsa_row_shared<FORM, NT>) + (split ? 1 : tiles) * QSA_QUADS * sizeof(qsa_quad);
    if (args->scratch_bytes < qsa_attention_cuda_mma_scratch(&args->cache, args->count))
        return cudaErrorInvalidValue;
    if (!split) {
        int32_t *served = FORM == QSA_FORM_I8 && NT == 3 && QSA_TILES ? (int32_t *)args->scratch : 0;
        if (served) {
            cudaError_t error = cudaFuncSetAttribute(qsa_attend_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     (int)sizeof(qsa_tile_shared));
            if (error == cudaSuccess)
                error = launch_over(stream, QSA_OVERLAP_ATTEND, qsa_attend_tiles, items, 128, sizeof(qsa_tile_shared),
                                    *args, served);
            if (error != cudaSuccess)
                return error;
        }
        return launch_over(stream, served || QSA_OVERLAP_ATTEND, qsa_attend_rows<FORM, NT, false>, items, 128, shared,
                           *args, records, served, tiles);
    }
    cudaError_t error = cudaSuccess;
    if (tiles)
        error = launch_over(stream, QSA_OVERLAP_ATTEND, qsa_attend_rows<FORM, NT, true>, items * tiles, 128, shared,
                            *args, records, (const int32_t *)0, tiles);
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, tiles > 0, qsa_join_records, args->count * g->heads, QSA_DIM,
                       (size_t)tiles * 2 * sizeof(float2), *args, (const float *)records, tiles);
}

template <int FORM> static cudaError_t launch_heads(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const int32_t heads = args->cache.geometry.heads / args->cache.geometry.kv_heads;
    return heads <= 12 ? launch<FORM, 3>(args, stream) : launch<FORM, 4>(args, stream);
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
