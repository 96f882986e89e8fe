// SPDX-License-Identifier: Apache-2.0
//
// The selection of rows whose keys fit in registers: of a thread block, or of a cluster of them for each row (Hopper, few
// rows).
//
//  1. Every thread block of a cluster takes a part of the row's blocks, in their order. The largest key is a bound from
//     above; the least of the largest keys of some 1,024 groups of keys is one from below, which at least `take` reach.
//  2. Between the bounds a histogram of 256 bins finds the bin of the take-th key, then one of 256 bins in that, and so
//     on, at most four times: until the bin is taken whole, or is one key. Each thread block counts its own keys and
//     reads the others' bins. Those of the thread blocks before it tell it where its ids begin and how many of the keys
//     that tie are taken before its own.
//  3. A bitmap of its blocks makes the ids ascend.
//
// Exact for any input, and nothing depends on the order in which threads arrive.

#include "kernels/score/choose_cuda_mma_select.cuh"

enum { CLUSTER_THREADS = 512, CLUSTER_MOST = 8, ROUNDS = 4, DIGITS = 256 };

typedef struct digits_shared {
    alignas(16) uint32_t bins[ROUNDS][DIGITS];
    uint32_t most, least, groups, pad;
    uint32_t digit, wanted, in_digit, above_before, digit_before;
} digits_shared;

// What the thread blocks of a cluster send each other. A round's bins are overwritten two rounds on, by thread blocks
// that have had the next round's from all.
typedef struct cluster_shared {
    uint4 range[CLUSTER_MOST];
    uint32_t bins[2][CLUSTER_MOST][DIGITS];
    uint32_t sum[2][DIGITS], before[2][DIGITS]; // of half of the thread blocks: all, those before this one
    uint64_t landed[1 + ROUNDS];                // the ranges, the bins of each round
} cluster_shared;

#if __CUDA_ARCH__ >= 900

static __device__ __forceinline__ uint32_t cluster_rank(void) {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

static __device__ __forceinline__ uint32_t cluster_size(void) {
    uint32_t r;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return r;
}

// Every thread block runs, and its barriers are ready.
static __device__ __forceinline__ void cluster_begin(cluster_shared *sh, uint32_t size) {
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < 1 + ROUNDS; i++) {
            const uint32_t at = (uint32_t)__cvta_generic_to_shared(sh->landed + i);
            const uint32_t bytes = size * (i ? DIGITS * 4 : 16);
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// To the same place and barrier of another thread block.
static __device__ __forceinline__ void cluster_send(const void *to, uint4 x, const uint64_t *landed, uint32_t rank) {
    uint32_t at, barrier;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(barrier)
                 : "r"((uint32_t)__cvta_generic_to_shared(landed)), "r"(rank));
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 :
                 : "r"(at), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
                 : "memory");
}

// What all thread blocks have sent.
static __device__ __forceinline__ void cluster_landed(const uint64_t *landed) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n"
                 "@p bra.uni done;\n"
                 "bra.uni again;\n"
                 "done:\n"
                 "}" ::"r"((uint32_t)__cvta_generic_to_shared(landed))
                 : "memory");
}

#else // no clusters: not called

static __device__ __forceinline__ uint32_t cluster_rank(void) {
    __trap();
    return 0;
}

static __device__ __forceinline__ uint32_t cluster_size(void) {
    return 1;
}

static __device__ __forceinline__ void cluster_begin(cluster_shared *, uint32_t) {}

static __device__ __forceinline__ void cluster_send(const void *, uint4, const uint64_t *, uint32_t) {}

static __device__ __forceinline__ void cluster_landed(const uint64_t *) {}

#endif

// Eight bins in descending order, the highest first.
static __device__ __forceinline__ void eight_bins(const uint32_t *from, uint32_t to[8]) {
    const uint4 low = ((const uint4 *)from)[0], high = ((const uint4 *)from)[1];
    to[0] = high.w, to[1] = high.z, to[2] = high.y, to[3] = high.x;
    to[4] = low.w, to[5] = low.z, to[6] = low.y, to[7] = low.x;
}

