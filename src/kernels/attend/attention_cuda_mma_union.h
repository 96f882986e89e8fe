// SPDX-License-Identifier: Apache-2.0
//
// Fast attention of eight neighbouring rows and one KV head over the union of their cells (sm_90a, i8 caches): what
// neighbours share is gathered and converted once. Two warpgroups, 64 cells a step, online softmax.
//
//   QK   warpgroup h has rows 4h .. 4h + 3: 64 cells x (4 rows x 12 heads x 2 planes), exact integers
//   PV   transposed: warpgroup h has the two groups of dims 2h, 2h + 1 of all 96 heads; V's codes become halves times scale
//        (times a power of two) in the registers that are operand A
//
// A row takes this path if its group of eight is in the batch as a whole and the group's rows share enough: that is a function
// of the group alone, so no other row of the batch changes a bit.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_UNION_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_UNION_H

#include "kernels/attend/attention_cuda_mma_tile.h" // qsa_union_quad
#include "kernels/attend/wgmma_cuda.h"

#define QSA_UNION_ROWS    8
#define QSA_UNION_HEADS   12
#define QSA_UNION_COLUMNS (QSA_UNION_ROWS * QSA_UNION_HEADS)
#define QSA_UNION_THREADS 256
#define QSA_UNION_QUADS   2112  // room; rows of the largest budget that all see everything need 2,051
#define QSA_UNION_MAP     16384 // quads of the map at a time
#define QSA_UNION_GROWTH  8.0f  // a maximum may be so far (in powers of two) above what P is relative to
#define QSA_UNION_HEAD    7.0f  // P is 2^7 at that: at most 2^15
#ifndef QSA_UNION_SAMPLE
#define QSA_UNION_SAMPLE 28 // of 64 ids of the group's first row so many must be its last row's
#endif

struct qsa_union_shared {
    union {
        struct {
            char planes[2][QSA_UNION_COLUMNS * 2 * 128]; // the queries, per 128 dims
            char k[2][2][QSA_TILE * 128];                // [step & 1], codes per 128 dims
            uint4 v[2][QSA_TILE][16];                    // codes; piece j of cell c lies at j ^ (c & 7)
        } step;
        struct {
            char planes[2][QSA_UNION_COLUMNS * 2 * 128];
            uint32_t quads[QSA_UNION_MAP];
        } map;
        float o[QSA_UNION_COLUMNS][QSA_O_PITCH];
    };
    char p[QSA_UNION_COLUMNS / 8][8][128]; // [8 columns][8 cells]: cells of 8 halves
    uint2 k_scales[QSA_TILE];
    uint16_t v_scales[4][QSA_TILE];                               // times the power of two
    float unit[16][QSA_UNION_ROWS], relative[16][QSA_UNION_ROWS]; // what P is relative to
    float most[8][4][3][4];                                       // [warp][lane t][j][row]
    float factor[QSA_UNION_COLUMNS], l[QSA_UNION_COLUMNS][4];     // by column of the output
    uint32_t largest_scale[4], seen;                              // rows that had a cell
    int32_t counts[8], bad;
    qsa_union_quad quads[QSA_UNION_QUADS];
};

// Row and head of column c (2t or 2t + 1) of 8 columns n of the output: four rows' heads 0-7, then two rows' heads 8-11 twice.
QSA_DEVICE int32_t qsa_union_row(int32_t n, int32_t c) {
    return n / 6 * 4 + (n % 6 < 4 ? n % 6 : n % 6 * 2 - 8 + (c & 1));
}

QSA_DEVICE int32_t qsa_union_head(int32_t n, int32_t c) {
    return n % 6 < 4 ? c : 8 + c / 2;
}

// Column of the output of lane t's head j of row i of warpgroup h: the inverse.
QSA_DEVICE int32_t qsa_union_column(int32_t h, int32_t i, int32_t j, int32_t t) {
    return 48 * h + (j < 2 ? 8 * i + 2 * t + j : 32 + i / 2 * 8 + 2 * t + (i & 1));
}

// Sets the flags of the rows that come in whole groups that share enough, a warp per row of the batch. Rows that see no more
// than the budget share all; else ids of the first row are looked up in the last row's (ascending both).
QSA_KERNEL(128, 8)
qsa_attend_decide(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, int32_t *served) {
    const int32_t r = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int32_t kv_heads = a.cache.geometry.kv_heads;
    qsa_wait_dependency();
    qsa_trigger_dependents();
    if (r >= a.count)
        return;
    const int32_t cells = a.rows[r].cells, position = cells - 1, leader = r - (position & (QSA_UNION_ROWS - 1));
    bool whole = cells > 0 && leader >= 0 && leader + QSA_UNION_ROWS <= a.count;
    if (whole) {
        const qsa_cuda_row &row = a.rows[leader + lane % QSA_UNION_ROWS];
        whole = row.attends && row.sequence == a.rows[r].sequence &&
                row.cells == position / QSA_UNION_ROWS * QSA_UNION_ROWS + lane % QSA_UNION_ROWS + 1;
    }
    whole = qsa_ballot(whole) == 0xffffffffu;
    if (!whole && lane < kv_heads)
        served[r * kv_heads + lane] = 0;
    if (!whole || leader != r)
        return;
    const qsa_work first = qsa_work_of(a, r), last = qsa_work_of(a, r + QSA_UNION_ROWS - 1);
    bool shares = !first.ids;
    if (first.ids && first.count >= 64) {
        int32_t found = 0;
        for (int32_t i = 0; i < 2; i++) {
            const int32_t id = first.ids[(int64_t)(2 * lane + i) * first.count / 64];
            int32_t low = 0, high = last.count; // the first that is not smaller
            while (low < high) {
                const int32_t middle = (low + high) / 2;
                if (last.ids[middle] < id)
                    low = middle + 1;
                else
                    high = middle;
            }
            found += qsa_popcount(qsa_ballot(low < last.count && last.ids[low] == id));
        }
        shares = found >= QSA_UNION_SAMPLE;
    }
    for (int32_t i = lane; i < QSA_UNION_ROWS * kv_heads; i += 32)
        served[r * kv_heads + i] = shares;
}

