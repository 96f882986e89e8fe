// SPDX-License-Identifier: Apache-2.0
//
// A model on disk: a checkpoint's folder (config.json and safetensors under their official names) or a GGUF file. Files
// are memory-mapped; of the weights only those of the one layer that is asked for are looked at.

#ifndef QSA_TOOL_MODEL_H
#define QSA_TOOL_MODEL_H

#include "io/st_set.h"
#include "layer_file.h"
#include "model_config.h"

typedef struct model {
    const char *path; // as given
    model_config config;
    char *text;      // the geometry as JSON, as layer files hold it
    st_set *set;     // a checkpoint's files, or NULL
    gguf_set *parts; // a GGUF model's, or NULL
} model;

// Opens a folder, or the (first) GGUF file. `path` is borrowed. On failure nothing is left open.
bool model_open(model *from, const char *path, bool gguf, tool_error *error);
void model_close(model *from);

// Fills the weights of a layer file whose geometry and hidden size are the model's. A layer that is no QSA layer, a tensor
// that is missing, of a type that is not read or of another shape is refused by name.
bool model_open_layer(const model *from, int32_t layer, layer_file *file, tool_error *error);

// Whether writing to the path would replace a file of the model: one of its folder that it is read from, or may be (any
// GGUF file beside the one given).
bool model_owns(const model *from, const char *path);

#endif
