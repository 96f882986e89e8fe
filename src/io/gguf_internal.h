// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the GGUF reader share. Not for other modules.
#ifndef QSA_IO_GGUF_INTERNAL_H
#define QSA_IO_GGUF_INTERNAL_H

#include "io/file_map.h"
#include "io/gguf.h"

#include <string.h>

#define GGUF_ALIGNMENT 32 // where general.alignment does not say another

struct gguf_file {
    io_map map; // of no bytes when the file came from memory
    gguf_value *values;
    size_t n_values, values_capacity;
    gguf_tensor *tensors;
    size_t n_tensors, tensors_capacity;
};

// Bytes of one element; 0 for strings, arrays and what is no type.
size_t gguf_value_size(gguf_value_type type);

static inline uint32_t gguf_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t gguf_u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
