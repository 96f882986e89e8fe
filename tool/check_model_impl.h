// SPDX-License-Identifier: Apache-2.0
//
// Inside of the model: what its files share. check_model.c owns the memory; check_vectors.c norms, rotates and
// pools; check_select.c scores and selects; check_round.c rounds to cache formats; check_units.c puts tensors together.

#ifndef QSA_TOOL_CHECK_MODEL_IMPL_H
#define QSA_TOOL_CHECK_MODEL_IMPL_H

#include "check_model.h"

typedef struct check_ranked {
    double score;
    int32_t block;
} check_ranked;

struct check_model {
    pipeline *run;
    const layer_file *file;
    const uint8_t *selected;
    check_variant variant;
    // Raw rows, float32: of all tokens, and of the slots.
    float *raw_k, *raw_v, *raw_index_k;
    float *raw_q, *raw_index_q;
    float *bias[LAYER_WEIGHTS]; // or NULL
    // Block keys of one sequence under the variant; -1: none yet.
    int32_t keys_of;
    double *keys;                    // [T / ratio][ID]
    double *frequency[CHECK_PLACES]; // [max(D, ID) / 2] under the variant
    double *q, *k, *v, *pooled;      // one unit each
    double *scores, *logits;         // [T / ratio], [T]
    check_ranked *order;             // [T / ratio]
    double *attn;                    // [H][D]
    uint8_t *tokens;                 // [T]
    float *gated;                    // [H][D]
    float *out;                      // [hidden]
};

// Fills `frequency` for the variant.
void check_frequencies(check_model *model);

// Dim of a vector of the place.
int32_t check_dim(const check_model *model, check_place place);

// Norms and rotates x in place. `cell` is the cell's number in its sequence and `token` the token b * T + t whose
// position is taken; for block keys of CHECK_POSITION_BLOCK, `cell` is the block's number.
void check_norm_vector(const check_model *model, check_place place, double *x);
void check_rotate_vector(const check_model *model, check_place place, int64_t token, int32_t cell, double *x);

// Keys of all blocks of a sequence into model->keys, unless they are there.
void check_block_keys(check_model *model, int32_t sequence);

// Token b * T + t of cell c of sequence b under the variant; cells of the sequence; cells that a slot's row sees.
int64_t check_cell_token(const check_model *model, int32_t sequence, int32_t cell);
int32_t check_cells(const check_model *model, int64_t slot);

// Rounds `rows` rows of `dim` numbers to a cache format, as docs/numerics.md defines it.
void check_round_rows(qsa_type format, int32_t rows, int32_t dim, double *x);

// Scores of a slot's row into out, from the index query in model->q: check_model_blocks of them.
void check_scores(check_model *model, int64_t slot, double *out);

#endif
