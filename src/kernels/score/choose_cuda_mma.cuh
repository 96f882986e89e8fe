// SPDX-License-Identifier: Apache-2.0
//
// choose on tensor cores: what its kernels share.
//
// A block's score is stored as a key, the bits of the float32 -score. Sums of relu are +0 or above, +inf or NaN, so as
// unsigned numbers these bits ascend with the score: 80000000 is score 0, ff800000 is +inf, and NaN, which the device
// writes as 7fffffff, lies below all. Key 0 is no block. So selection compares plain unsigned numbers.
//
// Keys of 16 blocks lie in the order of the accumulators of one thread: position 4 q + 2 j + e is block 8 j + 2 q + e.
// The largest key of every 8 positions is stored beside them (`best`): the take-th largest of these is a lower bound
// of the take-th largest key, and few of the 8s hold a key that reaches it.

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_CUH

#include "kernels/cuda_args.h"

#include <cuda_runtime.h>
#include <stdint.h>

enum {
    CHOOSE_HEADS = 4,
    CHOOSE_DIM = 128,
    CHOOSE_GROUP = 8,      // keys per `best`
    CHOOSE_TILE_ROWS = 64, // rows of a tile of the wgmma kernel
    CHOOSE_TILE_BLOCKS = 128,
    CHOOSE_ALL_LISTED = 2048, // rows of at most so many blocks list all of them
    CHOOSE_MOST_TAKE = 1024,  // the select kernel's buffers are several times this
    CHOOSE_MOST_CELLS = 2097152
};
#define CHOOSE_MASKED 0u
#define CHOOSE_NAN    0x7fffffffu
#define CHOOSE_OVER   0xffffffffu // a part of a list that did not fit

// One sub-batch: rows first .. first + count - 1, whose keys fit in scratch.
typedef struct choose_job {
    const qsa_cuda_row *rows;
    int32_t first, count;
    const int32_t *tables;
    int32_t table_pages, page_blocks;
    uint64_t page_part; // 2^40 / page_blocks, rounded up: exact for blocks and pages below 2^20
    const void *block_keys;
    const float *index_q;
    uint32_t *keys; // [count][stride]
    uint32_t *best; // [count][stride / 8], null: not wanted
    int32_t stride; // a multiple of 128
    int32_t ratio, blocks_budget, free_cells, rule, identity;
    // Rows by list: only scores that reach the row's bar, which a sample of its blocks gives, are kept.
    int32_t sample;                // scores: only of one block in so many, 0 or 1: of all
    int32_t wanted;                // of the sample's scores so many are to reach the bar
    int32_t list_part, list_parts; // entries of a part, parts of a row
    uint32_t *bars;                // [count], null: all scores are kept
    uint2 *lists;                  // [count][list_parts][list_part] key, block; null: not by list
    uint32_t *list_held;           // [count][list_parts]
    int32_t *listed;               // [tiles of rows] whether the wgmma kernel served the tile
    int32_t *failed;               // [1 + count] how many rows' lists do not do, and which
    int32_t slots;                 // of keys, for these
    int32_t left;                  // mma.sync kernel: 1: only tiles that the wgmma kernel leaves
    qsa_cuda_selection selection;
} choose_job;

// What the tuning bench varies; the defaults are qsa_choose_mma_defaults'.
typedef struct choose_tuning {
    size_t keys_bytes; // limit of keys + best of a sub-batch: what stays in L2
    int32_t planes;    // 1, 2: f16 queries; bf16 keys always take 2
    int32_t rows_path; // batches of at most so many rows take the mma.sync kernel
    int32_t digits;    // selection in registers where the keys fit
    int32_t chained;   // programmatic dependent launches
    int32_t parts;     // 7: all; of these 4: by list the sample and the bars, 1: scores, 2: selection (timing)
    int32_t lists;     // batches go by list: 0 none, 1 all, 2 large ones
    float margin;      // the bar lies below the expected place in the sample by so many deviations
} choose_tuning;

