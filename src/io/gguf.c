// SPDX-License-Identifier: Apache-2.0
//
// GGUF: opening a file. One pass over head, metadata and entries with every length checked against the bytes that are
// left; memory grows with what was parsed, never with what a count claims.
#include "io/gguf_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF data is little-endian and is used here as it is"
#endif

// The fewest bytes of a metadata entry (length, a byte of key, type, a byte of value) and of a tensor's entry (length,
// a byte of name, dimensions, one of them, type, offset).
enum { LEAST_VALUE = 14, LEAST_TENSOR = 33 };

typedef struct {
    const unsigned char *bytes;
    size_t size, at;
    gguf_file *file;
    uint64_t alignment;
    io_error err;
} reader;

static size_t left(const reader *r) {
    return r->size - r->at;
}

static bool truncated(const reader *r, const char *where) {
    return io_fail(r->err, "truncated: the file of %zu bytes ends inside %s at byte %zu", r->size, where, r->at);
}

static bool take_u32(reader *r, const char *where, uint32_t *value) {
    if (left(r) < 4)
        return truncated(r, where);
    *value = gguf_u32(r->bytes + r->at);
    r->at += 4;
    return true;
}

static bool take_u64(reader *r, const char *where, uint64_t *value) {
    if (left(r) < 8)
        return truncated(r, where);
    *value = gguf_u64(r->bytes + r->at);
    r->at += 8;
    return true;
}

static bool take_text(reader *r, const char *where, gguf_text *text) {
    uint64_t size = 0;
    if (!take_u64(r, where, &size))
        return false;
    if (size > left(r))
        return io_fail(r->err, "%s at byte %zu has %" PRIu64 " bytes, and the file has %zu left", where, r->at - 8,
                       size, left(r));
    *text = (gguf_text){(const char *)r->bytes + r->at, (size_t)size};
    r->at += (size_t)size;
    return true;
}

static bool skip_strings(reader *r, uint64_t count) {
    gguf_text text;
    if (count > left(r) / 8)
        return io_fail(r->err, "an array of %" PRIu64 " strings at byte %zu, and the file has %zu bytes left", count,
                       r->at, left(r));
    for (uint64_t i = 0; i < count; i++)
        if (!take_text(r, "a string of an array", &text))
            return false;
    return true;
}

// Moves past the elements of a value whose type and count are known.
static bool skip_elements(reader *r, const gguf_value *v) {
    const size_t size = gguf_value_size(v->type);
    if (v->type == GGUF_STRING)
        return skip_strings(r, v->count);
    if (size == 0)
        return io_fail(r->err, "key '%s': %s", io_quote(v->key.bytes, v->key.size).text,
                       v->type == GGUF_ARRAY ? "an array of arrays, which is not read" : "a value of no known type");
    if (v->count > left(r) / size)
        return io_fail(r->err, "key '%s': %" PRIu64 " elements of %zu bytes, and the file has %zu bytes left",
                       io_quote(v->key.bytes, v->key.size).text, v->count, size, left(r));
    r->at += (size_t)v->count * size;
    return true;
}

static bool take_value(reader *r, gguf_value *v) {
    uint32_t type = 0;
    *v = (gguf_value){.count = 1};
    if (!take_text(r, "a key", &v->key))
        return false;
    if (v->key.size == 0 || v->key.size > GGUF_MAX_KEY)
        return io_fail(r->err, "a key of %zu bytes, expected 1 to %d", v->key.size, GGUF_MAX_KEY);
    if (!take_u32(r, "a value's type", &type))
        return false;
    v->array = type == GGUF_ARRAY;
    if (v->array && (!take_u32(r, "an array's type", &type) || !take_u64(r, "an array's length", &v->count)))
        return false;
    v->type = type < GGUF_VALUE_TYPES ? (gguf_value_type)type : GGUF_VALUE_TYPES;
    v->data = r->bytes + r->at;
    return skip_elements(r, v);
}

static int by_key(const void *a, const void *b) {
    const gguf_text x = ((const gguf_value *)a)->key, y = ((const gguf_value *)b)->key;
    const int order = memcmp(x.bytes, y.bytes, x.size < y.size ? x.size : y.size);
    return order != 0 ? order : (x.size > y.size) - (x.size < y.size);
}

