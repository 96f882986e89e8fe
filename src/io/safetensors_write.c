// SPDX-License-Identifier: Apache-2.0
//
// Safetensors: the writer. Tensors and metadata are kept sorted as they are added; the header's
// bytes follow from them alone, so the same contents give the same file.
#include "io/file_replace.h"
#include "io/safetensors_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char *name;  // or a metadata key
    char *value; // metadata only
    st_tensor tensor;
} item;

// Pointers, sorted by name: an insertion moves 8 bytes for each later item.
typedef struct {
    item **items;
    size_t count, capacity;
} item_list;

struct st_writer {
    item_list tensors, metadata;
    bool refused;
    char reason[ST_ERR_SIZE]; // of the first refusal
};

// A text that grows; `full` once memory was out, and then it stays so.
typedef struct {
    char *bytes;
    size_t size, capacity;
    bool full;
} text;

st_writer *st_writer_new(void) {
    st_writer *w = io_alloc(sizeof *w);
    if (w != NULL)
        memset(w, 0, sizeof *w);
    return w;
}

static void free_item(item *it) {
    if (it == NULL)
        return;
    io_free(it->name);
    io_free(it->value);
    io_free(it);
}

void st_writer_free(st_writer *w) {
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->tensors.count; i++)
        free_item(w->tensors.items[i]);
    for (size_t i = 0; i < w->metadata.count; i++)
        free_item(w->metadata.items[i]);
    io_free(w->tensors.items);
    io_free(w->metadata.items);
    io_free(w);
}

// Where the first reason goes; later ones go nowhere.
static io_error reason_of(st_writer *w) {
    io_error err = {w->reason, w->refused ? 0 : sizeof w->reason};
    w->refused = true;
    return err;
}

// The place of `name`, where the first item is whose name is not before it.
static size_t place_of(const item_list *list, const char *name) {
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list->items[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const item_list *list, size_t place, const char *name) {
    return place < list->count && strcmp(list->items[place]->name, name) == 0;
}

// Puts a new item with copies of both strings at `place`; NULL when memory is out.
static item *insert(item_list *list, size_t place, const char *name, const char *value) {
    item **items = io_grow(list->items, &list->capacity, list->count, sizeof *items);
    if (items == NULL)
        return NULL;
    list->items = items;
    item *it = io_alloc(sizeof *it);
    if (it == NULL)
        return NULL;
    memset(it, 0, sizeof *it);
    it->name = io_copy_string(name);
    it->value = value != NULL ? io_copy_string(value) : NULL;
    if (it->name == NULL || (value != NULL && it->value == NULL)) {
        free_item(it);
        return NULL;
    }
    memmove(items + place + 1, items + place, (list->count - place) * sizeof *items);
    items[place] = it;
    list->count++;
    return it;
}

// Fills `t`, or gives the reason why the reader would refuse it.
static bool describe(st_tensor *t, const char *name, st_dtype dtype, int n_dims, const int64_t *shape, const void *data,
                     io_error err) {
    if (!st_check_name(name, strlen(name), err))
        return false;
    io_quoted quoted = io_quote_string(name);
    if (strcmp(name, ST_METADATA_KEY) == 0)
        return io_fail(err, "tensor '%s': its name is the metadata's", quoted.text);
    if (st_dtype_size(dtype) == 0)
        return io_fail(err, "tensor '%s': %d is not a dtype", quoted.text, (int)dtype);
    if (n_dims < 0 || n_dims > ST_MAX_DIMS)
        return io_fail(err, "tensor '%s': %d dimensions, the limit is %d", quoted.text, n_dims, ST_MAX_DIMS);
    *t = (st_tensor){.dtype = dtype, .n_dims = n_dims, .data = data};
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0)
            return io_fail(err, "tensor '%s': shape[%d] is negative: %" PRId64, quoted.text, i, shape[i]);
        t->shape[i] = shape[i];
    }
    if (!st_measure(dtype, n_dims, shape, &t->count, &t->bytes))
        return io_fail(err, "tensor '%s': shape %s of %s overflows", quoted.text, st_show_shape(n_dims, shape).text,
                       st_dtype_name(dtype));
    if (t->bytes > 0 && data == NULL)
        return io_fail(err, "tensor '%s': %zu bytes but no data", quoted.text, t->bytes);
    return true;
}

bool st_writer_add(st_writer *w, const char *name, st_dtype dtype, int n_dims, const int64_t *shape, const void *data) {
    char line[ST_ERR_SIZE] = "";
    st_tensor t;
    if (!describe(&t, name, dtype, n_dims, shape, data, (io_error){line, sizeof line}))
        return io_fail(reason_of(w), "%s", line);
    size_t place = place_of(&w->tensors, name);
    if (is_at(&w->tensors, place, name))
        return io_fail(reason_of(w), "tensor '%s': duplicate name", io_quote_string(name).text);
    item *it = insert(&w->tensors, place, name, NULL);
    if (it == NULL)
        return io_fail(reason_of(w), "out of memory");
    it->tensor = t;
    return true;
}

