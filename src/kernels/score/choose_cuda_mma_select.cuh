// SPDX-License-Identifier: Apache-2.0
//
// The `take` best of a row's keys, exactly, in the total order; a thread block per row.
//
//  1. The largest key of each 8 blocks goes to registers. Bisection finds a bar that at least `take` of them reach, and
//     not many more: so at least `take` keys reach it, and only in those 8s.
//  2. Their keys that reach the bar are gathered in shared memory: some 550 to 700 for 512 when scores come in no order.
//  3. Bisection among these ends when exactly `take` reach a bar, or at the key that ties.
//  4. A bitmap of blocks makes the ids ascend; of the keys that tie, the lowest blocks are taken there.
//
// What does not fit the buffers (many ties) goes through a radix select over all the row's keys. Nothing depends on the
// order in which threads arrive: the candidates are a set, and the bitmap orders it.

#ifndef QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_SELECT_CUH
#define QSA_KERNELS_SCORE_CHOOSE_CUDA_MMA_SELECT_CUH

#include "kernels/score/choose_cuda_mma_select_all.cuh"

// Step 1. The bar, 0 if there is none or too many 8s reach it. fold: consecutive 8s that share a register.
template <int THREADS, int PER>
static __device__ __forceinline__ uint32_t find_hits(const select_row &row, select_shared *sh, int32_t fold,
                                                     uint32_t *largest, int *turn) {
    const int32_t groups = (row.blocks + 15) / 16 * 2;
    uint32_t m[PER], most = 0, least = 0xffffffffu;
    int32_t some = 0;
#pragma unroll
    for (int r = 0; r < PER; r++) {
        m[r] = CHOOSE_MASKED;
        const int32_t at = (r * THREADS + (int32_t)threadIdx.x) * fold;
        for (int32_t f = 0; f < fold; f++)
            if (at + f < groups)
                m[r] = max(m[r], row.best[at + f]);
    }
#pragma unroll
    for (int r = 0; r < PER; r++) {
        most = max(most, m[r]);
        least = min(least, m[r] ? m[r] : 0xffffffffu);
        some += m[r] != 0;
    }
    most = reduce<THREADS, MAX>(sh, most, turn);
    uint32_t low = reduce<THREADS, MIN>(sh, least, turn), high = most + 1;
    int32_t reach = (int32_t)reduce<THREADS, SUM>(sh, (uint32_t)some, turn);
    *largest = most;
    if (reach < row.take)
        return 0;
    while (high - low > 1 && reach > row.take + row.take / 8) {
        const uint32_t middle = low + (high - low) / 2;
        int32_t n = 0;
#pragma unroll
        for (int r = 0; r < PER; r++)
            n += m[r] >= middle;
        n = (int32_t)reduce<THREADS, SUM>(sh, (uint32_t)n, turn);
        if (n >= row.take)
            low = middle, reach = n;
        else
            high = middle;
    }
    if (reach > HITS)
        return 0;
    int32_t n = 0;
#pragma unroll
    for (int r = 0; r < PER; r++)
        n += m[r] >= low;
    const int lane = threadIdx.x & 31;
    int32_t sum = n;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int32_t y = __shfl_up_sync(0xffffffffu, sum, d);
        sum += lane >= d ? y : 0;
    }
    int32_t at = lane == 31 ? atomicAdd(&sh->hits, sum) : 0;
    at = __shfl_sync(0xffffffffu, at, 31) + sum - n;
#pragma unroll
    for (int r = 0; r < PER; r++)
        if (m[r] >= low)
            row.hit[at++] = (uint16_t)(r * THREADS + threadIdx.x);
    __syncthreads();
    return low;
}

// Step 2. False if they are more than HELD.
template <int THREADS>
static __device__ __forceinline__ bool gather(const select_row &row, select_shared *sh, int32_t fold, uint32_t bar) {
    const int lane = threadIdx.x & 31;
    const unsigned before = (1u << lane) - 1;
    const int32_t items = sh->hits * fold * 2; // half an 8 each
    for (int32_t base = 0; base < items; base += 4 * THREADS) {
        uint4 key[4];
        int32_t position[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int32_t item = base + u * THREADS + (int32_t)threadIdx.x;
            key[u] = make_uint4(0, 0, 0, 0);
            position[u] = 0;
            if (item < items) {
                const int32_t group = item >> 1;
                const int32_t of = fold == 1 ? row.hit[group] : row.hit[group / fold] * fold + group % fold;
                position[u] = of * CHOOSE_GROUP + (item & 1) * 4;
                if (position[u] < (row.blocks + 15) / 16 * 16)
                    key[u] = *(const uint4 *)(row.keys + position[u]);
            }
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            if (base + u * THREADS >= items)
                break;
            const uint32_t k[4] = {key[u].x, key[u].y, key[u].z, key[u].w};
            unsigned votes[4];
            int32_t sum = 0;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                votes[i] = __ballot_sync(0xffffffffu, k[i] >= bar);
                sum += __popc(votes[i]);
            }
            int32_t at = lane == 0 && sum ? atomicAdd(&sh->held, sum) : 0;
            at = __shfl_sync(0xffffffffu, at, 0);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int32_t to = at + __popc(votes[i] & before);
                if (k[i] >= bar && to < HELD) {
                    row.held_key[to] = k[i];
                    row.held_block[to] = (uint32_t)choose_block_of(position[u] + i);
                }
                at += __popc(votes[i]);
            }
        }
    }
    __syncthreads();
    return sh->held <= HELD;
}

