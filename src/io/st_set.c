// SPDX-License-Identifier: Apache-2.0
//
// Opens the files of a checkpoint on demand and keeps them open.
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "io/st_set.h"

#include "io/file_map.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"

typedef struct {
    const char *name; // the index's, or SINGLE_FILE
    st_file *file;
} shard;

struct st_set {
    char *folder;
    st_index *index; // NULL: SINGLE_FILE holds all
    shard *shards;   // those that are open
    size_t n, capacity;
};

// The path of a file of the folder, from io_alloc.
static char *path_of(const st_set *set, const char *name, io_error err) {
    const size_t size = strlen(set->folder) + strlen(name) + 2;
    char *path = io_alloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", set->folder, name);
    else
        io_fail(err, "out of memory");
    return path;
}

static const st_file *open_shard(st_set *set, const char *name, io_error err) {
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->shards[i].name, name) == 0)
            return set->shards[i].file;
    char line[ST_ERR_SIZE] = "out of memory";
    shard *shards = io_grow(set->shards, &set->capacity, set->n, sizeof *shards);
    char *path = shards != NULL ? path_of(set, name, err) : NULL;
    set->shards = shards != NULL ? shards : set->shards;
    st_file *file = path != NULL ? st_open(path, line, sizeof line) : NULL;
    io_free(path);
    if (file == NULL) {
        io_fail(err, "%s: %.800s", io_quote_string(name).text, line);
        return NULL;
    }
    shards[set->n++] = (shard){name, file};
    return file;
}

static bool read_index(st_set *set, const char *path, io_error err) {
    io_map map;
    char line[ST_ERR_SIZE] = "";
    if (!io_map_open(&map, path, (io_error){line, sizeof line}))
        return io_fail(err, INDEX_FILE ": %.800s", line);
    set->index = st_index_parse(map.size > 0 ? (const char *)map.bytes : "", map.size, (io_error){line, sizeof line});
    io_map_close(&map);
    return set->index != NULL || io_fail(err, INDEX_FILE ": %.800s", line);
}

static bool open_set(st_set *set, const char *folder, io_error err) {
    set->folder = io_copy_string(folder);
    char *path = set->folder != NULL ? path_of(set, INDEX_FILE, err) : NULL;
    if (path == NULL)
        return io_fail(err, "out of memory");
    const bool sharded = access(path, F_OK) == 0;
    const bool opened = sharded ? read_index(set, path, err) : open_shard(set, SINGLE_FILE, err) != NULL;
    io_free(path);
    return opened;
}

st_set *st_set_open(const char *folder, io_error err) {
    st_set *set = io_alloc(sizeof *set);
    if (set == NULL) {
        io_fail(err, "out of memory");
        return NULL;
    }
    *set = (st_set){0};
    if (open_set(set, folder, err))
        return set;
    st_set_close(set);
    return NULL;
}

void st_set_close(st_set *set) {
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->n; i++)
        st_close(set->shards[i].file);
    st_index_free(set->index);
    io_free(set->shards);
    io_free(set->folder);
    io_free(set);
}

bool st_set_find(st_set *set, const char *name, const st_tensor **tensor, io_error err) {
    const char *where = set->index != NULL ? st_index_find(set->index, name) : SINGLE_FILE;
    *tensor = NULL;
    if (where == NULL)
        return true;
    const st_file *file = open_shard(set, where, err);
    if (file == NULL)
        return false;
    *tensor = st_find(file, name);
    if (*tensor == NULL && set->index != NULL)
        return io_fail(err, "%s has no tensor '%s', which the index places there", io_quote_string(where).text,
                       io_quote_string(name).text);
    return true;
}

bool st_set_names(const st_set *set, const char *name) {
    bool found = strcmp(name, set->index != NULL ? INDEX_FILE : SINGLE_FILE) == 0;
    for (size_t i = 0; set->index != NULL && !found && i < st_index_count(set->index); i++)
        found = strcmp(name, st_index_file(set->index, i)) == 0;
    return found;
}
