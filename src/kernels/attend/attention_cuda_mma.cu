// SPDX-License-Identifier: Apache-2.0
//
// Launches of the fast CUDA attention. Few rows: a CTA per tile of 64 cells, and a second kernel joins the records; more, on
// sm_90a and i8 caches: a CTA per segment of a row, and a join; many: a CTA walks a row. All give the same bits. Rows that come
// in whole groups of neighbours and share cells are served together before (i8 caches; eight on sm_90a, four of 16 elsewhere);
// fewer rows than a group cannot have such. Every launch may begin while what is before it ends: the kernels wait themselves.

#include "kernels/attend/attention_cuda_mma.h"
#include "kernels/attend/attention_cuda_mma_join.h"
#include "kernels/attend/attention_cuda_mma_row.h"
#include "kernels/attend/attention_cuda_mma_tile.h"
#include "kernels/attend/attention_cuda_mma_union_kernel.h"
#include "kernels/attend/attention_cuda_mma_wide_kernel.h"

#include <cuda_runtime.h>

// Up to so many rows a CTA per tile, if their records take no more than QSA_RECORDS_MOST; up to so many one per segment.
#ifndef QSA_TILE_ROWS_MOST
#define QSA_TILE_ROWS_MOST 24
#endif
#ifndef QSA_SEGMENT_ROWS_MOST
#define QSA_SEGMENT_ROWS_MOST 256
#endif
#ifndef QSA_RECORDS_MOST
#define QSA_RECORDS_MOST (48 << 20) // bytes
#endif
#ifndef QSA_UNIONS
#define QSA_UNIONS 1
#endif

enum { QSA_WALK, QSA_SEGMENTS, QSA_TILES };

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

static int32_t segments_most(const qsa_geometry *g, int32_t most_cells) {
    return (tiles_most(g, most_cells) + QSA_SEGMENT - 1) / QSA_SEGMENT;
}

static size_t records_bytes(const qsa_geometry *g, int32_t count, int32_t records) {
    return (size_t)count * g->kv_heads * records * QSA_RECORD_FLOATS * sizeof(float);
}

static int how(const qsa_geometry *g, int32_t count) {
    if (count <= QSA_TILE_ROWS_MOST && records_bytes(g, count, tiles_most(g, INT32_MAX)) <= QSA_RECORDS_MOST)
        return QSA_TILES;
    if (count <= QSA_SEGMENT_ROWS_MOST && records_bytes(g, count, segments_most(g, INT32_MAX)) <= QSA_RECORDS_MOST)
        return QSA_SEGMENTS;
    return QSA_WALK;
}

// Flags of what is served before, [count][kv_heads]; records follow.
static size_t flags_bytes(const qsa_geometry *g, int32_t count) {
    return ((size_t)count * g->kv_heads * sizeof(int32_t) + 255) & ~(size_t)255;
}

size_t qsa_attention_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count) {
    const qsa_geometry *g = &cache->geometry;
    const int form = how(g, count);
    const int32_t records = form == QSA_TILES      ? tiles_most(g, INT32_MAX)
                            : form == QSA_SEGMENTS ? segments_most(g, INT32_MAX)
                                                   : 0;
    return flags_bytes(g, count) + records_bytes(g, count, records);
}

static bool overlaps(void) {      // programmatic launches came with 9.0
    static signed char known[64]; // 1: no, 2: yes
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess)
        return false;
    signed char *k = &known[device & 63];
    if (!*k)
        *k = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9 ? 2
                                                                                                                    : 1;
    return *k == 2;
}

template <class... PARAMETERS, class... ARGUMENTS>
static cudaError_t launch_over(cudaStream_t stream, void (*kernel)(PARAMETERS...), int32_t blocks, int32_t threads,
                               size_t shared, ARGUMENTS... arguments) {
    cudaError_t error = cudaSuccess;
    if (shared > 48 << 10)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlaps() ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, (PARAMETERS)arguments...);
}

