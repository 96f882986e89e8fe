// SPDX-License-Identifier: Apache-2.0
//
// What a model says about itself: the geometry of its QSA layers, and which layers those are. From a checkpoint's
// config.json or from the metadata of a GGUF file; what this library cannot compute or this tool cannot read is refused by
// the key's name.

#ifndef QSA_TOOL_MODEL_CONFIG_H
#define QSA_TOOL_MODEL_CONFIG_H

#include "common.h"
#include "io/gguf_set.h"

enum {
    MODEL_MAX_LAYERS = 4096,
    MODEL_MAX_CONFIG = 1 << 20, // bytes of a config.json: the official one has some 5,000
};

typedef struct model_config {
    qsa_geometry geometry;
    int32_t hidden; // size of a token's hidden state
    int32_t layers; // of all kinds
    uint8_t *qsa;   // [layers], 1: a QSA layer
    bool fp8;       // quantization_config says fp8 with blocks of 128 x 128
    char dtype[32]; // config.json's own word ("bfloat16"), or empty
} model_config;

// Reads the text of a config.json. On failure nothing is left allocated.
bool model_config_read(const char *text, size_t size, model_config *config, tool_error *error);

// The same from GGUF metadata.
bool model_config_of_gguf(const gguf_set *set, model_config *config, tool_error *error);

void model_config_free(model_config *config);

// How many layers are QSA layers.
int32_t model_config_qsa_layers(const model_config *config);

// "3, 7, 11", cut with "..." where there are too many; "none". By value.
typedef struct model_layers {
    char text[256];
} model_layers;
model_layers model_config_layers(const model_config *config);

// The layer exists and is a QSA layer, or a line that says which are.
bool model_config_check_layer(const model_config *config, int32_t layer, tool_error *error);

#endif
