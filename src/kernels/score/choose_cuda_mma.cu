// SPDX-License-Identifier: Apache-2.0
//
// choose, class fast, on tensor cores. Queries and block keys are halves, sums float32: a score differs from the strict one
// by the rounding of the queries (bounded by 2^-11 of |iq| . |key|) and the order of addition. The selection is exact for
// the float32 scores so computed: the total order of docs/numerics.md, whatever they are. Rows do not depend on each
// other.
//
// Many rows of many blocks (Hopper): the scores of a sample, a bar for each row from these, all scores of which those
// that reach the bar are listed, the selection from the lists, and what the lists do not serve. Else: sub-batches of
// rows, so that the scores of one never leave the L2 cache, and for each scores and selection. All chained by
// programmatic launches.

#include "kernels/score/choose_cuda_mma.cuh"

#include <math.h>

enum {
    LISTS_BYTES = 42 << 20,
    LIST_ROWS = 2048,     // rows of a sub-batch,
    LIST_BLOCKS = 65536,  // half as many beyond so many blocks
    LIST_TILES = 256,     // most thread blocks of the wgmma kernel that share rows, times tiles of rows
    LIST_ENTRIES = 32768, // of a row at most
    LIST_PART = 64,       // of a thread's part at least: 32 may be added at once
    // What is large: below it, reading all keys costs less than the sample.
    LARGE_ROWS = 256,
    LARGE_BLOCKS = 12288,
    LARGE_SCORES = 12 << 20
};

