// SPDX-License-Identifier: Apache-2.0
//
// A context's device, and what calls on it share: the plan that tells every row its cell, on the device, and copies between
// host and device in the order of a stream. NULL everywhere a context or cache is of the CPU.

#ifndef QSA_API_DEVICE_H
#define QSA_API_DEVICE_H

#include "api/forward.h"

struct qsa_device {
    const qsa_device_ops *ops;
    void *handle;
    int32_t number;
    void *stream;
    qsa_cuda_row *plan;  // on the device, [QSA_DEVICE_ROWS]: the rows of the call in flight
    qsa_cuda_row *known; // [QSA_DEVICE_ROWS] what is there, so that a batch goes over once and not with every layer
    int32_t known_rows;
    int32_t *numbers;                // [3 * QSA_DEVICE_ROWS] host scratch of qsa_batch_plan
    int strict_score, strict_attend; // 1: forced by qsa_context_set_kernel
};

// Opens the device of a context that has been filled in otherwise.
qsa_status qsa_device_open(qsa_context *context, const qsa_context_config *config);
void qsa_device_close(qsa_context *context);

// QSA_OK for 0, else QSA_ERR_DEVICE (QSA_ERR_MEMORY when out of memory) with the device's words.
qsa_status qsa_device_check(const char *call, const qsa_device *device, int number);
// Context, layer (may be null) and cache (may be null) are of one device, or all of the CPU.
qsa_status qsa_check_devices(const char *call, const qsa_context *context, const qsa_layer *layer,
                             const qsa_cache *cache);

// The first error of a copy that could not return one; cleared.
qsa_status qsa_device_settle(const char *call, const qsa_cache *cache);

// Brings what has changed of the page tables of living sequences to the device.
qsa_status qsa_device_tables(const char *call, qsa_cache *cache, void *stream);
// Makes `count` rows the plan; `fill` writes row i.
typedef void (*qsa_device_fill)(const void *arg, int32_t i, qsa_cuda_row *row);
qsa_status qsa_device_plan(const char *call, qsa_context *context, int32_t count, qsa_device_fill fill,
                           const void *arg);
// One layer of the cache as kernels take it.
qsa_cuda_cache qsa_device_cache(const qsa_cache *cache, int32_t layer_index);
// Cells that no row of a launch sees more of: the most there are, or the most there can be while a graph is captured.
qsa_status qsa_device_most(const char *call, const qsa_context *context, const qsa_cache *cache, int32_t seen,
                           int32_t *most);

size_t qsa_device_workspace(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows);
// forward, prep and the other stages after their checks.
qsa_status qsa_device_forward(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                              const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                              void *workspace);
qsa_status qsa_device_prep(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                           const qsa_batch *batch, const qsa_prep_out *out);
qsa_status qsa_device_score(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                            const float *index_q, float *scores, int64_t stride);
qsa_status qsa_device_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                           const int32_t *cells, const float *scores, int64_t stride, const qsa_selection *selection);
qsa_status qsa_device_attend(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *q, const qsa_selection *selection, float *records, int64_t row_stride,
                             int32_t *chunks);
qsa_status qsa_device_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                            int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                            float *lse);
qsa_status qsa_device_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                           const qsa_rows *gate, const qsa_rows_out *out);
// The fast kernels alone, for measurements: score and selection, attention with gate. The workspace is forward's.
qsa_status qsa_device_choose(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *index_q, const qsa_selection *selection, void *workspace);
qsa_status qsa_device_attention(qsa_context *context, const qsa_cache *cache, int32_t layer_index,
                                const qsa_row_set *rows, const float *q, const qsa_selection *selection,
                                const qsa_rows *gate, const qsa_rows_out *out, void *workspace);
static inline unsigned char *qsa_device_align(void *workspace) {
    const uintptr_t at = (uintptr_t)workspace;
    return (unsigned char *)workspace + (256 - at % 256) % 256;
}
// Raw index keys of cells [first, first + cells) of sequences, spans[3 * i ...], from the pending bank to the committed one.
qsa_status qsa_device_commit(const char *call, const qsa_cache *cache, int32_t count);

#endif
