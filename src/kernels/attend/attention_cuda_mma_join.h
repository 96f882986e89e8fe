// SPDX-License-Identifier: Apache-2.0
//
// Joins the records that CTAs of attention_cuda_mma_wide_kernel.h leave, a thread per dim of a head: of tiles to segments to the
// row (TILES), or of segments to the row, by the formulas and in the order of a CTA that walks the row.

#ifndef QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_JOIN_H
#define QSA_KERNELS_ATTEND_ATTENTION_CUDA_MMA_JOIN_H

#include "kernels/attend/attention_cuda_mma_wide.h"

// THREADS dims of a head a CTA.
template <bool TILES, int THREADS>
QSA_KERNEL(THREADS, 512 / THREADS)
qsa_join_wide(const QSA_GRID_CONSTANT qsa_cuda_attention_args a, const int32_t *served, const float *records,
              int32_t most) {
    // Records on their way together: four segments of nine tiles are a row of the budget 2,048.
    constexpr int together = TILES ? 36 / QSA_SEGMENT * QSA_SEGMENT : 4;
    constexpr int slices = QSA_DIM / THREADS;
    const int32_t all = a.cache.geometry.heads, kv_heads = a.cache.geometry.kv_heads, heads = all / kv_heads;
    const int32_t r = blockIdx.x / (all * slices), head = blockIdx.x / slices % all,
                  dim = blockIdx.x % slices * THREADS + threadIdx.x, item = r * kv_heads + head / heads;
    if (most == 0)
        qsa_wait_dependency();
    // Else the batch is complete before a kernel that leaves records lets this one start; the records are not.
    const qsa_work work = qsa_work_of(a, r);
    const bool wanted = a.rows[r].attends && !(served && served[item]);
    float gate = 0.0f;
    qsa_load_gate<1>(&gate, a, r, head, dim);
    qsa_wait_dependency();
    qsa_trigger_dependents();
    if (!wanted)
        return;
    const int32_t n = TILES ? work.tiles : (work.tiles + QSA_SEGMENT - 1) / QSA_SEGMENT;
    const float *record = records + (int64_t)item * most * QSA_RECORD_FLOATS;
    float m = -qsa_infinity(), l = 0.0f, o = 0.0f, segment_m = m, segment_l = 0.0f, segment_o = 0.0f;
    for (int32_t first = 0; first < n; first += together) {
        float x[together];
        float2 ml[together];
#pragma unroll
        for (int k = 0; k < together; k++) {
            const float *from = record + (int64_t)min(first + k, n - 1) * QSA_RECORD_FLOATS;
            ml[k] = ((const float2 *)from)[head % heads];
            x[k] = from[32 + head % heads * QSA_DIM + dim];
        }
#pragma unroll
        for (int k = 0; k < together; k++) {
            if (first + k >= n)
                break;
            float old_factor, new_factor;
            if (TILES) {
                qsa_join(&segment_m, ml[k].x, &old_factor, &new_factor);
                qsa_wide_join(&segment_l, ml[k].y, old_factor, new_factor);
                qsa_wide_join(&segment_o, x[k], old_factor, new_factor);
                if (k % QSA_SEGMENT != QSA_SEGMENT - 1 && first + k + 1 < n)
                    continue;
            } else {
                segment_m = ml[k].x, segment_l = ml[k].y, segment_o = x[k];
            }
            qsa_join(&m, segment_m, &old_factor, &new_factor);
            qsa_wide_join(&l, segment_l, old_factor, new_factor);
            qsa_wide_join(&o, segment_o, old_factor, new_factor);
            segment_m = -qsa_infinity(), segment_l = 0.0f, segment_o = 0.0f;
        }
    }
    qsa_finish<1>(a, r, head, dim, &o, l, &gate);
    if (a.lse && dim == 0)
        a.lse[(int64_t)r * all + head] = qsa_lse(m, l);
}

#endif
