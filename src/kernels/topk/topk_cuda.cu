// SPDX-License-Identifier: Apache-2.0
//
// Radix select of one row's scores by one thread block, exact for every input. The keys' top 12 bits make a histogram,
// whose last taken bin, and all above, usually fit a buffer: two more digits and the ids come from there. The first
// part of a row gives a bin that enough scores reach already; of the rest only scores of that bin or above are counted
// and kept, so most cost a comparison. A buffer that is too small is filled again with the exact bin, and if that does
// not fit (ties), the row is read again for every digit: slower, never wrong. Ids come out ascending through bitmaps of
// a window of blocks.

#include "kernels/topk/select_cuda.h"

namespace {

enum {
    FIRST_BITS = 12,
    NEXT_BITS = 10,
    WINDOW = 65536, // blocks of a bitmap
    WORDS = WINDOW / 32,
    SAMPLE = 8192,   // scores of the first part, at least
    MANY_ROWS = 132, // beyond them, two smaller thread blocks share a multiprocessor
};

template <int HELD> struct shared {
    uint32_t keys[HELD];
    int32_t ids[HELD];
    union {
        int32_t histogram[1 << FIRST_BITS];
        uint32_t bits[2][WORDS]; // taken for sure; equal to the last key
    };
    uint64_t part[32];
    qsa_cuda_found found;
    int32_t held; // scores that the buffer was to take
};

struct search {
    const float *scores;
    int32_t blocks;
    uint32_t prefix;
    int shift;      // the key's bits above it are prefix
    int32_t wanted; // scores to take of those with the prefix
};

template <int THREADS> __device__ void clear(uint32_t *words, int count) {
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += THREADS)
        words[i] = 0;
    __syncthreads();
}

// Counts the digits of keys one after the other; equal neighbours cost one addition in memory.
struct counter {
    int32_t *histogram;
    uint32_t digit;
    int32_t run;
    __device__ void flush() {
        if (run)
            atomicAdd(&histogram[digit], run);
    }
    __device__ void add(uint32_t next) {
        if (next != digit) {
            flush();
            digit = next;
            run = 0;
        }
        run++;
    }
};

// The least score whose key has a top digit of at least `least` > 0: comparing floats is comparing keys, and NaN is
// below.
__device__ float bar_of(uint32_t least) {
    const uint32_t key = least << (32 - FIRST_BITS);
    return key < 0x00800000u ? -qsa_infinity()
                             : qsa_score_of_key(key); // between NaN's key and that of -inf there is none
}

// Places in the buffer for `mine` scores of each thread of a warp.
__device__ int32_t places(int32_t *held, int32_t mine) {
    const int lane = threadIdx.x % 32;
    int32_t sum = mine, at = 0;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int32_t below = __shfl_up_sync(~0u, sum, step);
        sum += lane >= step ? below : 0;
    }
    if (lane == 31)
        at = atomicAdd(held, sum);
    return __shfl_sync(~0u, at, 31) + sum - mine;
}

// Scores begin .. end - 1: those whose top digit is at least `least` are counted and kept, as asked for. The few that
// pass are read again: the registers that hold a tile cannot be indexed.
template <int THREADS, int HELD, bool COUNT, bool KEEP>
__device__ void sift(const float *scores, int32_t begin, int32_t end, uint32_t least, shared<HELD> *s) {
    const float bar = bar_of(least);
    qsa_cuda_tiles<THREADS>(scores, begin, end, [&](const float *x, int64_t b) {
        uint32_t passed = 0;
        if (least == 0) {
            counter c = {s->histogram, 0, 0};
#pragma unroll
            for (int i = 0; i < QSA_TILE_EACH; i++) {
                if (b + 4 * THREADS * (i / 4) + i % 4 >= end)
                    continue;
                passed |= 1u << i;
                if (COUNT)
                    c.add(qsa_score_key(x[i]) >> (32 - FIRST_BITS));
            }
            if (COUNT)
                c.flush();
        } else {
#pragma unroll
            for (int i = 0; i < QSA_TILE_EACH; i++)
                passed |= x[i] >= bar ? 1u << i : 0u;
        }
        if (!KEEP && least == 0)
            return;
        int32_t at = KEEP ? places(&s->held, __popc(passed)) : 0;
        for (; passed; passed &= passed - 1, at++) {
            const int i = __ffs((int)passed) - 1;
            const int32_t block = (int32_t)b + 4 * THREADS * (i / 4) + i % 4;
            const uint32_t key = qsa_score_key(scores[block]);
            if (COUNT && least)
                atomicAdd(&s->histogram[key >> (32 - FIRST_BITS)], 1);
            if (KEEP && at < HELD) {
                s->keys[at] = key;
                s->ids[at] = block;
            }
        }
    });
}

