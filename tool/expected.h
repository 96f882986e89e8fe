// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a layer's results, as the golden files, `run --out` and the dumps of other engines hold them: looked up in
// any safetensors file, shapes checked against a layer_file, converted to float32. Refuses what does not fit.

#ifndef QSA_TOOL_EXPECTED_H
#define QSA_TOOL_EXPECTED_H

#include "layer_file.h"

typedef enum result_tensor {
    RESULT_Q,        // [B][R][heads][head_dim] after norm and RoPE
    RESULT_INDEX_Q,  // [B][R][index_heads][index_dim] after norm and RoPE
    RESULT_K,        // [B][T][kv_heads][head_dim] after norm and RoPE, before quantization
    RESULT_V,        // [B][T][kv_heads][head_dim]
    RESULT_SCORES,   // [B][R][blocks], -inf where the block is not yet complete
    RESULT_SELECTED, // [B][R][T], 1 where the row attends the token
    RESULT_ATTN,     // [B][R][heads][head_dim] before the gate
    RESULT_OUT,      // [B][R][hidden] after gate and o_proj
    RESULT_TENSORS
} result_tensor;

typedef struct expected {
    int32_t n_rows;                // R
    int32_t *rows;                 // [R] ascending t: the file's own `rows`; without it those of the layer_file
    int32_t blocks;                // last dimension of scores; 0 without scores
    float *values[RESULT_TENSORS]; // NULL where the file has no such tensor, and for RESULT_SELECTED
    uint8_t *selected;             // or NULL
} expected;

// "q", "index_q", "k", "v", "scores", "selected", "attn", "out".
const char *result_name(result_tensor tensor);

// Elements of one row of the tensor: of [B][R], of [B][T] for k and v. Not for scores, whose blocks are the file's own.
size_t result_width(const layer_file *file, result_tensor tensor);

// Loads all result tensors that `st` has (none is fine) and checks them against the layer. On failure nothing is left
// allocated.
bool expected_load(expected *tensors, const st_file *st, const layer_file *file, tool_error *error);
void expected_free(expected *tensors);

// True if any tensor is there.
bool expected_any(const expected *tensors);

// Reads `rows` (a tensor [R], R >= 1, ascending, each in 0..tokens-1) into memory that the caller frees.
bool expected_read_rows(const st_tensor *tensor, int32_t tokens, int32_t **rows, int32_t *n_rows, tool_error *error);

#endif