// Warp 0: the digit of the wanted-th key from above, from the bins or the sums of all thread blocks' bins.
template <bool CLUSTER>
static __device__ __forceinline__ void find_in_bins(digits_shared *sh, const cluster_shared *all, const uint32_t *bins,
                                                    uint32_t wanted) {
    const uint32_t lane = threadIdx.x & 31, top = DIGITS - 1 - 8 * lane, from = top - 7;
    uint32_t count[8], before[8] = {}, own = 0;
    if (CLUSTER) {
        uint32_t more[8];
        eight_bins(all->sum[0] + from, count);
        eight_bins(all->sum[1] + from, more);
#pragma unroll
        for (int i = 0; i < 8; i++)
            count[i] += more[i];
        eight_bins(all->before[0] + from, before);
        eight_bins(all->before[1] + from, more);
#pragma unroll
        for (int i = 0; i < 8; i++)
            before[i] += more[i];
    } else {
        eight_bins(bins + from, count);
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        own += count[i];
    uint32_t sum = own;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t y = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= (uint32_t)d ? y : 0;
    }
    uint32_t over = sum - own,
             above = 0; // keys above this lane's next digit; of them, of thread blocks before this one
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (over < wanted && over + count[i] >= wanted) { // in one lane, once
            sh->digit = top - (uint32_t)i;
            sh->wanted = wanted - over;
            sh->in_digit = count[i];
            sh->digit_before = before[i];
        }
        over += count[i];
        above += over < wanted ? before[i] : 0;
    }
    above = __reduce_add_sync(0xffffffffu, above);
    if (lane == 0)
        sh->above_before = above;
}

template <int THREADS, int PER, bool CLUSTER>
__global__ void __launch_bounds__(THREADS, THREADS *PER > 4096 ? 1 : 1024 / THREADS)
    qsa_choose_mma_digits_kernel(const choose_job job) {
    enum {
        WORDS = PER * THREADS * 4 / 32,
        EACH = (WORDS + THREADS - 1) / THREADS,
        GROUPS = CLUSTER   ? 1
                 : PER < 4 ? PER
                           : 4 // of a thread
    };
    __shared__ digits_shared sh;
    __shared__ cluster_shared all;
    __shared__ select_shared scans;
    __shared__ uint32_t above[WORDS], equal[WORDS];
    const int32_t thread = (int32_t)threadIdx.x, lane = thread & 31;
    const int32_t rank = CLUSTER ? (int32_t)cluster_rank() : 0, size = CLUSTER ? (int32_t)cluster_size() : 1;
    const int32_t i = (int32_t)blockIdx.x / size;
    for (int32_t k = thread; k < ROUNDS * DIGITS; k += THREADS)
        (&sh.bins[0][0])[k] = 0;
    for (int32_t w = thread; w < WORDS; w += THREADS)
        above[w] = equal[w] = 0;
    if (thread == 0)
        sh.most = sh.groups = 0, sh.least = 0xffffffffu;
    if (CLUSTER)
        cluster_begin(&all, (uint32_t)size);
    else
        __syncthreads();
    choose_chain();
    const int64_t at = job.first + i;
    const select_task task = begin_row<THREADS>(job, &scans, at);
    if (task.take == 0) // so for all of the cluster
        return;
    const int32_t positions = (task.blocks + 15) / 16 * 16, part = ((positions + size - 1) / size + 31) / 32 * 32;
    const int32_t start = rank * part, end = min(start + part, positions);
    const uint32_t *keys = job.keys + (int64_t)i * job.stride;
    uint32_t key[PER * 4], of_group[GROUPS] = {}, largest = 0;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int32_t p = start + (k * THREADS + thread) * 4;
        const uint4 v = p < end ? __ldcg((const uint4 *)(keys + p)) : make_uint4(0, 0, 0, 0);
        key[4 * k] = v.x, key[4 * k + 1] = v.y, key[4 * k + 2] = v.z, key[4 * k + 3] = v.w;
    }