// f(key, block) of the scores in the buffer, or of blocks begin .. end - 1 if it did not do.
template <int THREADS, int HELD, class F>
__device__ void each(const search *q, const shared<HELD> *s, bool held, int32_t begin, int32_t end, F f) {
    if (held) {
        for (int i = threadIdx.x; i < s->held; i += THREADS)
            if (s->ids[i] >= begin && s->ids[i] < end)
                f(s->keys[i], s->ids[i]);
        return;
    }
    qsa_cuda_tiles<THREADS>(q->scores, begin, end, [&](const float *x, int64_t b) {
#pragma unroll
        for (int i = 0; i < QSA_TILE_EACH; i++) {
            const int64_t block = b + 4 * THREADS * (i / 4) + i % 4;
            if (block < end)
                f(qsa_score_key(x[i]), (int32_t)block);
        }
    });
}

// The top digit, and the buffer with all scores of its bin and above; false if they do not fit.
template <int THREADS, int HELD> __device__ bool first_digit(search *q, shared<HELD> *s) {
    constexpr int bins = 1 << FIRST_BITS;
    int32_t sample = q->blocks / 8 / (QSA_TILE_EACH * THREADS) * (QSA_TILE_EACH * THREADS);
    sample = sample > SAMPLE ? sample : SAMPLE < q->blocks ? SAMPLE : q->blocks;
    if (threadIdx.x == 0)
        s->held = 0;
    clear<THREADS>((uint32_t *)s->histogram, bins);
    sift<THREADS, HELD, true, false>(q->scores, 0, sample, 0, s);
    qsa_cuda_find<THREADS, bins>(s->histogram, q->wanted, &s->found, s->part);
    const uint32_t least = s->found.digit;
    sift<THREADS, HELD, true, true>(q->scores, sample, q->blocks, least, s);
    sift<THREADS, HELD, false, true>(q->scores, 0, sample, least, s);
    qsa_cuda_find<THREADS, bins>(s->histogram, q->wanted, &s->found, s->part);
    const int32_t needed = q->wanted - s->found.wanted + s->found.count;
    q->shift = 32 - FIRST_BITS;
    q->prefix = s->found.digit << q->shift;
    q->wanted = s->found.wanted;
    if (s->held <= HELD)
        return true;
    if (needed > HELD)
        return false;
    __syncthreads();
    if (threadIdx.x == 0)
        s->held = 0;
    __syncthreads();
    sift<THREADS, HELD, false, true>(q->scores, 0, q->blocks, s->found.digit, s);
    return true;
}

template <int THREADS, int HELD> __device__ void next_digit(search *q, shared<HELD> *s, bool held) {
    constexpr int bins = 1 << NEXT_BITS;
    clear<THREADS>((uint32_t *)s->histogram, bins);
    each<THREADS, HELD>(q, s, held, 0, q->blocks, [&](uint32_t key, int32_t) {
        if (key >> q->shift == q->prefix >> q->shift)
            atomicAdd(&s->histogram[key >> (q->shift - NEXT_BITS) & (bins - 1)], 1);
    });
    qsa_cuda_find<THREADS, bins>(s->histogram, q->wanted, &s->found, s->part);
    q->shift -= NEXT_BITS;
    q->prefix |= s->found.digit << q->shift;
    q->wanted = s->found.wanted;
}

