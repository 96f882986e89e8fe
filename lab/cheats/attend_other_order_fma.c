// SPDX-License-Identifier: Apache-2.0
//
// Adds the cells of a chunk from the last to the first.
// KERNEL: attend
// EXPECT: prove memcmp

#include "kernels/kernels.h"

void qsa_attend_other_order_fma(const qsa_attend_args *args) {
    int32_t turned[QSA_CHUNK];
    for (int32_t first = 0; first < args->count; first += QSA_CHUNK) {
        qsa_attend_args chunk = *args;
        chunk.count = args->count - first < QSA_CHUNK ? args->count - first : QSA_CHUNK;
        for (int32_t i = 0; i < chunk.count; i++)
            turned[i] = args->cells[first + chunk.count - 1 - i];
        chunk.cells = turned;
        chunk.records = args->records + first / QSA_CHUNK * args->chunk_stride;
        qsa_attend_fma(&chunk);
    }
}