#pragma unroll
    for (int k = 0; k < 4 * PER; k++)
        of_group[k / 4 % GROUPS] = max(of_group[k / 4 % GROUPS], key[k]);

    // 1. In a cluster, groups of the keys of 1, 2 or 4 threads: 1,024 where there are so many threads with keys.
    int32_t width = 1;
    uint32_t least = 0xffffffffu, own_groups = 0;
    if (CLUSTER) {
        const int32_t holders = min(THREADS, part / 4) * size;
        width = holders >= 4096 ? 4 : holders >= 2048 ? 2 : 1;
        if (width >= 2)
            of_group[0] = max(of_group[0], __shfl_xor_sync(0xffffffffu, of_group[0], 1));
        if (width >= 4)
            of_group[0] = max(of_group[0], __shfl_xor_sync(0xffffffffu, of_group[0], 2));
    }
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        largest = max(largest, of_group[k]);
        least = min(least, of_group[k] ? of_group[k] : 0xffffffffu);
        own_groups += of_group[k] && lane % width == 0;
    }
    const uint32_t most_warp = __reduce_max_sync(0xffffffffu, largest),
                   least_warp = __reduce_min_sync(0xffffffffu, least),
                   groups_warp = __reduce_add_sync(0xffffffffu, own_groups);
    if (lane == 0 && most_warp) {
        atomicMax(&sh.most, most_warp);
        atomicMin(&sh.least, least_warp);
        atomicAdd(&sh.groups, groups_warp);
    }
    __syncthreads();
    uint32_t high = sh.most, low = sh.least, all_groups = sh.groups;
    if (CLUSTER) {
        if (thread < size)
            cluster_send(all.range + rank, make_uint4(high, low, all_groups, 0), all.landed, (uint32_t)thread);
        cluster_landed(all.landed);
        __syncwarp();
        const uint4 range = all.range[lane < size ? lane : 0];
        high = __reduce_max_sync(0xffffffffu, range.x);
        low = __reduce_min_sync(0xffffffffu, range.y);
        all_groups = __reduce_add_sync(0xffffffffu, lane < size ? range.z : 0u);
    }
    if (all_groups < (uint32_t)task.take)
        low = 1; // no block has key 0

    // 2. The take-th key lies in low .. high; `wanted` of the keys there are taken, and all above.
    uint32_t wanted = (uint32_t)task.take, before = 0, tied_before = 0;
    int whole = 0;
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t span = high - low;
        const int shift = max(0, 24 - __clz((int)span)); // span >> shift < 256
        uint32_t *bins = sh.bins[round];
#pragma unroll
        for (int k = 0; k < 4 * PER; k++)
            if (key[k] - low <= span)
                atomicAdd(bins + ((key[k] - low) >> shift), 1u);
        __syncthreads();
        if (CLUSTER) {
            const int32_t half = thread / DIGITS, bin = thread % DIGITS, each = size / 2, to = thread / (DIGITS / 4);
            if (to < size)
                cluster_send((uint4 *)all.bins[round & 1][rank] + thread % (DIGITS / 4),
                             ((const uint4 *)bins)[thread % (DIGITS / 4)], all.landed + 1 + round, (uint32_t)to);
            cluster_landed(all.landed + 1 + round);
            __syncwarp();
            uint32_t sum = 0, less = 0;
#pragma unroll
            for (int k = 0; k < CLUSTER_MOST / 2; k++) {
                const uint32_t got = k < each ? all.bins[round & 1][half * each + k][bin] : 0u;
                sum += got;
                less += half * each + k < rank ? got : 0u;
            }
            all.sum[half][bin] = sum;
            all.before[half][bin] = less;
            __syncthreads();
        }
        if (thread < 32)
            find_in_bins<CLUSTER>(&sh, &all, bins, wanted);
        __syncthreads();
        before += sh.above_before;
        wanted = sh.wanted;
        low += sh.digit << shift;
        high = min(high, low + ((1u << shift) - 1));
        tied_before = sh.digit_before;
        whole = sh.in_digit == wanted && task.cut_cells == 0; // a row that is cut has to know its last block
        if (whole || shift == 0)
            break;
    }

    // 3. Keys above the bar, and of the keys at it the lowest `mine`.
    const uint32_t bar = whole ? low - 1 : low;
    int32_t mine = whole || tied_before >= wanted ? 0 : (int32_t)(wanted - tied_before);
    int32_t index = (int32_t)(before + (whole ? tied_before : min(tied_before, wanted)));
#pragma unroll
    for (int k = 0; k < 4 * PER; k++)
        if (key[k] > bar || (key[k] == bar && mine > 0)) {
            const int32_t p = (k / 4 * THREADS + thread) * 4 + k % 4, block = choose_block_of(p);
            atomicOr((key[k] > bar ? above : equal) + (block >> 5), 1u << (block & 31));
        }
    __syncthreads();
    int turn = 0;
    uint32_t bits[EACH];
    int32_t last = -1; // this thread's block that ranks last of all taken, as its place in the part
