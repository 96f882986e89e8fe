// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of a cache as files: replaced as a whole (file_replace.h), so that at any time the name holds the old snapshot
// or the new one, and read to their last byte.
#ifndef QSA_IO_SNAPSHOT_FILE_H
#define QSA_IO_SNAPSHOT_FILE_H

#include "io/io_util.h"
#include "qsa/qsa.h"

// qsa_snapshot_save into a file. On failure the file at `path`, if there is one, is untouched and nothing is left beside it.
bool io_snapshot_save(const char *path, const qsa_cache *cache, int32_t count, const int32_t *sequences, io_error err);

// qsa_snapshot_load from a file. Bytes behind the snapshot are refused. On failure the cache's sequences are as before.
bool io_snapshot_load(const char *path, qsa_cache *cache, int32_t capacity, int32_t *sequences, int32_t *count,
                      io_error err);

#endif