static bool take_values(reader *r, uint64_t count) {
    gguf_file *f = r->file;
    if (count > left(r) / LEAST_VALUE)
        return io_fail(r->err, "%" PRIu64 " metadata entries, and the file has %zu bytes left", count, left(r));
    for (uint64_t i = 0; i < count; i++) {
        gguf_value *values = io_grow(f->values, &f->values_capacity, f->n_values, sizeof *values);
        if (values == NULL)
            return io_fail(r->err, "out of memory");
        f->values = values;
        if (!take_value(r, &values[f->n_values]))
            return false;
        f->n_values++;
    }
    if (f->n_values > 0)
        qsort(f->values, f->n_values, sizeof *f->values, by_key);
    for (size_t i = 1; i < f->n_values; i++)
        if (by_key(&f->values[i - 1], &f->values[i]) == 0)
            return io_fail(r->err, "duplicate key '%s'", io_quote(f->values[i].key.bytes, f->values[i].key.size).text);
    return true;
}

static bool take_alignment(reader *r) {
    const gguf_value *v = gguf_key(r->file, "general.alignment");
    int64_t alignment = 0;
    if (v == NULL)
        return true;
    if (v->array || !gguf_integer(v, 0, &alignment) || alignment < 1 || alignment > 1 << 30 ||
        (alignment & (alignment - 1)) != 0)
        return io_fail(r->err, "general.alignment is no power of two up to 2^30");
    r->alignment = (uint64_t)alignment;
    return true;
}

// Elements and bytes of a shape. False when they overflow or rows do not divide into the type's blocks.
static bool measure(gguf_tensor *t, io_error err) {
    int64_t block = 0, limit = INT64_MAX / 8;
    size_t bytes = 0;
    t->count = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] < 1 || t->count > limit / t->shape[i])
            return io_fail(err, "tensor '%s': dimension %" PRId64 " is out of range", io_quote_string(t->name).text,
                           t->shape[i]);
        t->count *= t->shape[i];
    }
    if (!gguf_type_layout(t->type, &block, &bytes))
        return true;
    if (t->shape[t->n_dims - 1] % block != 0)
        return io_fail(err,
                       "tensor '%s': rows of %" PRId64 " are no multiple of the %" PRId64 " elements of a %s block",
                       io_quote_string(t->name).text, t->shape[t->n_dims - 1], block, gguf_tensor_type(t->type).text);
    if ((uint64_t)(t->count / block) > SIZE_MAX / 2 / bytes)
        return io_fail(err, "tensor '%s': its size overflows", io_quote_string(t->name).text);
    t->bytes = (size_t)(t->count / block) * bytes;
    return true;
}

// An entry; *offset is where its data begins, counted from the data's start.
static bool take_tensor(reader *r, gguf_tensor *t, uint64_t *offset) {
    gguf_text name = {"", 0};
    uint32_t n_dims = 0;
    *t = (gguf_tensor){0};
    if (!take_text(r, "a tensor's name", &name))
        return false;
    if (name.size == 0 || name.size > GGUF_MAX_NAME || memchr(name.bytes, 0, name.size) != NULL)
        return io_fail(r->err, "tensor '%s': a name of %zu bytes, expected 1 to %d and no NUL",
                       io_quote(name.bytes, name.size).text, name.size, GGUF_MAX_NAME);
    memcpy(t->name, name.bytes, name.size);
    if (!take_u32(r, "a tensor's dimensions", &n_dims))
        return false;
    if (n_dims < 1 || n_dims > GGUF_MAX_DIMS)
        return io_fail(r->err, "tensor '%s': %" PRIu32 " dimensions, expected 1 to %d", io_quote_string(t->name).text,
                       n_dims, GGUF_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        uint64_t dim = 0;
        if (!take_u64(r, "a tensor's dimensions", &dim))
            return false;
        t->shape[i] = dim <= INT64_MAX ? (int64_t)dim : -1;
    }
    return take_u32(r, "a tensor's type", &t->type) && take_u64(r, "a tensor's offset", offset) && measure(t, r->err);
}

static bool take_tensors(reader *r, uint64_t count) {
    gguf_file *f = r->file;
    if (count > left(r) / LEAST_TENSOR)
        return io_fail(r->err, "%" PRIu64 " tensors, and the file has %zu bytes left", count, left(r));
    for (uint64_t i = 0; i < count; i++) {
        gguf_tensor *tensors = io_grow(f->tensors, &f->tensors_capacity, f->n_tensors, sizeof *tensors);
        uint64_t offset = 0;
        if (tensors == NULL)
            return io_fail(r->err, "out of memory");
        f->tensors = tensors;
        gguf_tensor *t = &tensors[f->n_tensors];
        if (!take_tensor(r, t, &offset))
            return false;
        if (offset % r->alignment != 0 || offset > r->size)
            return io_fail(r->err,
                           "tensor '%s': offset %" PRIu64 " is no multiple of the alignment %" PRIu64
                           " within the file of %zu bytes",
                           io_quote_string(t->name).text, offset, r->alignment, r->size);
        t->data = r->bytes + offset; // without the data's start, which is known once all entries are read
        f->n_tensors++;
    }
    return true;
}

