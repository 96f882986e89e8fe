// SPDX-License-Identifier: Apache-2.0
//
// score[b] = (sum over index heads, in order, of relu(iq_h . key_b)) / sqrt(ID), an IEEE division: selection orders the
// quotients, and the division makes some neighbours equal.

#include "kernels/kernels.h"
#include "num/load.h"

#include <assert.h>

void qsa_score_ref(const qsa_score_args *args) {
    assert(args->dim >= 1 && args->dim <= QSA_MAX_HEAD_DIM && args->first <= args->end);
    float key[QSA_MAX_HEAD_DIM];
    const unsigned char *keys = args->block_keys;
    const size_t key_bytes = (size_t)args->dim * qsa_type_size(args->format);
    for (int32_t b = args->first; b < args->end; b++) {
        const int32_t block = args->blocks ? args->blocks[b] : b;
        size_t page = (size_t)args->page_table[block / args->page_blocks];
        size_t row = page * (size_t)args->page_blocks + (size_t)(block % args->page_blocks);
        qsa_load_row(key, keys + row * key_bytes, args->format, args->dim);
        float sum = 0.0f;
        for (int32_t h = 0; h < args->heads; h++)
            sum = sum + qsa_relu(qsa_dot(args->index_q + (int64_t)h * args->dim, key, args->dim));
        args->scores[b - args->first] = qsa_canonical(sum / args->divisor);
    }
}
