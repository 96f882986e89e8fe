// SPDX-License-Identifier: Apache-2.0
//
// The selected cells of a row, on the device: which cell is the i-th. Below the budget all of them; else those of the
// chosen blocks, ascending, one of which may be cut, and the tail. Nothing that is read here is trusted: counts are
// clamped to what the geometry allows, and blocks that the row does not have give no cell.

#ifndef QSA_KERNELS_ATTEND_CELLS_CUDA_H
#define QSA_KERNELS_ATTEND_CELLS_CUDA_H

#include "kernels/cuda_io.h"

typedef struct qsa_cuda_pick {
    const int32_t *ids; // null: below the budget
    int32_t cells;      // n
    int32_t ratio;
    int32_t blocks;   // ids
    int32_t cut_end;  // selected cells up to the cut block's last one
    int32_t gap;      // cells that the cut leaves out behind them
    int32_t selected; // at most budget + ratio - 1
} qsa_cuda_pick;

// Of row i of the batch.
static __device__ __forceinline__ qsa_cuda_pick qsa_cuda_pick_of(const qsa_geometry *g, const qsa_cuda_row *row,
                                                                 const qsa_cuda_selection *selection, int64_t i) {
    const int32_t width = qsa_cuda_width(g);
    qsa_cuda_pick pick = {};
    pick.cells = row->cells > 0 ? row->cells : 0;
    pick.ratio = g->ratio;
    pick.selected = pick.cells;
    if (pick.cells <= width)
        return pick;
    const int32_t room = g->budget / g->ratio + 1;
    const int32_t most = selection->stride < room ? (int32_t)selection->stride : room;
    const int32_t count = selection->counts[i];
    pick.ids = selection->ids + i * selection->stride;
    pick.blocks = count < 0 ? 0 : count > most ? most : count;
    if (selection->cut_index && selection->cut_cells) {
        const int32_t index = selection->cut_index[i], cells = selection->cut_cells[i];
        if (index >= 0 && index < pick.blocks && cells >= 0 && cells < g->ratio) {
            pick.cut_end = index * g->ratio + cells;
            pick.gap = g->ratio - cells;
        }
    }
    pick.selected = pick.blocks * g->ratio - pick.gap + pick.cells % g->ratio;
    pick.selected = pick.selected < width ? pick.selected : width;
    return pick;
}

// The i-th selected cell, 0 <= i < selected; -1 if its block is not one of the row's.
static __device__ __forceinline__ int32_t qsa_cuda_pick_cell(const qsa_cuda_pick *pick, int32_t i) {
    if (!pick->ids)
        return i;
    if (pick->gap > 0 && i >= pick->cut_end)
        i += pick->gap;
    const int32_t k = i / pick->ratio;
    if (k >= pick->blocks)
        return pick->cells - pick->cells % pick->ratio + (i - pick->blocks * pick->ratio);
    const int32_t block = pick->ids[k];
    return block >= 0 && block < pick->cells / pick->ratio ? block * pick->ratio + (i - k * pick->ratio) : -1;
}

static __device__ __forceinline__ int32_t qsa_cuda_pick_chunks(const qsa_cuda_pick *pick) {
    return (int32_t)(((int64_t)pick->selected + QSA_CHUNK - 1) / QSA_CHUNK);
}

#endif
