// SPDX-License-Identifier: Apache-2.0
//
// Writing a file as a whole: under a temporary name beside it, synced, then renamed over it. The
// name holds the old file or the new one at any time, never half of one.
#ifndef QSA_IO_FILE_REPLACE_H
#define QSA_IO_FILE_REPLACE_H

#include "io/io_util.h"

typedef struct {
    char *path;      // the file to replace, links followed
    char *temporary; // what is written
    int fd;
} io_replacement;

// Creates the temporary file. A symbolic link at `path` is followed; anything that exists and is
// no regular file is refused. The temporary one has the old file's permission bits, if there is an
// old file. On failure nothing is left behind, neither a file nor memory.
bool io_replace_begin(io_replacement *r, const char *path, io_error err);

// Appends all of the bytes, or fails.
bool io_replace_write(io_replacement *r, const void *bytes, size_t size, io_error err);

// Syncs, closes and renames, then syncs the folder where the file system can. Frees `r` either way;
// on failure the temporary file is removed and the old one untouched.
bool io_replace_commit(io_replacement *r, io_error err);

// Removes the temporary file and frees `r`: after a failed write.
void io_replace_abandon(io_replacement *r);

#endif