// Ids of all keys above the prefix and of the first `wanted` blocks equal to it. *last: where the last of those is.
template <int THREADS, int HELD>
__device__ void emit(const search *q, shared<HELD> *s, bool held, int32_t *ids, int32_t *last) {
    constexpr int words = WORDS / THREADS;
    int64_t taken = 0, equal = 0; // in the windows before
    for (int64_t first = 0; first < q->blocks; first += WINDOW) {
        const int32_t end = q->blocks - first < WINDOW ? q->blocks : (int32_t)first + WINDOW;
        clear<THREADS>(s->bits[0], 2 * WORDS);
        each<THREADS, HELD>(q, s, held, (int32_t)first, end, [&](uint32_t key, int32_t block) {
            if (key >= q->prefix)
                atomicOr(&s->bits[key == q->prefix][(block - first) / 32], 1u << (block % 32));
        });
        __syncthreads();
        uint64_t counts = 0; // above, and equal << 32
#pragma unroll
        for (int i = 0; i < words; i++) {
            const int w = (int)threadIdx.x * words + i;
            counts += (uint64_t)__popc(s->bits[0][w]) | (uint64_t)__popc(s->bits[1][w]) << 32;
        }
        const uint64_t before = qsa_cuda_sum_before<THREADS>(counts, s->part);
        int64_t ties = equal + (int64_t)(before >> 32);
        int64_t at = taken + (int64_t)(uint32_t)before + (ties < q->wanted ? ties : q->wanted);
        for (int i = 0; i < words; i++) {
            const int w = (int)threadIdx.x * words + i;
            const uint32_t tied = s->bits[1][w];
            for (uint32_t bits = s->bits[0][w] | tied; bits; bits &= bits - 1) {
                const int bit = __ffs((int)bits) - 1;
                if (tied >> bit & 1) {
                    ties++;
                    if (ties > q->wanted)
                        continue;
                    if (last && ties == q->wanted)
                        *last = (int32_t)at;
                }
                ids[at++] = (int32_t)first + w * 32 + bit;
            }
        }
        if (q->blocks - first <= WINDOW)
            return;
        __syncthreads();
        if (threadIdx.x == THREADS - 1)
            s->part[0] = before + counts;
        __syncthreads();
        taken += (int64_t)(uint32_t)s->part[0];
        equal += (int64_t)(s->part[0] >> 32);
    }
}

template <int THREADS, int BLOCKS, int HELD>
__global__ __launch_bounds__(THREADS, BLOCKS) void topk(const __grid_constant__ qsa_cuda_topk_args a) {
    extern __shared__ __align__(16) unsigned char memory[];
    shared<HELD> *s = (shared<HELD> *)memory;
    const qsa_geometry *g = &a.geometry;
    const int64_t i = blockIdx.x;
    const qsa_cuda_row *r = &a.rows[i];
    if (!r->attends)
        return;
    const int32_t cells = r->cells < a.most_cells ? r->cells : a.most_cells, blocks = cells / g->ratio;
    const bool below = cells <= qsa_cuda_width(g);
    int32_t *ids = a.selection.ids + i * a.selection.stride;
    // cut: budget + ratio - 1 cells less the tail are K whole blocks and ratio - 1 - tail cells of the next.
    const int32_t cut = !below && a.rule == QSA_RULE_CUT ? g->ratio - 1 - cells % g->ratio : 0;
    const int32_t take = below ? blocks : g->budget / g->ratio + (cut > 0);
    if (threadIdx.x == 0) {
        a.selection.counts[i] = take;
        if (a.selection.cut_index && cut == 0)
            a.selection.cut_index[i] = -1;
        if (a.selection.cut_cells)
            a.selection.cut_cells[i] = cut;
    }
    if (below) {
        for (int32_t b = threadIdx.x; a.identity && b < blocks; b += THREADS)
            ids[b] = b;
        return;
    }
    search q = {a.scores + i * a.stride, blocks, 0, 0, take};
    const bool held = first_digit<THREADS, HELD>(&q, s);
    next_digit<THREADS, HELD>(&q, s, held);
    next_digit<THREADS, HELD>(&q, s, held);
    emit<THREADS, HELD>(&q, s, held, ids, cut && a.selection.cut_index ? a.selection.cut_index + i : NULL);
}

// Thread blocks of THREADS, BLOCKS of them on a multiprocessor, each with a buffer for HELD scores.
template <int THREADS, int BLOCKS, int HELD> int launch(const qsa_cuda_topk_args *args, cudaStream_t stream) {
    const int bytes = (int)sizeof(shared<HELD>);
    const cudaError_t error =
        cudaFuncSetAttribute(topk<THREADS, BLOCKS, HELD>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess)
        return error;
    topk<THREADS, BLOCKS, HELD><<<(unsigned)args->count, THREADS, bytes, stream>>>(*args);
    return cudaGetLastError();
}

} // namespace

extern "C" int qsa_topk_cuda(const qsa_cuda_topk_args *args, void *stream) {
    if (args->count <= 0)
        return 0;
    if (args->count > MANY_ROWS)
        return launch<512, 2, 6144>(args, (cudaStream_t)stream);
    return launch<1024, 1, 12288>(args, (cudaStream_t)stream);
}
