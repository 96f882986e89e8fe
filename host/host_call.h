// SPDX-License-Identifier: Apache-2.0
//
// The calls of qsa.h with host memory, whatever the context's backend: on a GPU every array is copied there before the call and
// back after it. For comparing backends and for tools; an engine keeps its rows on the device. Arguments, results and errors
// are the call's own; workspaces are not passed, each call makes its own.

#ifndef QSA_HOST_HOST_CALL_H
#define QSA_HOST_HOST_CALL_H

#include "qsa/qsa.h"

// `geometry` is the cache's. With options->use on a GPU options->give is left alone.
qsa_status host_forward(qsa_context *context, const qsa_geometry *geometry, const qsa_layer *layer, qsa_cache *cache,
                        int32_t layer_index, const qsa_batch *batch, const qsa_forward_options *options,
                        const qsa_rows_out *out);
qsa_status host_prep(qsa_context *context, const qsa_geometry *geometry, const qsa_layer *layer, qsa_cache *cache,
                     int32_t layer_index, const qsa_batch *batch, const qsa_prep_out *out);
qsa_status host_score(qsa_context *context, const qsa_geometry *geometry, const qsa_cache *cache, int32_t layer_index,
                      const qsa_row_set *rows, const float *index_q, float *scores, int64_t stride);
qsa_status host_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                     const int32_t *cells, const float *scores, int64_t stride, qsa_selection *selection);
qsa_status host_attend(qsa_context *context, const qsa_geometry *geometry, const qsa_cache *cache, int32_t layer_index,
                       const qsa_row_set *rows, const float *q, const qsa_selection *selection, float *records,
                       int64_t row_stride, int32_t *chunks);
qsa_status host_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                      int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                      float *lse);
qsa_status host_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                     const qsa_rows *gate, const qsa_rows_out *out);

// The fast kernel of a device for attention, merge and gate in one: as the stages one after the other, without what lies between.
// QSA_ERR_UNSUPPORTED where host_has_fast says no.
qsa_status host_attention(qsa_context *context, const qsa_geometry *geometry, const qsa_cache *cache,
                          int32_t layer_index, const qsa_row_set *rows, const float *q, const qsa_selection *selection,
                          const qsa_rows *gate, const qsa_rows_out *out);
// 1 if the context is of class fast and its device has a fast attention for this cache.
int host_has_fast(const qsa_context *context, const qsa_cache *cache);

// 1 if the context's rows live on a device.
int host_is_device(const qsa_context *context);

#endif
