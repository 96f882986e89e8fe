// SPDX-License-Identifier: Apache-2.0
//
// The metadata key `config` of a layer file: JSON as in a checkpoint's config.json, turned into a geometry. What this
// library cannot compute (another RoPE, more index key heads) is refused, not ignored.

#ifndef QSA_TOOL_LAYER_CONFIG_H
#define QSA_TOOL_LAYER_CONFIG_H

#include "common.h"

struct json_t;

// Reads the text. *hidden_size is 0 when the config does not say it.
bool layer_config_read(const char *text, qsa_geometry *geometry, int32_t *hidden_size, tool_error *error);

// The same from an object that was parsed already: that of a checkpoint's config.json that describes the text model.
bool layer_config_geometry(const struct json_t *config, qsa_geometry *geometry, int32_t *hidden_size,
                           tool_error *error);

// An object that layer_config_read turns into this geometry again, also from text with 15 digits
// (LAYER_CONFIG_DUMP). NULL when memory is out.
#define LAYER_CONFIG_DUMP JSON_REAL_PRECISION(15)
struct json_t *layer_config_make(const qsa_geometry *geometry, int32_t hidden_size);

// A value in few characters, for a message; "missing" for NULL. By value.
typedef struct layer_config_shown {
    char text[48];
} layer_config_shown;
layer_config_shown layer_config_show(const struct json_t *value);

#endif
