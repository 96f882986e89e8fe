// SPDX-License-Identifier: Apache-2.0
//
// A regular file, memory-mapped and read-only.
#ifndef QSA_IO_FILE_MAP_H
#define QSA_IO_FILE_MAP_H

#include "io/io_util.h"

// `size` bytes at `bytes`, which is NULL when the file is empty.
typedef struct {
    const unsigned char *bytes;
    size_t size;
} io_map;

// Maps the file. Refuses a folder, a device, a pipe (without waiting for its writer) and a socket.
// A file that is truncated while mapped raises SIGBUS when the bytes past its new end are read.
bool io_map_open(io_map *map, const char *path, io_error err);

// Unmaps it; a map of no bytes is allowed.
void io_map_close(io_map *map);

#endif