choose_tuning qsa_choose_mma_defaults(void) {
    choose_tuning t = {};
    t.keys_bytes = (size_t)40 << 20;
    t.planes = 1;
    t.rows_path = 16;
    t.digits = 1;
    t.chained = 1;
    t.parts = 7;
    t.lists = 2;
    t.margin = 4.5f;
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

// How rows go by list, by count and most_cells alone (and the multiprocessors, within the same scratch).
typedef struct list_plan {
    int32_t sub;            // rows of a sub-batch
    int32_t sample, wanted; // sample 0: none, all blocks are listed
    int32_t sample_stride, stride, splits, part;
    size_t bars, held, listed, failed, lists, bytes; // offsets in scratch
} list_plan;

static int goes_by_list(const qsa_geometry *g, int32_t count, int32_t most_cells, const choose_tuning *tuning) {
    const int32_t blocks = most_cells / g->ratio;
    return tuning->lists == 1 || (tuning->lists == 2 && count >= LARGE_ROWS && blocks >= LARGE_BLOCKS &&
                                  (int64_t)count * blocks >= LARGE_SCORES);
}

static list_plan plan_lists(const qsa_geometry *g, int32_t count, int32_t most_cells, float margin, int sms) {
    list_plan p = {};
    const int32_t blocks = most_cells / g->ratio > 0 ? most_cells / g->ratio : 1;
    const int32_t most = blocks <= LIST_BLOCKS ? LIST_ROWS : LIST_ROWS / 2;
    p.sub = count < most ? count : most;
    p.stride = (int32_t)round_up((size_t)blocks, CHOOSE_TILE_BLOCKS);
    if (blocks > CHOOSE_ALL_LISTED) {
        const int32_t largest = most == LIST_ROWS ? 4096 : 8192, want = blocks / 16;
        const int32_t size = want < 1024 ? 1024 : want < largest ? want : largest;
        p.sample = (blocks + size - 1) / size;
        p.sample_stride = (int32_t)round_up((size_t)(blocks / p.sample), CHOOSE_TILE_BLOCKS);
        const int32_t take = g->budget / g->ratio + 1;
        const float expected = (float)take / (float)p.sample, wanted = expected + margin * sqrtf(expected) + 4.0f;
        p.wanted = wanted < 1.0f ? 1 : wanted < (float)take ? (int32_t)wanted : take;
    }
    const int32_t tiles = (p.sub + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS, of = p.stride / CHOOSE_TILE_BLOCKS;
    const int32_t limit = sms < LIST_TILES ? sms : LIST_TILES;
    const size_t rows = (size_t)tiles * CHOOSE_TILE_ROWS, entries = LISTS_BYTES / 8 / rows;
    const size_t most_entries = entries < LIST_ENTRIES ? entries : (size_t)LIST_ENTRIES;
    const int32_t fit = (int32_t)most_entries / (4 * LIST_PART);
    p.splits = limit / tiles < 1 ? 1 : limit / tiles;
    p.splits = p.splits < of ? p.splits : of;
    p.splits = p.splits < fit ? p.splits : fit;
    p.part = (int32_t)(most_entries / (size_t)(4 * p.splits));
    size_t region = rows * most_entries * 8;
    const size_t sampled = rows * (size_t)p.sample_stride * 4,
                 slot = (size_t)p.stride / CHOOSE_GROUP * (CHOOSE_GROUP + 1) * 4;
    region = region > sampled ? region : sampled;
    region = region > slot ? region : slot;
    p.held = p.bars + round_up(rows * 4, 256);
    p.listed = p.held + (size_t)LIST_TILES * CHOOSE_TILE_ROWS * 16;
    p.failed = p.listed + round_up((size_t)tiles * 4, 256);
    p.lists = p.failed + round_up((rows + 1) * 4, 256);
    p.bytes = p.lists + round_up(region, 256);
    return p;
}

size_t qsa_choose_mma_scratch_tuned(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells,
                                    const choose_tuning *tuning) {
    int32_t stride;
    // The number of multiprocessors only moves rows below what fits.
    const size_t row = (qsa_choose_mma_sub_rows(cache->geometry.ratio, count, most_cells, tuning, 132, &stride),
                        (size_t)stride * 4 + (size_t)stride / CHOOSE_GROUP * 4);
    const size_t fit = tuning->keys_bytes / row < 8 ? 8 : tuning->keys_bytes / row;
    const size_t rows = fit < (size_t)count ? fit : (size_t)count;
    const size_t all = round_up(rows * row, 256);
    if (!goes_by_list(&cache->geometry, count, most_cells, tuning))
        return all;
    const size_t lists = plan_lists(&cache->geometry, count, most_cells, tuning->margin, 132).bytes;
    return all > lists ? all : lists;
}

size_t qsa_choose_mma_failed_at(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells,
                                const choose_tuning *tuning) {
    return plan_lists(&cache->geometry, count, most_cells, tuning->margin, 132).failed;
}

static cudaError_t choose_by_list(const qsa_cuda_choose_args *args, const choose_tuning *tuning,
                                  const choose_launch &at, choose_job job, int planes) {
    const qsa_geometry *g = &args->cache.geometry;
    const list_plan p = plan_lists(g, args->count, args->most_cells, tuning->margin, at.sms);
    char *scratch = (char *)args->scratch, *region = scratch + p.lists;
    const size_t slot = (size_t)p.stride / CHOOSE_GROUP * (CHOOSE_GROUP + 1) * 4, slots = (p.bytes - p.lists) / slot;
    job.list_held = (uint32_t *)(scratch + p.held);
    job.listed = (int32_t *)(scratch + p.listed);
    job.failed = (int32_t *)(scratch + p.failed);
    job.list_part = p.part;
    job.list_parts = 4 * p.splits;
    job.wanted = p.wanted;
    job.bars = p.sample ? (uint32_t *)(scratch + p.bars) : nullptr;
    job.slots = slots < (size_t)at.sms ? (int32_t)slots : at.sms;
    job.keys = (uint32_t *)region;
    cudaError_t error = cudaSuccess;
    for (int32_t first = 0; error == cudaSuccess && first < args->count; first += p.sub) {
        choose_job sample = job, list = job;
        sample.first = list.first = first;
        sample.count = list.count = args->count - first < p.sub ? args->count - first : p.sub;
        sample.stride = p.sample_stride, sample.sample = p.sample, sample.best = nullptr;
        list.stride = p.stride, list.lists = (uint2 *)region;
        list.best = list.keys + (size_t)job.slots * p.stride;
        if (tuning->parts & 4) {
            const int32_t tiles = p.sample_stride / CHOOSE_TILE_BLOCKS;
            if (p.sample)
                error = choose_launch_tiles(sample, at, planes, p.splits < tiles ? p.splits : tiles);
            if (error == cudaSuccess && p.sample)
                error = choose_launch_bars(sample, at, p.sample_stride);
        }
        if (error == cudaSuccess && (tuning->parts & 1))
            error = choose_launch_tiles(list, at, planes, p.splits);
        if (error == cudaSuccess && (tuning->parts & 2))
            error = choose_launch_listed(list, at);
        if (error == cudaSuccess && (tuning->parts & 2))
            error = choose_launch_failed(list, at, planes);
    }
    return error;
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
    job.page_part = (((uint64_t)1 << 40) + (uint64_t)job.page_blocks - 1) / (uint64_t)job.page_blocks;
    job.block_keys = args->cache.block_keys;
    job.index_q = args->index_q;
    job.ratio = g->ratio;
    job.blocks_budget = g->budget / g->ratio;
    job.free_cells = g->budget + g->ratio - 1;
    job.rule = args->rule;
    job.identity = args->identity;
    job.selection = args->selection;
    job.keys = (uint32_t *)args->scratch;
    const int32_t most_blocks = args->most_cells / g->ratio;
    const int scores = args->most_cells > job.free_cells;
    if (major == 9 && scores && goes_by_list(g, args->count, args->most_cells, tuning))
        return choose_by_list(args, tuning, at, job, planes);
    // A tile of fewer than 64 rows fills the wgmma kernel badly, but reads the keys once for all of them.
    const int tiled = major == 9 && args->count > tuning->rows_path;
    for (int32_t first = 0; error == cudaSuccess && first < args->count; first += sub) {
        job.first = first;
        job.count = args->count - first < sub ? args->count - first : sub;
        const int digits = scores && tuning->digits && choose_by_digits(job.count, most_blocks, sms, major);
        job.best = digits ? nullptr : job.keys + (size_t)sub * job.stride;
        if (scores && (tuning->parts & 1)) {
            if (tiled) {
                const int32_t n = (job.count + CHOOSE_TILE_ROWS - 1) / CHOOSE_TILE_ROWS;
                const int32_t most = sms / n < 1 ? 1 : sms / n, tiles = job.stride / CHOOSE_TILE_BLOCKS;
                error = choose_launch_tiles(job, at, planes, most < tiles ? most : tiles);
            }
            job.left = tiled;
            if (error == cudaSuccess)
                error = choose_launch_rows(job, at, planes);
        }
        if (error == cudaSuccess && (tuning->parts & 2))
            error = digits ? choose_launch_digits(job, at, most_blocks, major)
                           : choose_launch_select(job, at, scores ? most_blocks : 0);
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

// 40 MiB of keys or 42 MiB of lists and what goes with them: below 64 MiB for 2,048 rows of any length.
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
