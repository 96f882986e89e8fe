// SPDX-License-Identifier: Apache-2.0
//
// choose, class fast, on tensor cores. Queries and block keys are halves, sums float32: a score differs from the strict one
// by the rounding of the queries (bounded by 2^-11 of |iq| . |key|) and the order of addition. The selection is exact for
// the float32 scores so computed: the total order of docs/numerics.md, whatever they are. Rows do not depend on each
// other.
//
// The batch goes through scratch in sub-batches of rows, so that the scores of one never leave the L2 cache: prepare
// (queries to half), then for each sub-batch scores and selection, chained by programmatic launches.

#include "kernels/score/choose_cuda_mma.cuh"
#include "kernels/score/choose_cuda_mma_planes.cuh"

// A warp per row: planes and scale.
template <int PLANES, bool BF16>
__global__ void __launch_bounds__(128) qsa_choose_mma_prepare_kernel(const choose_job job) {
    choose_chain();
    const int32_t row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x & 31;
    int32_t sequence;
    if (row >= job.count || choose_scored(job, row, &sequence) == 0)
        return;
    const float4 *from = (const float4 *)(job.index_q + (int64_t)row * CHOOSE_HEADS * CHOOSE_DIM);
    float x[4][4];
    uint32_t largest = 0;
#pragma unroll
    for (int h = 0; h < 4; h++) {
        const float4 v = from[h * 32 + lane];
        x[h][0] = v.x, x[h][1] = v.y, x[h][2] = v.z, x[h][3] = v.w;
#pragma unroll
        for (int i = 0; i < 4; i++)
            largest = max(largest, __float_as_uint(x[h][i]) & 0x7fffffffu);
    }
    largest = __reduce_max_sync(0xffffffffu, largest);
    const int e = choose_exponent(largest);
    const float down = choose_power(-e);
    ushort4 *to = (ushort4 *)(job.planes + (int64_t)row * PLANES * CHOOSE_HEADS * CHOOSE_DIM);
#pragma unroll
    for (int h = 0; h < 4; h++) {
        uint16_t half[4], rest[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float v = x[h][i] * down;
            half[i] = choose_half<BF16>(v);
            rest[i] = choose_rest<BF16>(v, half[i]);
        }
        to[h * 32 + lane] = make_ushort4(half[0], half[1], half[2], half[3]);
        if (PLANES == 2)
            to[(4 + h) * 32 + lane] = make_ushort4(rest[0], rest[1], rest[2], rest[3]);
    }
    if (lane == 0)
        ((float *)job.scales)[row] = choose_scale(e);
}

