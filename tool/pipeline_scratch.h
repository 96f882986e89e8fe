// SPDX-License-Identifier: Apache-2.0
//
// Buffers of the pipeline's calls, and the order in which tokens are appended: sequences are mixed token by token, up
// to PIPELINE_MIX of them at once, so that few blocks of projected tokens are in use at any time.

#ifndef QSA_TOOL_PIPELINE_SCRATCH_H
#define QSA_TOOL_PIPELINE_SCRATCH_H

#include "pipeline.h"

#define PIPELINE_MIX 8

struct pipeline_scratch {
    int32_t *order;       // [tokens] numbers of the visible tokens as they are appended
    int32_t *row_of;      // [T] row of a token, -1: it does not attend
    uint8_t *block_has_q; // [B * T / 512] a token of the projected block attends
    int32_t chunk;        // rows of a batch
    int32_t step;         // attending rows of a stage call
    // A batch
    int32_t *sequences, *positions, *cells, *attending;
    uint8_t *attend;
    float *raw_q, *raw_k, *raw_v, *raw_index;
    float *q, *index_q, *k, *v;
    // A step
    int64_t *slot;
    int32_t *step_sequences, *step_cells, *chunks;
    float *step_q, *step_index_q, *gate, *scores, *records, *attn, *gated;
    int64_t score_stride, record_stride;
    qsa_selection selection;
    void *workspace;
};

// Sized for the options. On failure pipeline_scratch_destroy frees what there is.
bool pipeline_scratch_create(pipeline *run, tool_error *error);
void pipeline_scratch_destroy(pipeline *run);

#endif
