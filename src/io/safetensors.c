// SPDX-License-Identifier: Apache-2.0
//
// Safetensors: opening a file, the checks over all of its tensors, and look-ups. A file is either
// refused with one line or wholly valid: every data pointer then has its bytes behind it.
#include "io/safetensors_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp(((const st_entry *)a)->tensor.name, ((const st_entry *)b)->tensor.name);
}

// By begin, then end: an empty tensor may stand in front of or behind another, not inside it.
static int by_offset(const void *a, const void *b) {
    const st_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const st_pair *)a)->key, ((const st_pair *)b)->key);
}

static bool check_duplicates(st_file *f, io_error err) {
    if (f->n_pairs > 0)
        qsort(f->pairs, f->n_pairs, sizeof *f->pairs, by_key);
    for (size_t i = 1; i < f->n_pairs; i++)
        if (by_key(&f->pairs[i - 1], &f->pairs[i]) == 0)
            return io_fail(err, "%s: duplicate key '%s'", ST_METADATA_KEY, io_quote_string(f->pairs[i].key).text);
    if (f->n_entries > 0)
        qsort(f->entries, f->n_entries, sizeof *f->entries, by_name);
    for (size_t i = 1; i < f->n_entries; i++)
        if (by_name(&f->entries[i - 1], &f->entries[i]) == 0)
            return io_fail(err, "tensor '%s': duplicate name", io_quote_string(f->entries[i].tensor.name).text);
    return true;
}

// Two neighbours in the order of their data, `before` NULL for the first tensor.
static bool check_neighbours(const st_entry *before, const st_entry *e, io_error err) {
    int64_t end = before != NULL ? before->end : 0;
    const char *name = e->tensor.name;
    if (before != NULL && e->begin < end)
        return io_fail(err,
                       "tensors '%s' and '%s' overlap: data_offsets [%" PRId64 ", %" PRId64 "] and [%" PRId64
                       ", %" PRId64 "]",
                       io_quote_string(before->tensor.name).text, io_quote_string(name).text, before->begin,
                       before->end, e->begin, e->end);
    if (e->begin > end)
        return io_fail(err,
                       "tensor '%s': hole of %" PRId64 " bytes before it: the data before ends at "
                       "%" PRId64 " and data_offsets begin at %" PRId64,
                       io_quote_string(name).text, e->begin - end, end, e->begin);
    return true;
}

bool st_check_layout(st_file *f, io_error err) {
    if (!check_duplicates(f, err))
        return false;
    if (f->n_entries == 0) {
        if (f->data_size > 0)
            return io_fail(err, "%zu trailing bytes: the file has data but no tensors", f->data_size);
        return true;
    }
    qsort(f->entries, f->n_entries, sizeof *f->entries, by_offset);
    for (size_t i = 0; i < f->n_entries; i++)
        if (!check_neighbours(i > 0 ? &f->entries[i - 1] : NULL, &f->entries[i], err))
            return false;
    const st_entry *last = &f->entries[f->n_entries - 1];
    uint64_t end = (uint64_t)last->end;
    io_quoted name = io_quote_string(last->tensor.name);
    if (end > f->data_size)
        return io_fail(err,
                       "truncated: %" PRIu64 " bytes are missing: tensor '%s' ends at data byte "
                       "%" PRIu64 " but the file has %zu bytes of data",
                       end - f->data_size, name.text, end, f->data_size);
    if (end < f->data_size)
        return io_fail(err,
                       "%" PRIu64 " trailing bytes: the last tensor '%s' ends at data byte %" PRIu64
                       " but the file has %zu bytes of data",
                       f->data_size - end, name.text, end, f->data_size);
    for (size_t i = 0; i < f->n_entries; i++)
        f->entries[i].tensor.data = f->data + f->entries[i].begin;
    qsort(f->entries, f->n_entries, sizeof *f->entries, by_name);
    return true;
}

static bool open_bytes(st_file *f, const unsigned char *bytes, size_t size, io_error err) {
    if (size == 0)
        return io_fail(err, "not a safetensors file: empty, 0 bytes");
    if (size < 8)
        return io_fail(err,
                       "not a safetensors file: %zu bytes, shorter than the 8 bytes of a "
                       "header size",
                       size);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header == 0)
        return io_fail(err, "not a safetensors file: header size 0");
    // A cut file is told from one of another kind by its first byte of JSON.
    if (header > size - 8 && header <= ST_MAX_HEADER && size > 8 && bytes[8] == '{')
        return io_fail(err,
                       "truncated: %" PRIu64 " bytes are missing: header size %" PRIu64 " exceeds the file's %zu bytes",
                       header - (size - 8), header, size);
    if (header > size - 8)
        return io_fail(err, "not a safetensors file: header size %" PRIu64 " exceeds the file's %zu bytes", header,
                       size);
    if (header > ST_MAX_HEADER)
        return io_fail(err, "not a safetensors file: header size %" PRIu64 " exceeds the limit of %u bytes", header,
                       ST_MAX_HEADER);
    f->data = bytes + 8 + header;
    f->data_size = size - 8 - (size_t)header;
    return st_parse_header(f, (const char *)bytes + 8, (size_t)header, err) && st_check_layout(f, err);
}

static st_file *new_file(io_error err) {
    st_file *f = io_alloc(sizeof *f);
    if (f == NULL)
        io_fail(err, "out of memory");
    else
        memset(f, 0, sizeof *f);
    return f;
}

st_file *st_open(const char *path, char *err, size_t err_size) {
    io_error e = {err, err_size};
    st_file *f = new_file(e);
    if (f != NULL && io_map_open(&f->map, path, e) && open_bytes(f, f->map.bytes, f->map.size, e))
        return f;
    st_close(f);
    return NULL;
}

st_file *st_open_memory(const void *bytes, size_t size, char *err, size_t err_size) {
    io_error e = {err, err_size};
    st_file *f = new_file(e);
    if (f != NULL && open_bytes(f, bytes, size, e))
        return f;
    st_close(f);
    return NULL;
}

void st_close(st_file *f) {
    if (f == NULL)
        return;
    io_map_close(&f->map);
    io_free(f->strings);
    io_free(f->entries);
    io_free(f->pairs);
    io_free(f);
}

int64_t st_tensor_count(const st_file *f) {
    return (int64_t)f->n_entries;
}

const st_tensor *st_tensor_at(const st_file *f, int64_t i) {
    return i >= 0 && (uint64_t)i < f->n_entries ? &f->entries[i].tensor : NULL;
}

const st_tensor *st_find(const st_file *f, const char *name) {
    st_entry wanted = {.tensor = {.name = name}};
    if (f->n_entries == 0)
        return NULL;
    const st_entry *e = bsearch(&wanted, f->entries, f->n_entries, sizeof *f->entries, by_name);
    return e != NULL ? &e->tensor : NULL;
}

const char *st_metadata(const st_file *f, const char *key) {
    st_pair wanted = {.key = key};
    if (f->n_pairs == 0)
        return NULL;
    const st_pair *p = bsearch(&wanted, f->pairs, f->n_pairs, sizeof *f->pairs, by_key);
    return p != NULL ? p->value : NULL;
}

size_t st_metadata_count(const st_file *f) {
    return f->n_pairs;
}

const char *st_metadata_key(const st_file *f, size_t i) {
    return i < f->n_pairs ? f->pairs[i].key : NULL;
}