static int by_data(const void *a, const void *b) {
    const gguf_tensor *x = a, *y = b;
    return (x->data > y->data) - (x->data < y->data);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const gguf_tensor *)a)->name, ((const gguf_tensor *)b)->name);
}

// Turns offsets into pointers, and refuses data behind the file, data that overlaps, and two tensors of one name.
static bool place_tensors(reader *r) {
    gguf_file *f = r->file;
    const size_t n = f->n_tensors;
    if (n == 0)
        return true;
    const size_t start = (r->at + (size_t)r->alignment - 1) / (size_t)r->alignment * (size_t)r->alignment;
    const size_t data = start < r->size ? r->size - start : 0;
    qsort(f->tensors, n, sizeof *f->tensors, by_data);
    for (size_t i = 0; i < n; i++) {
        gguf_tensor *t = &f->tensors[i];
        const size_t offset = (size_t)(t->data - r->bytes);
        if (offset > data || t->bytes > data - offset)
            return io_fail(r->err, "truncated: tensor '%s' ends at data byte %zu, and the file has %zu bytes of data",
                           io_quote_string(t->name).text, offset + t->bytes, data);
        if (i + 1 < n && t->bytes > (size_t)(f->tensors[i + 1].data - t->data))
            return io_fail(r->err, "tensors '%s' and '%s' overlap", io_quote_string(t->name).text,
                           io_quote_string(f->tensors[i + 1].name).text);
    }
    for (size_t i = 0; i < n; i++)
        f->tensors[i].data = f->tensors[i].bytes > 0 ? f->tensors[i].data + start : NULL;
    qsort(f->tensors, n, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return io_fail(r->err, "tensor '%s': duplicate name", io_quote_string(f->tensors[i].name).text);
    return true;
}

static bool open_bytes(gguf_file *f, const unsigned char *bytes, size_t size, io_error err) {
    reader r = {.bytes = bytes, .size = size, .file = f, .alignment = GGUF_ALIGNMENT, .err = err};
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_values = 0;
    if (size < 8 || memcmp(bytes, "GGUF", 4) != 0)
        return io_fail(err, "not a GGUF file: it does not begin with GGUF");
    r.at = 4;
    if (!take_u32(&r, "the head", &version))
        return false;
    if (version == 0 || (version & 0xffff) == 0)
        return io_fail(err, "a big-endian GGUF file, which is not read");
    if (version != 2 && version != 3)
        return io_fail(err, "GGUF version %" PRIu32 ", expected 2 or 3", version);
    return take_u64(&r, "the head", &n_tensors) && take_u64(&r, "the head", &n_values) && take_values(&r, n_values) &&
           take_alignment(&r) && take_tensors(&r, n_tensors) && place_tensors(&r);
}

static gguf_file *new_file(io_error err) {
    gguf_file *f = io_alloc(sizeof *f);
    if (f == NULL)
        io_fail(err, "out of memory");
    else
        memset(f, 0, sizeof *f);
    return f;
}

gguf_file *gguf_open(const char *path, io_error err) {
    gguf_file *f = new_file(err);
    if (f != NULL && io_map_open(&f->map, path, err) && open_bytes(f, f->map.bytes, f->map.size, err))
        return f;
    gguf_close(f);
    return NULL;
}

gguf_file *gguf_open_memory(const void *bytes, size_t size, io_error err) {
    gguf_file *f = new_file(err);
    if (f != NULL && open_bytes(f, bytes, size, err))
        return f;
    gguf_close(f);
    return NULL;
}

void gguf_close(gguf_file *f) {
    if (f == NULL)
        return;
    io_map_close(&f->map);
    io_free(f->values);
    io_free(f->tensors);
    io_free(f);
}

size_t gguf_tensor_count(const gguf_file *f) {
    return f->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *f, size_t i) {
    return i < f->n_tensors ? &f->tensors[i] : NULL;
}

const gguf_tensor *gguf_find(const gguf_file *f, const char *name) {
    gguf_tensor wanted = {0};
    const size_t size = strlen(name);
    if (f->n_tensors == 0 || size > GGUF_MAX_NAME)
        return NULL;
    memcpy(wanted.name, name, size + 1);
    return bsearch(&wanted, f->tensors, f->n_tensors, sizeof wanted, by_name);
}

size_t gguf_value_count(const gguf_file *f) {
    return f->n_values;
}

const gguf_value *gguf_value_at(const gguf_file *f, size_t i) {
    return i < f->n_values ? &f->values[i] : NULL;
}

const gguf_value *gguf_key(const gguf_file *f, const char *key) {
    const gguf_value wanted = {.key = {key, strlen(key)}};
    if (f->n_values == 0)
        return NULL;
    return bsearch(&wanted, f->values, f->n_values, sizeof wanted, by_key);
}