typedef struct choose_launch {
    cudaStream_t stream;
    int chained;
    int cluster; // thread blocks of a cluster, 0: none
    int bf16;
    int sms;
} choose_launch;

int qsa_choose_mma_tuned(const qsa_cuda_choose_args *args, const choose_tuning *tuning, void *stream);
choose_tuning qsa_choose_mma_defaults(void);
size_t qsa_choose_mma_scratch_tuned(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells,
                                    const choose_tuning *tuning);
// Where in scratch the number of rows lies that their lists did not serve (of the last sub-batch).
size_t qsa_choose_mma_failed_at(const qsa_cuda_cache *cache, int32_t count, int32_t most_cells,
                                const choose_tuning *tuning);
// Rows of a sub-batch, the row stride of its keys in *stride.
int32_t qsa_choose_mma_sub_rows(int32_t ratio, int32_t count, int32_t most_cells, const choose_tuning *tuning, int sms,
                                int32_t *stride);

cudaError_t choose_launch_tiles(const choose_job &job, const choose_launch &launch, int planes, int splits);
cudaError_t choose_launch_rows(const choose_job &job, const choose_launch &launch, int planes);
cudaError_t choose_launch_select(const choose_job &job, const choose_launch &launch, int32_t most_blocks);
// Whether the keys of a row fit in registers, and the selection from these.
int choose_by_digits(int32_t count, int32_t most_blocks, int sms, int major);
cudaError_t choose_launch_digits(const choose_job &job, const choose_launch &launch, int32_t most_blocks, int major);
cudaError_t choose_launch_bars(const choose_job &job, const choose_launch &launch, int32_t most_sampled);
cudaError_t choose_launch_listed(const choose_job &job, const choose_launch &launch);
cudaError_t choose_launch_failed(const choose_job &job, const choose_launch &launch, int planes);

static inline cudaError_t choose_launch_kernel(const void *kernel, dim3 grid, dim3 block, size_t shared,
                                               const choose_launch &launch, const choose_job &job) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = launch.stream;
    cudaLaunchAttribute attributes[2] = {};
    config.attrs = attributes;
    if (launch.chained) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (launch.cluster) {
        attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[config.numAttrs].val.clusterDim.x = (unsigned)launch.cluster;
        attributes[config.numAttrs].val.clusterDim.y = 1;
        attributes[config.numAttrs++].val.clusterDim.z = 1;
    }
    void *args[] = {(void *)&job};
    return cudaLaunchKernelExC(&config, kernel, args);
}

#ifdef __CUDACC__

