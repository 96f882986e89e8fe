// SPDX-License-Identifier: Apache-2.0
//
// Rows needed next, fetched a few at a time between the arithmetic: selected blocks lie anywhere in the cache, so no hardware
// prefetcher finds them, and more misses at once than the machine has room for (16 lines on a Sapphire Rapids core) hold up
// every other load.

#ifndef QSA_KERNELS_ATTEND_FETCH_H
#define QSA_KERNELS_ATTEND_FETCH_H

#include "kernels/simd/simd.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fetches {
    const unsigned char *rows;
    const uint16_t *scales; // may be null
    const int32_t *cells;
    int32_t count, each;
    size_t row_bytes, groups;
} fetches;

// Rows of `count` cells, to be fetched in `times` calls of fetch_some.
QSA_INLINE fetches fetch_plan(const void *rows, const uint16_t *scales, size_t row_bytes, size_t groups,
                              const int32_t *cells, int32_t count, int32_t times) {
    return (fetches){.rows = (const unsigned char *)rows,
                     .scales = scales,
                     .cells = cells,
                     .count = count,
                     .each = times > 0 ? (count + times - 1) / times : count,
                     .row_bytes = row_bytes,
                     .groups = groups};
}

QSA_INLINE void fetch_some(fetches *x) {
    for (int32_t n = 0; n < x->each && x->count > 0; n++, x->cells++, x->count--) {
        const size_t cell = (size_t)*x->cells;
        for (size_t at = 0; at < x->row_bytes; at += 64)
            QSA_PREFETCH(x->rows + cell * x->row_bytes + at);
        if (x->scales)
            QSA_PREFETCH(x->scales + cell * x->groups);
    }
}

#endif
