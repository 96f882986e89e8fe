// SPDX-License-Identifier: Apache-2.0
//
// What the reader, the header's parser and the writer of safetensors share. Not for other modules.
#ifndef QSA_IO_SAFETENSORS_INTERNAL_H
#define QSA_IO_SAFETENSORS_INTERNAL_H

#include "io/file_map.h"
#include "io/io_util.h"
#include "io/safetensors.h"

#define ST_MAX_HEADER   100000000u // the official reader's limit
#define ST_METADATA_KEY "__metadata__"

typedef struct {
    st_tensor tensor;
    int64_t begin, end; // data_offsets
} st_entry;

typedef struct {
    const char *key, *value;
} st_pair;

struct st_file {
    io_map map; // of no bytes when the file came from memory
    const unsigned char *data;
    size_t data_size;
    char *strings; // holds every name, key and value: as many bytes as the header
    st_entry *entries;
    size_t n_entries, entries_capacity;
    st_pair *pairs;
    size_t n_pairs, pairs_capacity;
};

// Parses `size` bytes of JSON into file->strings, ->entries (without data pointers) and ->pairs.
// What it allocated is freed by st_close, also after a failure.
bool st_parse_header(st_file *file, const char *text, size_t size, io_error err);

// Refuses two entries of one name or two pairs of one key, and data_offsets that overlap, leave a
// hole, or end before or after the data. Sorts both arrays and sets the data pointers.
bool st_check_layout(st_file *file, io_error err);

// Product of the dimensions and its bytes. False when the bytes would be more than INT64_MAX or
// SIZE_MAX; a dimension of 0 does not hide an overflow of the others.
bool st_measure(st_dtype dtype, int n_dims, const int64_t *shape, int64_t *count, size_t *bytes);

// Refuses a name that is empty, too long, no UTF-8 or holds a control character (C0, DEL, C1).
bool st_check_name(const char *name, size_t size, io_error err);

// "[2,3]", for messages.
typedef struct {
    char text[ST_MAX_DIMS * 21 + 3];
} st_shape_text;
st_shape_text st_show_shape(int n_dims, const int64_t *shape);

#endif