// Step 3, among n held keys of which `reach` are at least `low`, and none above `most`. Marks them in the bitmaps.
template <int THREADS, int IN_REGISTERS = 4>
static __device__ __forceinline__ select_bar among_held(const select_row &row, select_shared *sh, int32_t n,
                                                        int32_t reach, uint32_t low, uint32_t most, int cut,
                                                        int *turn) {
    uint32_t own[IN_REGISTERS], high = most + 1;
    int32_t over = 0; // keys from `high` on
#pragma unroll
    for (int i = 0; i < IN_REGISTERS; i++) {
        const int32_t at = i * THREADS + (int32_t)threadIdx.x;
        own[i] = at < n ? row.held_key[at] : CHOOSE_MASKED;
    }
    while (reach > row.take && high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        int32_t c = 0;
#pragma unroll
        for (int i = 0; i < IN_REGISTERS; i++)
            c += own[i] >= middle;
        for (int32_t at = IN_REGISTERS * THREADS + (int32_t)threadIdx.x; at < n; at += THREADS)
            c += row.held_key[at] >= middle;
        c = (int32_t)reduce<THREADS, SUM>(sh, (uint32_t)c, turn);
        if (c >= row.take)
            low = middle, reach = c;
        else
            high = middle, over = c;
    }
    select_bar bar = {low, row.take - over};
    if (reach == row.take) {
        bar.key = low - 1;
        bar.wanted = 0;
        if (cut) { // which of them ranks last?
            uint32_t least = 0xffffffffu, last = 0;
            for (int32_t at = threadIdx.x; at < n; at += THREADS)
                least = min(least, row.held_key[at] >= low ? row.held_key[at] : 0xffffffffu);
            least = reduce<THREADS, MIN>(sh, least, turn);
            for (int32_t at = threadIdx.x; at < n; at += THREADS)
                last = max(last, row.held_key[at] == least ? row.held_block[at] : 0u);
            last = reduce<THREADS, MAX>(sh, last, turn);
            if (threadIdx.x == 0)
                sh->last = (int32_t)last;
        }
    }
    for (int32_t at = threadIdx.x; at < n; at += THREADS) {
        const uint32_t key = row.held_key[at], block = row.held_block[at];
        if (key > bar.key)
            atomicOr(row.above + (block >> 5), 1u << (block & 31));
        else if (key == bar.key && bar.wanted > 0)
            atomicOr(row.equal + (block >> 5), 1u << (block & 31));
    }
    return bar;
}

// Of the blocks whose key ties, the lowest `wanted` join those above; the highest of them ranks last.
template <int THREADS>
static __device__ __forceinline__ void take_equal(const select_row &row, select_shared *sh, int32_t wanted,
                                                  int32_t words, int *turn) {
    const int32_t per = (words + THREADS - 1) / THREADS, from = (int32_t)threadIdx.x * per;
    int32_t n = 0;
    for (int32_t w = from; w < from + per && w < words; w++)
        n += __popc(row.equal[w]);
    int32_t taken = scan<THREADS>(sh, n, turn);
    for (int32_t w = from; w < from + per && w < words && taken < wanted; w++)
        for (uint32_t bits = row.equal[w]; bits && taken < wanted; bits &= bits - 1) {
            row.above[w] |= bits & -bits;
            if (++taken == wanted)
                sh->last = w * 32 + __ffs(bits) - 1;
        }
}

// What a row takes; its count and cut_cells are written, its ids too if all its cells are attended.
typedef struct select_task {
    int32_t blocks, take, cut_cells; // take 0: nothing left to do
} select_task;

