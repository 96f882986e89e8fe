// SPDX-License-Identifier: Apache-2.0
//
// Writing a GGUF file (version 3, alignment 32), as a whole: see file_replace.h. Metadata and tensors stand in the order
// in which they were added; the same calls give the same bytes. What is added is not checked against the format's rules:
// its callers write names of their own.
#ifndef QSA_IO_GGUF_WRITE_H
#define QSA_IO_GGUF_WRITE_H

#include "io/gguf.h"

typedef struct gguf_writer gguf_writer;

// NULL when memory is out. When it runs out later, the save fails.
gguf_writer *gguf_writer_new(void);
void gguf_writer_free(gguf_writer *writer);

void gguf_put_u16(gguf_writer *writer, const char *key, uint16_t value);
void gguf_put_u32(gguf_writer *writer, const char *key, uint32_t value);
void gguf_put_i32(gguf_writer *writer, const char *key, int32_t value);
void gguf_put_f32(gguf_writer *writer, const char *key, float value);
void gguf_put_string(gguf_writer *writer, const char *key, const char *value);
void gguf_put_i32_array(gguf_writer *writer, const char *key, const int32_t *values, size_t count);

// Shape outermost first. The data (as the type stores it) is borrowed until the save.
void gguf_put_tensor(gguf_writer *writer, const char *name, uint32_t type, int n_dims, const int64_t *shape,
                     const void *data);

bool gguf_writer_save(gguf_writer *writer, const char *path, io_error err);

#endif
