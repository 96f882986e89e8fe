// SPDX-License-Identifier: Apache-2.0
//
// The weights of a layer, from wherever they lie: looked up by their names below the layer ("self_attn.q_proj.weight"),
// checked for type and shape, norms converted. Matrices stay in their file's form until layer_matrix_load.

#ifndef QSA_TOOL_LAYER_WEIGHTS_H
#define QSA_TOOL_LAYER_WEIGHTS_H

#include "layer_file.h"

// Where tensors are found, a struct that begins with this.
typedef struct layer_source {
    // Sets parts and part of *matrix; parts 0 when there is no such tensor. False and a line when that is not allowed
    // (`required`) or the tensor's file cannot be read.
    bool (*find)(const struct layer_source *source, const char *name, bool required, layer_matrix *matrix,
                 tool_error *error);
    unsigned encodings; // stored_encoding of matrices and biases, or-ed
    const char *types;  // the same for a message: "F32, F16 or BF16"
    qsa_norm_form norm_form;
} layer_source;

// Fills weight, bias, norm and norm_form of a file whose geometry and hidden size are known.
bool layer_weights_open(layer_file *file, const layer_source *source, tool_error *error);

#endif