// A kernel of a chain: lets the next one be placed, then waits for the end of the one before. Every thread block does
// so before it touches memory, and so ends after the kernels before it: the chain is ordered.
static __device__ __forceinline__ void choose_chain(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Blocks of row i of the sub-batch that are scored: none if all its cells are attended anyway.
static __device__ __forceinline__ int32_t choose_scored(const choose_job &job, int32_t i, int32_t *sequence) {
    if (i >= job.count)
        return 0;
    const qsa_cuda_row *row = job.rows + job.first + i;
    *sequence = row->sequence;
    return row->attends && row->cells > job.free_cells ? row->cells / job.ratio : 0;
}

// The rows of a tile, as all threads of a thread block (64 at least) see them after the call.
typedef struct choose_tile {
    int32_t blocks[CHOOSE_TILE_ROWS], sequence[CHOOSE_TILE_ROWS];
    int32_t end[CHOOSE_TILE_ROWS]; // for the first row of each sequence the most blocks of its rows, else 0
    int32_t one;                   // one sequence: that first row is row 0
} choose_tile;

// Whether the tile is the wgmma kernel's: at least 8 rows a sequence.
static __device__ __forceinline__ bool choose_tile_shared(const choose_job &job, int32_t tile, choose_tile *rows) {
    const int32_t i = threadIdx.x;
    int32_t sequence = -1, blocks = 0;
    if (i < CHOOSE_TILE_ROWS) {
        blocks = choose_scored(job, tile * CHOOSE_TILE_ROWS + i, &sequence);
        rows->blocks[i] = job.sample > 1 ? blocks / job.sample : blocks;
        rows->sequence[i] = sequence = blocks > 0 ? sequence : -1;
        rows->end[i] = 0;
    }
    const int all = __syncthreads_count(blocks > 0);
    if (all == 0)
        return false;
    const int one = !__syncthreads_or(i < CHOOSE_TILE_ROWS && (blocks == 0 || sequence != rows->sequence[0]));
    if (one) {
        if (i < 32) {
            const uint32_t end = __reduce_max_sync(0xffffffffu, (uint32_t)max(rows->blocks[i], rows->blocks[i + 32]));
            if (i == 0)
                rows->end[0] = (int32_t)end, rows->one = 1;
        }
        __syncthreads();
        return true;
    }
    int first = 0;
    if (i < CHOOSE_TILE_ROWS && blocks > 0) {
        int32_t end = 0, same = 0;
        for (int32_t k = 0; k < CHOOSE_TILE_ROWS; k++)
            if (rows->sequence[k] == sequence) {
                end = max(end, rows->blocks[k]);
                same += k < i;
            }
        first = same == 0;
        rows->end[i] = first ? end : 0;
    }
    if (i == 0)
        rows->one = 0;
    const int sequences = __syncthreads_count(first);
    return all >= 8 * sequences;
}

static __device__ __forceinline__ int32_t choose_page(const choose_job &job, int32_t block) {
    return (int32_t)((uint64_t)(uint32_t)block * job.page_part >> 40);
}

static __device__ __forceinline__ int64_t choose_key_row(const choose_job &job, const int32_t *table, int32_t block) {
    const int32_t page = choose_page(job, block);
    return (int64_t)table[page] * job.page_blocks + (block - page * job.page_blocks);
}

// Block i of the sample: one of the blocks i * sample .. with no period that scores could have too.
static __device__ __forceinline__ int32_t choose_sampled(const choose_job &job, int32_t i) {
    if (job.sample <= 1)
        return i;
    uint32_t x = (uint32_t)i * 0x9e3779b9u;
    x = (x ^ x >> 15) * 0x85ebca6bu;
    return i * job.sample + (int32_t)__umulhi(x ^ x >> 13, (uint32_t)job.sample);
}

static __device__ __forceinline__ int32_t choose_block_of(int32_t position) {
    const int32_t u = position & 15;
    return (position & ~15) + (u >> 1 & 1) * 8 + (u >> 2) * 2 + (u & 1);
}

static __device__ __forceinline__ float choose_relu(float x) {
    float y;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
}

// sum of the heads' relus in their order, times the row's scale, as a key
static __device__ __forceinline__ uint32_t choose_key(float h0, float h1, float h2, float h3, float scale) {
    const float sum = choose_relu(h0) + choose_relu(h1) + choose_relu(h2) + choose_relu(h3);
    return __float_as_uint(sum * scale);
}

// Power of two near the row's largest |query| (its bits): planes hold query / 2^e, so that halves neither overflow nor
// vanish whatever the norm's weights. 0 for zeros and for infinities.
static __device__ __forceinline__ int choose_exponent(uint32_t largest) {
    const int e = (int)(largest >> 23);
    return largest == 0 || e == 255 ? 0 : max(-100, min(100, e - 127));
}

static __device__ __forceinline__ float choose_power(int e) {
    return __uint_as_float((uint32_t)(e + 127) << 23);
}

static __device__ __forceinline__ float choose_scale(int e) {
    return -0.08838834764831845f * choose_power(e); // 1 / sqrt(128)
}

#endif
#endif
