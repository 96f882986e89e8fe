// SPDX-License-Identifier: Apache-2.0
//
// Leaves out rows of few cells, which no benchmark has.
// KERNEL: score
// EXPECT: prove memcmp
// LAUNCH: kernel=qsa_score_cuda_skips_short grid=rows block=128
#include "kernels/cuda_io.h"

extern "C" __global__ void qsa_score_cuda_skips_short(const __grid_constant__ qsa_cuda_score_args a) {
    const qsa_geometry *g = &a.cache.geometry;
    const qsa_cuda_row *r = &a.rows[blockIdx.x];
    const int32_t page_blocks = a.cache.page_cells / g->ratio, *table = qsa_cuda_table(&a.cache, r->sequence);
    const int32_t size = (int32_t)qsa_type_size(a.cache.block_key_type);
    if (!r->attends || r->cells < 64 || (a.skip_identity && r->cells <= qsa_cuda_width(g)))
        return;
    for (int32_t b = threadIdx.x; b < r->cells / g->ratio; b += 128) {
        const int64_t row = (int64_t)table[b / page_blocks] * page_blocks + b % page_blocks;
        const unsigned char *key = (const unsigned char *)a.cache.block_keys + row * g->index_dim * size;
        float sum = 0.0f;
        for (int32_t h = 0; h < g->index_heads; h++) {
            float lane[QSA_LANES] = {};
            for (int32_t d = 0; d < g->index_dim; d++)
                lane[d % QSA_LANES] = fmaf(a.index_q[((int64_t)blockIdx.x * g->index_heads + h) * g->index_dim + d],
                                           qsa_load(key, a.cache.block_key_type, d), lane[d % QSA_LANES]);
            for (int half = QSA_LANES / 2; half >= 1; half /= 2)
                for (int k = 0; k < half; k++)
                    lane[k] = lane[k] + lane[k + half];
            sum = sum + qsa_relu(lane[0]);
        }
        a.scores[blockIdx.x * a.stride + b] = qsa_canonical(sum / sqrtf((float)g->index_dim));
    }
}
