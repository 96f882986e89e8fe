// SPDX-License-Identifier: Apache-2.0
//
// The file part of snapshots: the library streams, this opens, replaces and closes.
#include "io/snapshot_file.h"

#include "io/file_replace.h"

#include <errno.h>
#include <stdio.h>

typedef struct {
    io_replacement file;
    io_error err;
    bool failed; // the line is in err already
} writer;

static int write_piece(void *user, const void *data, size_t bytes) {
    writer *w = user;
    w->failed = !io_replace_write(&w->file, data, bytes, w->err);
    return w->failed;
}

bool io_snapshot_save(const char *path, const qsa_cache *cache, int32_t count, const int32_t *sequences, io_error err) {
    writer w = {.err = err};
    if (!io_replace_begin(&w.file, path, err))
        return false;
    if (qsa_snapshot_save(cache, count, sequences, write_piece, &w) == QSA_OK)
        return io_replace_commit(&w.file, err);
    if (!w.failed)
        io_fail(err, "%s", qsa_last_error());
    io_replace_abandon(&w.file);
    return false;
}

static int read_piece(void *user, void *data, size_t bytes) {
    FILE *file = user;
    return fread(data, 1, bytes, file) != bytes;
}

static bool load(FILE *file, qsa_cache *cache, int32_t capacity, int32_t *sequences, int32_t *count, io_error err) {
    const qsa_status status = qsa_snapshot_load(cache, read_piece, file, capacity, sequences, count);
    if (status == QSA_ERR_IO && ferror(file))
        return io_fail_errno(err, errno, "cannot read");
    if (status != QSA_OK)
        return io_fail(err, "%s", qsa_last_error());
    if (fgetc(file) == EOF && !ferror(file))
        return true;
    for (int32_t i = 0; i < *count; i++)
        (void)qsa_sequence_destroy(cache, sequences[i]);
    return io_fail(err, "holds more than a snapshot");
}

bool io_snapshot_load(const char *path, qsa_cache *cache, int32_t capacity, int32_t *sequences, int32_t *count,
                      io_error err) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return io_fail_errno(err, errno, "cannot open");
    const bool loaded = load(file, cache, capacity, sequences, count, err);
    fclose(file);
    return loaded;
}
