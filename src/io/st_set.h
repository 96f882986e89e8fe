// SPDX-License-Identifier: Apache-2.0
//
// The safetensors files of a checkpoint's folder as one: model.safetensors.index.json and the files that it names, or
// model.safetensors alone. A file is opened (memory-mapped) when a tensor of it is first asked for.
#ifndef QSA_IO_ST_SET_H
#define QSA_IO_ST_SET_H

#include "io/safetensors.h"
#include "io/st_index.h"

typedef struct st_set st_set;

// NULL and a line that names the file on failure.
st_set *st_set_open(const char *folder, io_error err);

// NULL is allowed. Every tensor is gone.
void st_set_close(st_set *set);

// Finds a tensor. False and a line when its file cannot be read or does not hold what the index says; true and *tensor
// NULL when the checkpoint has none of the name.
bool st_set_find(st_set *set, const char *name, const st_tensor **tensor, io_error err);

// Whether a name is that of a file of the set: the index, a file that it names, or model.safetensors.
bool st_set_names(const st_set *set, const char *name);

#endif
