// SPDX-License-Identifier: Apache-2.0
//
// `qsa info --checkpoint DIR` and `--gguf FILE`: what a model on disk is, and what its caches would take.

#ifndef QSA_TOOL_INFO_MODEL_H
#define QSA_TOOL_INFO_MODEL_H

#include <stdbool.h>

// Prints geometry, which layers are QSA layers, the types of the first one's weights, and the memory of a cache for all of
// them by context length and format. The exit code.
int info_model(const char *path, bool gguf, bool json);

#endif
