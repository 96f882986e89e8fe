// SPDX-License-Identifier: Apache-2.0
//
// Bounds of block sums from integer dots, which are exact, so that every instruction set gives the same bits.

#include "kernels/kernels.h"

#include <assert.h>

void qsa_screen_ref(const qsa_screen_args *args) {
    assert(args->heads % QSA_SCREEN_HEADS == 0 && args->stride % QSA_SCREEN_LANES == 0 && args->first <= args->end);
    const float *bound = args->bound;
    for (int32_t b = args->first; b < args->end; b++) {
        const size_t page = (size_t)args->page_table[b / args->page_blocks];
        const size_t row = page * (size_t)args->page_blocks + (size_t)(b % args->page_blocks);
        const int8_t *key = args->keys + row * (size_t)args->stride;
        float sum = 0.0f;
        for (int32_t h = 0; h < args->heads; h++) {
            const int16_t *query = args->codes + (int64_t)h * args->stride;
            int32_t dot = 0;
            for (int32_t d = 0; d < args->stride; d++)
                dot += query[d] * key[d];
            const float product = (float)dot * args->scales[h];
            sum = sum + (product > 0.0f ? product : 0.0f);
        }
        const float about = sum * args->key_scales[row];
        const float error = (bound[0] * args->residuals[row] + bound[1] * args->key_scales[row]) + bound[2];
        args->lower[b - args->first] = about - error;
        args->upper[b - args->first] = about + error;
    }
}
