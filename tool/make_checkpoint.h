// SPDX-License-Identifier: Apache-2.0
//
// Writes the folder of a made-up model: the self_attn tensors of its QSA layers under the names of their format, an input
// for one of them (hidden.safetensors), and what a reader opens first, last: config.json, or the first GGUF file. So a
// folder that was not finished is none that `qsa run` takes.

#ifndef QSA_TOOL_MAKE_CHECKPOINT_H
#define QSA_TOOL_MAKE_CHECKPOINT_H

#include "make_tensors.h"

typedef struct make_result {
    int files;         // with weights
    char first[64];    // name of the file to give to --gguf; empty for a checkpoint
    int32_t qsa_layer; // the first
    int32_t tokens;    // of the input
} make_result;

// The folder must not exist (it is made), or be empty. When writing fails, what was written is removed again.
bool make_checkpoint(const make_plan *plan, const char *folder, make_result *result, tool_error *error);

// config.json of the plan, as text that the caller frees; NULL and a line.
char *make_config(const make_plan *plan, tool_error *error);

#endif
