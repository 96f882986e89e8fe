// SPDX-License-Identifier: Apache-2.0
//
// The metadata key `config` of a layer file: JSON as in a checkpoint's config.json, turned into a geometry. What this
// library cannot compute (another RoPE, more index key heads) is refused, not ignored.

#ifndef QSA_TOOL_LAYER_CONFIG_H
#define QSA_TOOL_LAYER_CONFIG_H

#include "common.h"

// Reads the text. *hidden_size is 0 when the config does not say it.
bool layer_config_read(const char *text, qsa_geometry *geometry, int32_t *hidden_size, tool_error *error);

#endif
