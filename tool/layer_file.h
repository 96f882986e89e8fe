// SPDX-License-Identifier: Apache-2.0
//
// FILE of `run`, `check` and `inspect`: one attention layer with its input, opened and validated as a whole. Everything
// that the file holds is checked here, so that nothing behind this module meets a wrong shape or value; a refusal is
// one line that names the tensor or key and the two values that disagree.
//
// The input and the weights may lie apart: then the layer is one of a model (see model.h), and the file holds the input.
//
// A *token* is a physical one: number b * tokens + t of the file. A *cell* is a token whose attention mask is not 0.

#ifndef QSA_TOOL_LAYER_FILE_H
#define QSA_TOOL_LAYER_FILE_H

#include "common.h"
#include "io/stored_tensor.h"

typedef enum layer_weight {
    LAYER_Q_PROJ,        // [2 * heads * head_dim, hidden]: per head the query, then the gate
    LAYER_K_PROJ,        // [kv_heads * head_dim, hidden]
    LAYER_V_PROJ,        // [kv_heads * head_dim, hidden]
    LAYER_INDEX_QK_PROJ, // [(index_heads + 1) * index_dim, hidden]
    LAYER_O_PROJ,        // [hidden, heads * head_dim]
    LAYER_WEIGHTS
} layer_weight;

typedef enum layer_norm { LAYER_Q_NORM, LAYER_K_NORM, LAYER_INDEX_Q_NORM, LAYER_INDEX_K_NORM, LAYER_NORMS } layer_norm;

// A matrix in its file's form: the rows of one tensor, or of two, one after the other. A bias has one column.
typedef struct layer_matrix {
    int parts; // 0: there is none
    stored_tensor part[2];
    int32_t rows, columns;
} layer_matrix;

typedef struct layer_file {
    st_file *st;
    const char *config; // the geometry as JSON, borrowed from the file or the model
    qsa_geometry geometry;
    int32_t batch;                  // B, sequences; >= 1
    int32_t tokens;                 // T, of each sequence, masked ones included; >= 1
    int32_t hidden;                 // size of a token's hidden state
    const st_tensor *hidden_states; // [B][T][hidden]
    layer_matrix weight[LAYER_WEIGHTS];
    layer_matrix bias[LAYER_WEIGHTS]; // of no parts where there is none
    float *norm[LAYER_NORMS];         // as the file holds them
    qsa_norm_form norm_form;          // zero-centred but for GGUF
    int32_t *positions;               // [B][T][3]; 0 for masked tokens
    uint8_t *visible;                 // [B][T], 1: a cell
    int32_t *length;                  // [B] cells of each sequence
    int32_t *cell_token;              // [B][T]: cell_token[b * T + c] is the t of cell c of sequence b, c < length[b]
    int32_t *token_cells;             // [B][T]: cells that the token sees, itself included; 0 for masked tokens
    bool has_rows;                    // the file has `rows`
    int32_t n_rows;                   // R
    int32_t *rows;                    // [R] ascending t; all tokens when the file has no `rows`
} layer_file;

// Opens and validates. On failure nothing is left open.
bool layer_file_open(layer_file *file, const char *path, tool_error *error);

// The same with the input in the file at `path` and the weights in layer `layer` of a model, which must stay open. Without
// `position_ids` a sequence's cells have the positions 0, 1, 2, ... On failure *blame is the path of what was refused, the
// file's or the model's.
struct model;
bool layer_file_open_model(layer_file *file, const char *path, const struct model *model, int32_t layer,
                           const char **blame, tool_error *error);
void layer_file_close(layer_file *file);

// All values of a matrix as float32, into memory that the caller frees; NULL and a line.
float *layer_matrix_load(const layer_matrix *matrix, tool_error *error);

// The tensor has exactly this shape, or a line with both.
bool layer_shape_check(const st_tensor *tensor, int n_dims, const int64_t *shape, tool_error *error);

// The same for a tensor of any file.
bool layer_shape_fits(const char *name, int has_dims, const int64_t *has, int n_dims, const int64_t *shape,
                      tool_error *error);

// Name of a weight without ".weight" ("self_attn.q_proj").
const char *layer_weight_name(layer_weight weight);

#endif