#pragma unroll
    for (int e = 0; e < EACH; e++)
        bits[e] = thread * EACH + e < WORDS ? above[thread * EACH + e] : 0u;
    if (mine > 0) {
        uint32_t ties[EACH];
        int32_t n = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            ties[e] = thread * EACH + e < WORDS ? equal[thread * EACH + e] : 0u;
            n += __popc(ties[e]);
        }
        int32_t taken = scan<THREADS>(&scans, n, &turn);
#pragma unroll
        for (int e = 0; e < EACH; e++)
            for (; ties[e] && taken < mine; ties[e] &= ties[e] - 1) {
                bits[e] |= ties[e] & -ties[e];
                if (++taken == mine)
                    last = (thread * EACH + e) * 32 + __ffs((int)ties[e]) - 1;
            }
    }
    int32_t n = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        n += __popc(bits[e]);
    index += scan<THREADS>(&scans, n, &turn);
    int32_t *ids = job.selection.ids + at * job.selection.stride;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        for (uint32_t left = bits[e]; left; left &= left - 1) {
            const int32_t block = (thread * EACH + e) * 32 + __ffs((int)left) - 1;
            if (block == last && task.cut_cells > 0 && job.selection.cut_index)
                job.selection.cut_index[at] = index;
            ids[index++] = start + block;
        }
    // All that the others send this thread block has landed: it may end before them.
}

// Thread blocks a row; 0: not this way.
static int cluster_of(int32_t count, int32_t most_blocks, int sms, int32_t *part) {
    const int size = count * 8 <= 2 * sms ? 8 : count * 4 <= 2 * sms ? 4 : 0;
    if (size == 0)
        return 0;
    *part = (((most_blocks + 15) / 16 * 16 + size - 1) / size + 31) / 32 * 32;
    return *part <= 16 * CLUSTER_THREADS * 4 ? size : 0;
}

enum { BLOCK_ROW = 16384 }; // most blocks of a row of one thread block

int choose_by_digits(int32_t count, int32_t most_blocks, int sms, int major) {
    int32_t part;
    return most_blocks <= BLOCK_ROW || (major >= 9 && cluster_of(count, most_blocks, sms, &part) > 0);
}

cudaError_t choose_launch_digits(const choose_job &job, const choose_launch &at, int32_t most_blocks, int major) {
    int32_t part = 0;
    const int size = major >= 9 ? cluster_of(job.count, most_blocks, at.sms, &part) : 0;
    const int32_t quads = (part + CLUSTER_THREADS * 4 - 1) / (CLUSTER_THREADS * 4);
    choose_launch clustered = at;
    clustered.cluster = size;
    int threads = CLUSTER_THREADS;
    const void *kernel;
    if (size) {
        kernel = quads <= 1   ? (const void *)qsa_choose_mma_digits_kernel<CLUSTER_THREADS, 1, true>
                 : quads <= 2 ? (const void *)qsa_choose_mma_digits_kernel<CLUSTER_THREADS, 2, true>
                 : quads <= 4 ? (const void *)qsa_choose_mma_digits_kernel<CLUSTER_THREADS, 4, true>
                 : quads <= 8 ? (const void *)qsa_choose_mma_digits_kernel<CLUSTER_THREADS, 8, true>
                              : (const void *)qsa_choose_mma_digits_kernel<CLUSTER_THREADS, 16, true>;
    } else {
        threads = most_blocks <= 8192 ? 256 : 512;
        kernel = most_blocks <= 2048   ? (const void *)qsa_choose_mma_digits_kernel<256, 2, false>
                 : most_blocks <= 4096 ? (const void *)qsa_choose_mma_digits_kernel<256, 4, false>
                 : most_blocks <= 8192 ? (const void *)qsa_choose_mma_digits_kernel<256, 8, false>
                                       : (const void *)qsa_choose_mma_digits_kernel<512, 8, false>;
    }
    return choose_launch_kernel(kernel, dim3((unsigned)(job.count * (size ? size : 1))), dim3((unsigned)threads), 0,
                                clustered, job);
}
