// SPDX-License-Identifier: Apache-2.0
//
// A block's place in the pages of a sequence, moved on without a division.

#ifndef QSA_KERNELS_SCORE_PLACE_H
#define QSA_KERNELS_SCORE_PLACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct block_place {
    int32_t page, slot;
} block_place;

static inline block_place place_of(int32_t block, int32_t page_blocks) {
    return (block_place){block / page_blocks, block % page_blocks};
}

static inline block_place place_move(block_place p, int32_t blocks, int32_t page_blocks) {
    p.slot += blocks;
    while (p.slot >= page_blocks) {
        p.slot -= page_blocks;
        p.page++;
    }
    return p;
}

// Its row of the layer's arrays.
static inline size_t place_row(block_place p, const int32_t *page_table, int32_t page_blocks) {
    return (size_t)page_table[p.page] * (size_t)page_blocks + (size_t)p.slot;
}

#endif