choose_tuning qsa_choose_mma_defaults(void) {
    choose_tuning t = {};
    t.keys_bytes = (size_t)40 << 20;
    t.order = 1;
    t.planes = 1;
    t.rows_path = 16;
    t.chained = 1;
    t.parts = 3;
    return t;
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

int32_t qsa_choose_mma_sub_rows(int32_t ratio, int32_t count, int32_t most_cells, const choose_tuning *tuning, int sms,
                                int32_t *stride) {
    const int32_t blocks = most_cells / ratio;
    *stride = (int32_t)round_up(blocks > 0 ? (size_t)blocks : 1, CHOOSE_TILE_BLOCKS);
    const size_t row = (size_t)*stride * 4 + (size_t)*stride / CHOOSE_GROUP * 4;
    const int64_t fit = (int64_t)(tuning->keys_bytes / row);
    if (fit < CHOOSE_TILE_ROWS) {
        const int32_t rows = fit < 8 ? 8 : (int32_t)fit / 8 * 8;
        return rows < count ? rows : count;
    }
    // Whole tiles of rows; among the numbers that fit the one with the fewest steps of the wgmma kernel, a launch
    // counted as four.
    const int64_t tiles = (*stride) / CHOOSE_TILE_BLOCKS, all = (count + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS;
    int64_t best = -1, chosen = 1;
    for (int64_t n = fit / CHOOSE_TILE_ROWS < all ? fit / CHOOSE_TILE_ROWS : all; n >= 1; n--) {
        int64_t splits = sms / n < 1 ? 1 : sms / n;
        splits = splits < tiles ? splits : tiles;
        const int64_t waves = (n * splits + sms - 1) / sms;
        const int64_t cost = (all + n - 1) / n * (waves * ((tiles + splits - 1) / splits) + 4);
        if (best < 0 || cost < best)
            best = cost, chosen = n;
    }
    const int64_t rows = chosen * CHOOSE_TILE_ROWS;
    return (int32_t)(rows < count ? rows : count);
}

size_t qsa_choose_mma_scratch_tuned(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells,
                                    const choose_tuning *tuning) {
    int32_t stride;
    // The number of multiprocessors only moves rows below what fits.
    const size_t row = (qsa_choose_mma_sub_rows(cache->geometry.ratio, count, most_cells, tuning, 132, &stride),
                        (size_t)stride * 4 + (size_t)stride / CHOOSE_GROUP * 4);
    const size_t fit = tuning->keys_bytes / row < 8 ? 8 : tuning->keys_bytes / row;
    const size_t rows = fit < (size_t)count ? fit : (size_t)count;
    const int planes = cache->block_key_type == QSA_BF16 ? 2 : tuning->planes;
    return round_up((size_t)count * planes * CHOOSE_HEADS * CHOOSE_DIM * 2, 256) + round_up((size_t)count * 4, 256) +
           round_up(rows * row, 256);
}

static int log2_of(int32_t n) {
    int shift = 0;
    while (((int32_t)1 << shift) < n)
        shift++;
    return ((int32_t)1 << shift) == n ? shift : -1;
}

int qsa_choose_mma_tuned(const qsa_cuda_choose_args *args, const choose_tuning *tuning, void *stream) {
    if (args->count <= 0)
        return cudaSuccess;
    int device = 0, major = 0, sms = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess)
        return error;
    if (args->scratch_bytes < qsa_choose_mma_scratch_tuned(&args->cache, args->count, args->most_cells, tuning))
        return cudaErrorInvalidValue;
    const qsa_geometry *g = &args->cache.geometry;
    choose_launch at = {};
    at.stream = (cudaStream_t)stream;
    at.bf16 = args->cache.block_key_type == QSA_BF16;
    at.chained = tuning->chained && major >= 9;
    at.sms = sms;
    const int planes = at.bf16 ? 2 : tuning->planes;
    choose_job job = {};
    const int32_t sub = qsa_choose_mma_sub_rows(g->ratio, args->count, args->most_cells, tuning, sms, &job.stride);
    job.rows = args->rows;
    job.tables = args->cache.tables;
    job.table_pages = args->cache.table_pages;
    job.page_blocks = args->cache.page_cells / g->ratio;
    job.page_shift = log2_of(job.page_blocks);
    job.block_keys = args->cache.block_keys;
    job.index_q = args->index_q;
    job.ratio = g->ratio;
    job.blocks_budget = g->budget / g->ratio;
    job.free_cells = g->budget + g->ratio - 1;
    job.rule = args->rule;
    job.identity = args->identity;
    job.selection = args->selection;
    char *scratch = (char *)args->scratch;
    job.planes = (const uint16_t *)scratch;
    scratch += round_up((size_t)args->count * planes * CHOOSE_HEADS * CHOOSE_DIM * 2, 256);
    job.scales = (const float *)scratch;
    scratch += round_up((size_t)args->count * 4, 256);
    job.keys = (uint32_t *)scratch;
    job.best = job.keys + (size_t)sub * job.stride;
    // A tile of fewer than 64 rows fills the wgmma kernel badly, but reads the keys once for all of them.
    const int tiled = major == 9 && args->count > tuning->rows_path, scores = args->most_cells > job.free_cells;
    if (tiled && scores && (tuning->parts & 1)) {
        job.count = args->count;
        const void *kernel = at.bf16       ? (const void *)qsa_choose_mma_prepare_kernel<2, true>
                             : planes == 2 ? (const void *)qsa_choose_mma_prepare_kernel<2, false>
                                           : (const void *)qsa_choose_mma_prepare_kernel<1, false>;
        error = choose_launch_kernel(kernel, dim3((unsigned)(args->count + 3) / 4), dim3(128), 0, at, job);
    }
    for (int32_t first = 0; error == cudaSuccess && first < args->count; first += sub) {
        job.first = first;
        job.count = args->count - first < sub ? args->count - first : sub;
        if (scores && (tuning->parts & 1)) {
            if (tiled) {
                const int32_t n = (job.count + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS;
                const int32_t most = sms / n < 1 ? 1 : sms / n, tiles = job.stride / CHOOSE_TILE_BLOCKS;
                error = choose_launch_tiles(job, at, planes, tuning->order, most < tiles ? most : tiles);
            }
            job.left = tiled;
            if (error == cudaSuccess)
                error = choose_launch_rows(job, at, planes, tuning->natural);
        }
        if (error == cudaSuccess && (tuning->parts & 2))
            error = choose_launch_select(job, at, scores ? args->most_cells / g->ratio : 0, tuning->prefer_threads);
    }
    return error;
}

extern "C" int qsa_choose_cuda_mma(const qsa_cuda_choose_args *args, void *stream);
extern "C" size_t qsa_choose_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells);
extern "C" int qsa_choose_cuda_mma_serves(const qsa_cuda_cache *cache);

int qsa_choose_cuda_mma(const qsa_cuda_choose_args *args, void *stream) {
    const choose_tuning tuning = qsa_choose_mma_defaults();
    return qsa_choose_mma_tuned(args, &tuning, stream);
}

// Bytes of queries in half (1 or 2 KiB a row) and of 40 MiB of keys at most: below 64 MiB for 2,048 rows of any length.
size_t qsa_choose_cuda_mma_scratch(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells) {
    const choose_tuning tuning = qsa_choose_mma_defaults();
    return count > 0 ? qsa_choose_mma_scratch_tuned(cache, count, most_cells, &tuning) : 0;
}

int qsa_choose_cuda_mma_serves(const qsa_cuda_cache *cache) {
    const qsa_geometry *g = &cache->geometry;
    return g->index_heads == CHOOSE_HEADS && g->index_dim == CHOOSE_DIM &&
           (cache->block_key_type == QSA_F16 || cache->block_key_type == QSA_BF16) &&
           g->budget / g->ratio < CHOOSE_MOST_TAKE &&
           (int64_t)cache->table_pages * cache->page_cells / g->ratio <= CHOOSE_MOST_CELLS / 4;
}
