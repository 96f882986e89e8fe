// SPDX-License-Identifier: Apache-2.0
//
// The parts of a split GGUF model. Their names follow from the first one's, so that no file names another.
#include "io/gguf_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct gguf_set {
    gguf_file **parts;
    size_t n, capacity;
};

// "-00001-of-00004.gguf"
#define TAIL_SIZE 20

// A whole number of the metadata; `fallback` when there is no such key.
static bool take_count(const gguf_file *file, const char *key, int64_t fallback, int64_t least, int64_t most,
                       int64_t *count, io_error err) {
    const gguf_value *value = gguf_key(file, key);
    *count = fallback;
    if (value == NULL)
        return true;
    if (value->array || !gguf_integer(value, 0, count) || *count < least || *count > most)
        return io_fail(err, "%s is no integer from %" PRId64 " to %" PRId64, key, least, most);
    return true;
}

// Takes the file over; NULL is the failure of its opening.
static bool add_file(gguf_set *set, gguf_file *file, io_error err) {
    gguf_file **parts = file != NULL ? io_grow(set->parts, &set->capacity, set->n, sizeof *parts) : NULL;
    if (parts == NULL) {
        gguf_close(file);
        return file != NULL && io_fail(err, "out of memory");
    }
    set->parts = parts;
    parts[set->n++] = file;
    return true;
}

static bool add_part(gguf_set *set, const char *path, io_error err) {
    return add_file(set, gguf_open(path, err), err);
}

// The name that part `no` (from 1) of `count` has.
static void write_tail(char *tail, int64_t no, int64_t count) {
    snprintf(tail, TAIL_SIZE + 1, "-%05d-of-%05d.gguf", (int)no, (int)count);
}

// Opens parts 2 and on beside the first, whose path is `path`.
static bool open_rest(gguf_set *set, char *path, int64_t count, io_error err) {
    const size_t size = strlen(path);
    char tail[TAIL_SIZE + 1];
    write_tail(tail, 1, count);
    if (size < TAIL_SIZE || strcmp(path + size - TAIL_SIZE, tail) != 0)
        return io_fail(err, "is the first of %" PRId64 " parts, and its name does not end with %s", count, tail);
    for (int64_t i = 1; i < count; i++) {
        char line[512] = "";
        int64_t no = 0, of = 0;
        const io_error e = {line, sizeof line};
        write_tail(tail, i + 1, count);
        memcpy(path + size - TAIL_SIZE, tail, TAIL_SIZE);
        const bool right = add_part(set, path, e) && take_count(set->parts[i], "split.no", -1, 0, count, &no, e) &&
                           take_count(set->parts[i], "split.count", -1, 1, GGUF_MAX_PARTS, &of, e);
        if (!right)
            return io_fail(err, "part %s: %s", tail, line);
        if (no < 0 || of < 0)
            return io_fail(err, "part %s: it has no split.no or no split.count", tail);
        if (no != i || of != count)
            return io_fail(err, "part %s: it says that it is part %" PRId64 " of %" PRId64, tail, no + 1, of);
    }
    return true;
}

static bool check_tensors(const gguf_set *set, int64_t count, io_error err) {
    int64_t has = 0;
    for (size_t p = 0; p < set->n; p++) {
        has += (int64_t)gguf_tensor_count(set->parts[p]);
        for (size_t i = 0; p > 0 && i < gguf_tensor_count(set->parts[p]); i++) {
            const char *name = gguf_tensor_at(set->parts[p], i)->name;
            for (size_t before = 0; before < p; before++)
                if (gguf_find(set->parts[before], name) != NULL)
                    return io_fail(err, "parts %zu and %zu both hold the tensor '%s'", before + 1, p + 1,
                                   io_quote_string(name).text);
        }
    }
    return count < 0 || has == count ||
           io_fail(err, "split.tensors.count is %" PRId64 ", and the parts hold %" PRId64 " tensors", count, has);
}

static bool open_set(gguf_set *set, const char *path, io_error err) {
    int64_t count = 1, no = 0, tensors = -1;
    if (!add_part(set, path, err) || !take_count(set->parts[0], "split.count", 1, 0, GGUF_MAX_PARTS, &count, err) ||
        !take_count(set->parts[0], "split.no", 0, 0, GGUF_MAX_PARTS, &no, err) ||
        !take_count(set->parts[0], "split.tensors.count", -1, 0, INT64_MAX, &tensors, err))
        return false;
    if (no != 0)
        return io_fail(err, "is part %" PRId64 " of %" PRId64 ", expected the first, which holds the metadata", no + 1,
                       count);
    if (count < 2)
        return true;
    char *copy = io_copy_string(path);
    const bool opened = copy != NULL ? open_rest(set, copy, count, err) : io_fail(err, "out of memory");
    io_free(copy);
    return opened && check_tensors(set, tensors, err);
}

static gguf_set *new_set(io_error err) {
    gguf_set *set = io_alloc(sizeof *set);
    if (set == NULL)
        io_fail(err, "out of memory");
    else
        *set = (gguf_set){0};
    return set;
}

gguf_set *gguf_set_open(const char *path, io_error err) {
    gguf_set *set = new_set(err);
    if (set != NULL && open_set(set, path, err))
        return set;
    gguf_set_close(set);
    return NULL;
}

gguf_set *gguf_set_open_memory(const void *bytes, size_t size, io_error err) {
    gguf_set *set = new_set(err);
    if (set != NULL && add_file(set, gguf_open_memory(bytes, size, err), err))
        return set;
    gguf_set_close(set);
    return NULL;
}

void gguf_set_close(gguf_set *set) {
    if (set == NULL)
        return;
    for (size_t i = 0; i < set->n; i++)
        gguf_close(set->parts[i]);
    io_free(set->parts);
    io_free(set);
}

const gguf_value *gguf_set_key(const gguf_set *set, const char *key) {
    return gguf_key(set->parts[0], key);
}

const gguf_tensor *gguf_set_find(const gguf_set *set, const char *name) {
    for (size_t i = 0; i < set->n; i++) {
        const gguf_tensor *tensor = gguf_find(set->parts[i], name);
        if (tensor != NULL)
            return tensor;
    }
    return NULL;
}