template <int THREADS>
static __device__ __forceinline__ select_task begin_row(const choose_job &job, select_shared *sh, int64_t at) {
    const qsa_cuda_row *of = job.rows + at;
    select_task task = {};
    if (!of->attends)
        return task;
    const int32_t cells = of->cells;
    const qsa_cuda_selection *to = &job.selection;
    const int full = cells <= job.free_cells;
    task.blocks = cells / job.ratio;
    task.cut_cells = job.rule == QSA_RULE_CUT && !full ? job.ratio - 1 - cells % job.ratio : 0;
    const int32_t take = full ? task.blocks : job.blocks_budget + (task.cut_cells > 0);
    if (threadIdx.x == 0) {
        to->counts[at] = take;
        if (to->cut_index && task.cut_cells == 0)
            to->cut_index[at] = -1;
        if (to->cut_cells)
            to->cut_cells[at] = task.cut_cells;
        sh->hits = sh->held = 0;
        sh->last = -1;
    }
    if (full && job.identity)
        for (int32_t b = threadIdx.x; b < task.blocks; b += THREADS)
            to->ids[at * to->stride + b] = b;
    task.take = full ? 0 : take;
    return task;
}

static __device__ __forceinline__ void clear_bitmaps(const select_row &row, int32_t words, int threads) {
    for (int32_t w = threadIdx.x; w < words; w += threads)
        row.above[w] = row.equal[w] = 0;
}

// The ids from the bitmaps.
template <int THREADS>
static __device__ __forceinline__ void end_row(const choose_job &job, const select_row &row, select_shared *sh,
                                               int64_t at, int32_t wanted, int32_t cut_cells, int *turn) {
    const qsa_cuda_selection *to = &job.selection;
    int32_t *ids = to->ids + at * to->stride;
    const int32_t words = (row.blocks + 31) / 32;
    __syncthreads();
    if (wanted > 0) {
        take_equal<THREADS>(row, sh, wanted, words, turn);
        __syncthreads();
    }
    const int32_t per = (words + THREADS - 1) / THREADS, from = (int32_t)threadIdx.x * per;
    int32_t n = 0;
    for (int32_t w = from; w < from + per && w < words; w++)
        n += __popc(row.above[w]);
    int32_t index = scan<THREADS>(sh, n, turn);
    const int32_t last = cut_cells > 0 ? sh->last : -1;
    for (int32_t w = from; w < from + per && w < words; w++)
        for (uint32_t bits = row.above[w]; bits; bits &= bits - 1) {
            const int32_t block = w * 32 + __ffs(bits) - 1;
            if (block == last && to->cut_index)
                to->cut_index[at] = index;
            ids[index++] = block;
        }
}

// A row of the batch from its keys in memory; `dynamic`: select_bytes() of shared memory.
template <int THREADS, int PER>
static __device__ __forceinline__ void select_by_keys(const choose_job &job, select_shared *sh, uint4 *dynamic,
                                                      int64_t at, const uint32_t *keys, const uint32_t *best) {
    const select_task task = begin_row<THREADS>(job, sh, at);
    if (task.take == 0)
        return;
    const int32_t blocks = task.blocks;
    select_row row;
    row.keys = keys;
    row.best = best;
    row.blocks = blocks;
    row.take = task.take;
    row.held_key = (uint32_t *)dynamic;
    row.held_block = row.held_key + HELD;
    row.hit = (uint16_t *)(row.held_block + HELD);
    row.above = (uint32_t *)(row.hit + HITS);
    row.equal = row.above + job.stride / 32;
    clear_bitmaps(row, (blocks + 31) / 32, THREADS);
    int turn = 0;
    select_bar bar;
    uint32_t most = 0;
    const int cut = task.cut_cells > 0;
    if (blocks <= HELD) { // all are candidates
        const int32_t positions = (blocks + 15) / 16 * 16;
        for (int32_t p = threadIdx.x; p < positions; p += THREADS) {
            const uint32_t key = row.keys[p];
            row.held_key[p] = key;
            row.held_block[p] = (uint32_t)choose_block_of(p);
            most = max(most, key);
        }
        most = reduce<THREADS, MAX>(sh, most, &turn);
        bar = among_held<THREADS>(row, sh, positions, blocks, 1, most, cut, &turn);
    } else {
        const int32_t groups = (blocks + 15) / 16 * 2, fold = (groups + THREADS * PER - 1) / (THREADS * PER);
        const uint32_t low = find_hits<THREADS, PER>(row, sh, fold, &most, &turn);
        if (low != 0 && gather<THREADS>(row, sh, fold, low))
            bar = among_held<THREADS>(row, sh, sh->held, sh->held, low, most, cut, &turn);
        else
            bar = among_all<THREADS>(row, sh);
    }
    end_row<THREADS>(job, row, sh, at, bar.wanted, task.cut_cells, &turn);
}

static inline size_t select_bytes(const choose_job &job) {
    return HELD * 8 + HITS * 2 + (size_t)job.stride / 32 * 8;
}

#endif