// Which of the cells of quad q of its list row w selects, as bits, and where in the sequence it is (in quads); -1: nowhere.
QSA_DEVICE int32_t qsa_union_place(const qsa_work &w, int32_t q, int32_t parts, uint32_t *bits) {
    const int32_t block = parts == 1 ? q : q / parts, part = q - block * parts;
    int32_t at, valid = 4;
    if (block < w.count) {
        const int32_t id = w.ids ? w.ids[block] : block;
        if (id < 0 || id >= w.blocks)
            return -1;
        at = id * parts + part;
        if (block == w.cut)
            valid = min(max(w.cut_cells - part * 4, 0), 4);
    } else {
        at = w.blocks * parts + (q - w.count * parts);
        valid = min(w.cells - at * 4, 4);
    }
    *bits = (1u << valid) - 1;
    return at;
}

// The union of the rows' quads in ascending order, with who selects what; returns its length, or -1: too long for here.
QSA_DEVICE int32_t qsa_union_list(qsa_union_shared &shared, const qsa_cuda_attention_args &a, int32_t r, int32_t kv) {
    const int32_t thread = threadIdx.x, warp = thread / 32, lane = thread % 32, threads = QSA_UNION_THREADS;
    const int32_t parts = a.cache.geometry.ratio / 4, page_cells = a.cache.page_cells;
    const int32_t kv_heads = a.cache.geometry.kv_heads;
    const qsa_work last = qsa_work_of(a, r + QSA_UNION_ROWS - 1);
    const int32_t all = (last.cells + 3) / 4;
    if (!last.ids) { // everything up to the row itself
        for (int32_t q = thread; q < all; q += threads) {
            const int32_t cell = q * 4, page = cell / page_cells;
            qsa_union_quad quad = {(last.table[page] * kv_heads + kv) * page_cells + (cell - page * page_cells), 0};
            for (int32_t i = 0; i < QSA_UNION_ROWS; i++)
                quad.mask |= ((1u << min(max(last.cells - (QSA_UNION_ROWS - 1) + i - cell, 0), 4)) - 1) << 4 * i;
            shared.quads[q] = quad;
        }
        __syncthreads();
        return all;
    }
    int32_t total = 0, sum = 0;
    for (int32_t base = 0; base < all; base += QSA_UNION_MAP) {
        const int32_t here = min(QSA_UNION_MAP, all - base);
        __syncthreads();
        for (int32_t i = thread; i < here; i += threads)
            shared.map.quads[i] = 0;
        __syncthreads();
        for (int32_t i = 0; i < QSA_UNION_ROWS; i++) {
            const qsa_work w = qsa_work_of(a, r + i);
            sum += base ? 0 : w.quads;
            for (int32_t q = thread; q < w.quads; q += threads) {
                uint32_t bits = 0;
                const int32_t at = qsa_union_place(w, q, parts, &bits) - base;
                if (at >= 0 && at < here)
                    qsa_atomic_or(&shared.map.quads[at], bits << (4 * i));
            }
        }
        __syncthreads();
        // Warp w has an eighth of the window, in order.
        const int32_t eighth = ((here + 255) / 256) * 32, from = min(warp * eighth, here),
                      to = min(from + eighth, here);
        int32_t mine = 0;
        for (int32_t i = from; i < to; i += 32)
            mine += qsa_popcount(qsa_ballot(i + lane < to && shared.map.quads[i + lane] != 0));
        if (lane == 0)
            shared.counts[warp] = mine;
        __syncthreads();
        int32_t at = total;
        for (int32_t w = 0; w < 8; w++) {
            at += w < warp ? shared.counts[w] : 0;
            total += shared.counts[w];
        }
        if (total > QSA_UNION_QUADS)
            return -1;
        for (int32_t i = from; i < to; i += 32) {
            const uint32_t mask = i + lane < to ? shared.map.quads[i + lane] : 0, found = qsa_ballot(mask != 0);
            if (mask) {
                const int32_t cell = (base + i + lane) * 4, page = cell / page_cells;
                shared.quads[at + qsa_popcount(found & ((1u << lane) - 1))] = {
                    (last.table[page] * kv_heads + kv) * page_cells + (cell - page * page_cells), mask};
            }
            at += qsa_popcount(found);
        }
    }
    __syncthreads();
    return total == 0 || total * 8 > sum * 3 ? -1
                                             : total; // beyond three times a row's the kernel of single rows is faster
}

#endif