bool st_writer_metadata(st_writer *w, const char *key, const char *value) {
    size_t place = place_of(&w->metadata, key);
    if (io_utf8_prefix(key, strlen(key)) != strlen(key) || io_utf8_prefix(value, strlen(value)) != strlen(value))
        return io_fail(reason_of(w), "%s: '%s' or its value is not valid UTF-8", ST_METADATA_KEY,
                       io_quote_string(key).text);
    if (is_at(&w->metadata, place, key))
        return io_fail(reason_of(w), "%s: duplicate key '%s'", ST_METADATA_KEY, io_quote_string(key).text);
    if (insert(&w->metadata, place, key, value) == NULL)
        return io_fail(reason_of(w), "out of memory");
    return true;
}

static void put(text *t, const char *bytes, size_t size) {
    if (t->full)
        return;
    if (size > t->capacity - t->size) {
        size_t capacity = 2 * (t->size + size) + 64; // both are in memory: no overflow
        char *grown = io_alloc(capacity);
        if (grown == NULL) {
            t->full = true;
            return;
        }
        if (t->size > 0)
            memcpy(grown, t->bytes, t->size);
        io_free(t->bytes);
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

static void put_string(text *t, const char *string) {
    put(t, string, strlen(string));
}

static void put_quoted(text *t, const char *string) {
    put(t, "\"", 1);
    for (const char *p = string; *p != '\0'; p++) {
        char escape[8];
        if (*p == '"' || *p == '\\')
            put(t, "\\", 1);
        if ((unsigned char)*p < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*p);
            put_string(t, escape);
        } else {
            put(t, p, 1);
        }
    }
    put(t, "\"", 1);
}

static void put_entry(text *t, const item *it, uint64_t begin) {
    char line[2 * ST_MAX_DIMS * 21 + 128];
    const st_tensor *tensor = &it->tensor;
    if (t->size > 1)
        put(t, ",", 1);
    put_quoted(t, it->name);
    snprintf(line, sizeof line, ":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
             st_dtype_name(tensor->dtype), st_show_shape(tensor->n_dims, tensor->shape).text, begin,
             begin + tensor->bytes);
    put_string(t, line);
}

// The first tensor at or after *i whose elements have `size` bytes, in the order of the file: sizes
// 8, 4, 2, 1, names ascending in each. NULL past the last.
static const item *next_in_file(const st_writer *w, size_t *size, size_t *i) {
    for (; *size > 0; *size /= 2, *i = 0)
        for (; *i < w->tensors.count; ++*i)
            if (st_dtype_size(w->tensors.items[*i]->tensor.dtype) == *size)
                return w->tensors.items[(*i)++];
    return NULL;
}

// The header, padded so that the data begins at a multiple of 8.
static bool build_header(const st_writer *w, text *t, io_error err) {
    const item *it;
    uint64_t begin = 0;
    put(t, "{", 1);
    for (size_t i = 0; i < w->metadata.count; i++) {
        put_string(t, i == 0 ? "\"" ST_METADATA_KEY "\":{" : ",");
        put_quoted(t, w->metadata.items[i]->name);
        put(t, ":", 1);
        put_quoted(t, w->metadata.items[i]->value);
    }
    if (w->metadata.count > 0)
        put(t, "}", 1);
    for (size_t size = 8, i = 0; (it = next_in_file(w, &size, &i)) != NULL;) {
        if (it->tensor.bytes > INT64_MAX - begin)
            return io_fail(err, "tensor '%s': all tensors together overflow the format",
                           io_quote_string(it->name).text);
        put_entry(t, it, begin);
        begin += it->tensor.bytes;
    }
    put(t, "}", 1);
    while (t->size % 8 != 0 && !t->full)
        put(t, " ", 1);
    if (t->full)
        return io_fail(err, "out of memory");
    if (t->size > ST_MAX_HEADER)
        return io_fail(err, "header of %zu bytes exceeds the format's limit of %u", t->size, ST_MAX_HEADER);
    return true;
}

static bool write_all(const st_writer *w, io_replacement *r, const text *header, io_error err) {
    unsigned char size_bytes[8];
    const item *it;
    for (int i = 0; i < 8; i++)
        size_bytes[i] = (unsigned char)((uint64_t)header->size >> (8 * i));
    if (!io_replace_write(r, size_bytes, sizeof size_bytes, err) ||
        !io_replace_write(r, header->bytes, header->size, err))
        return false;
    for (size_t size = 8, i = 0; (it = next_in_file(w, &size, &i)) != NULL;)
        if (!io_replace_write(r, it->tensor.data, it->tensor.bytes, err))
            return false;
    return true;
}

bool st_writer_save(st_writer *w, const char *path, char *err, size_t err_size) {
    io_error e = {err, err_size};
    if (w->refused)
        return io_fail(e, "%s", w->reason);
    text header = {0};
    io_replacement r;
    bool ok = build_header(w, &header, e) && io_replace_begin(&r, path, e);
    if (ok && !write_all(w, &r, &header, e)) {
        io_replace_abandon(&r);
        ok = false;
    }
    ok = ok && io_replace_commit(&r, e);
    io_free(header.bytes);
    return ok;
}
