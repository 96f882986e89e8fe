// SPDX-License-Identifier: Apache-2.0
//
// The index of a sharded checkpoint, model.safetensors.index.json: which file holds which tensor.
//
// The object `weight_map` is walked string by string (the rest is only skipped), so that memory stays in proportion to
// the file whatever it holds. A file's name must be a plain one: no folder, no "..", nothing that leads out of the
// checkpoint's folder. Two entries of one tensor are refused.
#ifndef QSA_IO_ST_INDEX_H
#define QSA_IO_ST_INDEX_H

#include "io/io_util.h"

typedef struct st_index st_index;

// Reads `size` bytes of JSON; nothing is borrowed. NULL and a line on failure.
st_index *st_index_parse(const char *text, size_t size, io_error err);

// NULL is allowed.
void st_index_free(st_index *index);

// The name of the file that holds the tensor, NULL when there is none.
const char *st_index_find(const st_index *index, const char *tensor);

// Entries, sorted by tensor.
size_t st_index_count(const st_index *index);
const char *st_index_tensor(const st_index *index, size_t i);
const char *st_index_file(const st_index *index, size_t i);

#endif