template <int FORM, int NT> static cudaError_t launch(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const bool split = how(g, args->count) == QSA_TILES && args->count < QSA_GROUP_ROWS;
    const int32_t tiles = tiles_most(g, args->most_cells), items = args->count * g->kv_heads;
    float *records = (float *)((char *)args->scratch + flags_bytes(g, args->count));
    const size_t shared = sizeof(qsa_row_shared<FORM, NT>) + (split ? 1 : tiles) * QSA_QUADS * sizeof(qsa_quad);
    cudaError_t error = cudaSuccess;
    if (!split) {
        int32_t *served = FORM == QSA_FORM_I8 && NT == 3 && QSA_UNIONS ? (int32_t *)args->scratch : 0;
        if (served)
            error = launch_over(stream, qsa_attend_tiles, items, 128, sizeof(qsa_tile_shared), *args, served);
        if (error != cudaSuccess)
            return error;
        return launch_over(stream, qsa_attend_rows<FORM, NT, false>, items, 128, shared, *args, records,
                           (const int32_t *)served, tiles);
    }
    if (tiles)
        error = launch_over(stream, qsa_attend_rows<FORM, NT, true>, items * tiles, 128, shared, *args, records,
                            (const int32_t *)0, tiles);
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, qsa_join_records, args->count * g->heads, QSA_DIM, (size_t)tiles * 2 * sizeof(float2),
                       *args, (const float *)records, tiles);
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
        const bool yes = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                         major == 9 &&
                         cudaFuncGetAttributes(&attributes, qsa_attend_rows_wide<3, false>) == cudaSuccess &&
                         attributes.binaryVersion == 90 && attributes.ptxVersion == 90;
        *k = yes ? 2 : 1;
    }
    return *k == 2;
}

static cudaError_t launch_union(const qsa_cuda_attention_args *args, cudaStream_t stream, int32_t *served) {
    const cudaError_t error = launch_over(stream, qsa_attend_decide, (args->count + 3) / 4, 128, 0, *args, served);
    if (error != cudaSuccess)
        return error;
    const int32_t groups = (args->count + QSA_UNION_ROWS - 1) / QSA_UNION_ROWS;
    return launch_over(stream, qsa_attend_union, groups * args->cache.geometry.kv_heads, QSA_UNION_THREADS,
                       sizeof(qsa_union_shared), *args, served);
}

template <int NT> static cudaError_t launch_wide(const qsa_cuda_attention_args *args, cudaStream_t stream) {
    const qsa_geometry *g = &args->cache.geometry;
    const int32_t tiles = tiles_most(g, args->most_cells), segments = segments_most(g, args->most_cells),
                  items = args->count * g->kv_heads, form = how(g, args->count);
    int32_t *served = NT == 3 && QSA_UNIONS && args->count >= QSA_UNION_ROWS ? (int32_t *)args->scratch : 0;
    float *records = (float *)((char *)args->scratch + flags_bytes(g, args->count));
    const size_t alone = sizeof(qsa_wide_shared<NT>), tile = QSA_QUADS * sizeof(qsa_quad);
    cudaError_t error = served ? launch_union(args, stream, served) : cudaSuccess;
    if (error != cudaSuccess)
        return error;
    if (form == QSA_WALK)
        return launch_over(stream, qsa_attend_rows_wide<NT, false>, items, 128,
                           alone + tiles * tile + sizeof(qsa_wide_record<NT>) + NT * 128 * sizeof(float2), *args,
                           (const int32_t *)served, (float *)0, tiles);
    if (form == QSA_SEGMENTS) {
        if (segments)
            error = launch_over(stream, qsa_attend_rows_wide<NT, true>, items * segments, 128,
                                alone + QSA_SEGMENT * tile, *args, (const int32_t *)served, records, segments);
        if (error != cudaSuccess)
            return error;
        return launch_over(stream, qsa_join_wide<false, QSA_DIM>, args->count * g->heads, QSA_DIM, 0, *args,
                           (const int32_t *)served, (const float *)records, segments);
    }
    if (tiles)
        error = launch_over(stream, qsa_attend_tiles_wide<NT>, items * tiles, 128, alone, *args,
                            (const int32_t *)served, records, tiles);
    if (error != cudaSuccess)
        return error;
    return launch_over(stream, qsa_join_wide<true, 64>, args->count * g->heads * 4, 64, 0, *args,
                       (const int32_t *)served, (const float *)records, tiles);
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
