// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the CUDA backend take: all rows of a batch in one launch, where a CPU kernel takes one row. Every pointer
// is device memory. The lengths that change from step to step (cells, positions, page tables) are read on the device, so that a
// captured graph can be replayed at other lengths: nothing in these structs but `most_cells` bounds them.
//
// A launch is `int qsa_<kernel>_<where>(const qsa_cuda_<kernel>_args *args, void *stream)`, returns a cudaError_t as a number,
// neither allocates nor waits, and may be captured. The formulas and orders of the strict rows are those of the stage's own
// header beside the kernel: equal to the CPU's reference byte for byte.

#ifndef QSA_KERNELS_CUDA_ARGS_H
#define QSA_KERNELS_CUDA_ARGS_H

#include "qsa/qsa.h"

#ifdef __cplusplus
extern "C" {
#endif

// A row of a batch or row set.
typedef struct qsa_cuda_row {
    int32_t cells;    // n that the row sees, itself included; 0: it has no selected cell (output zeros, lse -inf)
    int32_t sequence; // its page table starts at tables + sequence * table_pages
    int32_t previous; // prep: the batch row that is the cell before it, -1: that cell is committed, or there is none
    int32_t attends;  // 0: stored only; its queries, scores, ids and outputs are left alone
    int32_t keeps;    // prep: 1: its raw index key is one of the last `keep` of its sequence, and is stored
    int32_t positions[3];
} qsa_cuda_row;

// One layer of a cache. Cell c of a sequence lies in page p = table[c / page_cells]; its row for KV head g is
// (p * kv_heads + g) * page_cells + c % page_cells in k, v and the scales. Block b (cells b * ratio ...) lies in page
// table[b / page_blocks], and is row p * page_blocks + b % page_blocks of block_keys, page_blocks = page_cells / ratio.
typedef struct qsa_cuda_cache {
    qsa_geometry geometry;
    qsa_type kv_type;        // f32, f16, bf16, i8
    qsa_type block_key_type; // f32, f16, bf16
    int32_t page_cells;
    int32_t table_pages;
    const int32_t *tables; // [max_sequences][table_pages]
    void *k, *v;           // [pages][kv_heads][page_cells][head_dim]
    uint16_t *k_scales;    // i8: [pages][kv_heads][page_cells][ceil(head_dim / 64)] halves
    uint16_t *v_scales;
    void *block_keys; // [pages][page_blocks][index_dim]
    // Raw index keys with the positions of their cells. keep > 0: cell c of sequence s is slot s * keep + c % keep; the keys
    // of committed cells are read at raw, those of the batch are written at raw_pending. keep 0: all cells' are kept, slot
    // table[c / page_cells] * page_cells + c % page_cells, and raw_pending is raw.
    int32_t keep;
    float *raw; // [slots][index_dim]
    float *raw_pending;
    int32_t *raw_positions; // [slots][3]
    int32_t *raw_positions_pending;
    unsigned long long *events; // [3] nan, infinite, saturated: added to
} qsa_cuda_cache;

// prep: everything qsa_prep does for a batch, in one launch: norm and RoPE of the queries of attending rows, key and value into
// the cache, the raw index key kept, the block key of each row whose cells are a multiple of ratio.
typedef struct qsa_cuda_prep_args {
    qsa_cuda_cache cache;
    const qsa_cuda_row *rows;
    int32_t count;
    qsa_rows q, k, v, index_q, index_k; // raw projections, by row of the batch
    const float *q_factor, *k_factor, *iq_factor, *ik_factor;
    const float *inv_freq; // [rotary_dim / 2]
    const uint8_t *axis;   // [rotary_dim / 2] 0 temporal, 1 height, 2 width
    float *q_out;          // [count][heads][head_dim], null: not wanted
    float *index_q_out;    // [count][index_heads][index_dim], may be null
    float *k_out, *v_out;  // [count][kv_heads][head_dim] before they are stored, may be null
} qsa_cuda_prep_args;

// score: scores[i * stride + b] of the blocks b < cells / ratio of each attending row. With skip_identity rows of at most
// budget + ratio - 1 cells are left out.
typedef struct qsa_cuda_score_args {
    qsa_cuda_cache cache;
    const qsa_cuda_row *rows;
    int32_t count;
    int32_t most_cells; // no row sees more
    const float *index_q;
    float *scores;
    int64_t stride;
    int32_t skip_identity;
} qsa_cuda_score_args;

// Which blocks each row attends: qsa_selection on the device. cut_index and cut_cells may be null (no block is cut).
typedef struct qsa_cuda_selection {
    int32_t *ids; // [count][stride]
    int64_t stride;
    int32_t *counts;    // [count]
    int32_t *cut_index; // [count]
    int32_t *cut_cells; // [count]
} qsa_cuda_selection;

// topk: the ids of each attending row. Rows of at most budget + ratio - 1 cells get 0 .. cells / ratio - 1 with `identity`,
// else their count alone; their scores are not read.
typedef struct qsa_cuda_topk_args {
    qsa_geometry geometry;
    const qsa_cuda_row *rows;
    int32_t count;
    int32_t most_cells;
    qsa_rule rule;
    const float *scores;
    int64_t stride;
    qsa_cuda_selection selection;
    int32_t identity;
} qsa_cuda_topk_args;

// choose: score and topk in one, for the fast class; scratch of qsa_choose_<where>_scratch(cache, count, most_cells) bytes.
typedef struct qsa_cuda_choose_args {
    qsa_cuda_cache cache;
    const qsa_cuda_row *rows;
    int32_t count;
    int32_t most_cells;
    const float *index_q;
    qsa_rule rule;
    qsa_cuda_selection selection;
    int32_t identity;
    void *scratch; // aligned to 256
    size_t scratch_bytes;
} qsa_cuda_choose_args;

// attend: records (docs/numerics.md) of rows first .. first + count - 1 over their selected cells; row i's at
// records + (i - first) * row_stride, chunk c of it c * heads * (2 + head_dim) floats further. Ids of rows of at most
// budget + ratio - 1 cells are not read. Ids of blocks that the row does not have are ignored, never followed.
typedef struct qsa_cuda_attend_args {
    qsa_cuda_cache cache;
    const qsa_cuda_row *rows;
    int32_t first, count;
    const float *q; // [rows][heads][head_dim], by row of the batch
    qsa_cuda_selection selection;
    float *records;
    int64_t row_stride; // floats
    int32_t *chunks;    // [count] records written, may be null
} qsa_cuda_attend_args;

// merge: the outputs of rows first .. first + count - 1 from their records, times sigmoid(gate) if gate.data is not null.
// The number of a row's records follows from its cells and selection, or is chunks[i - first] if that is not null.
typedef struct qsa_cuda_merge_args {
    qsa_geometry geometry;
    const qsa_cuda_row *rows;
    int32_t first, count;
    qsa_cuda_selection selection;
    const float *records;
    int64_t row_stride;
    const int32_t *chunks;
    qsa_rows gate;
    qsa_rows_out out;
    float *lse; // [rows][heads] by row of the batch, may be null
} qsa_cuda_merge_args;

// gate: out = x * sigmoid(gate) of count rows.
typedef struct qsa_cuda_gate_args {
    qsa_geometry geometry;
    int32_t count;
    qsa_rows x, gate;
    qsa_rows_out out;
} qsa_cuda_gate_args;

// attention: attend and merge in one, for the fast class; scratch of qsa_attention_<where>_scratch(cache, count) bytes.
typedef struct qsa_cuda_attention_args {
    qsa_cuda_cache cache;
    const qsa_cuda_row *rows;
    int32_t count;
    int32_t most_cells;
    const float *q; // [count][heads][head_dim]
    qsa_cuda_selection selection;
    qsa_rows gate; // data null: none
    qsa_rows_out out;
    float *lse;    // [count][heads], may be null
    void *scratch; // aligned to 256
    size_t scratch_bytes;
} qsa_cuda_attention_args;

// commit: raw index keys of newly committed cells move from raw_pending to raw, in every layer (keep > 0).
typedef struct qsa_cuda_commit_args {
    int32_t index_dim, keep, layers;
    float *raw, *raw_pending; // of layer 0
    int32_t *raw_positions, *raw_positions_pending;
    int64_t layer_slots;  // slots from one layer's raw to the next's
    const int32_t *spans; // [count][3]: sequence, first cell, cells (at most keep)
    int32_t count;
} qsa_cuda_commit_args;

#ifdef __cplusplus
}
#endif

#endif
