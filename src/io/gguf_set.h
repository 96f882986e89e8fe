// SPDX-License-Identifier: Apache-2.0
//
// A GGUF model of one file, or split into files NAME-00001-of-00004.gguf and on (metadata split.no, split.count and
// split.tensors.count), as one. The first file is the one that holds the model's metadata; it is the one to be given.
#ifndef QSA_IO_GGUF_SET_H
#define QSA_IO_GGUF_SET_H

#include "io/gguf.h"

#define GGUF_MAX_PARTS 9999

typedef struct gguf_set gguf_set;

// Opens all files. NULL and a line on failure: which part is missing or is none, two parts with a tensor of one name, or
// another number of tensors than the model says.
gguf_set *gguf_set_open(const char *path, io_error err);

// A whole model in memory, borrowed until it is closed; its split.* keys are not looked at.
gguf_set *gguf_set_open_memory(const void *bytes, size_t size, io_error err);

// NULL is allowed.
void gguf_set_close(gguf_set *set);

// Metadata of the first file.
const gguf_value *gguf_set_key(const gguf_set *set, const char *key);

const gguf_tensor *gguf_set_find(const gguf_set *set, const char *name);

#endif
