// SPDX-License-Identifier: Apache-2.0
//
// GGUF: the writer. Metadata and entries are bytes as they are added, the data follows when the file is saved.
#include "io/gguf_write.h"

#include "io/file_replace.h"

#include <string.h>

enum { ALIGNMENT = 32 };

typedef struct {
    unsigned char *bytes;
    size_t size, capacity;
} block;

typedef struct {
    const void *data;
    size_t bytes;
} piece;

struct gguf_writer {
    block values, entries;
    uint64_t n_values;
    piece *pieces;
    size_t n_pieces, pieces_capacity;
    uint64_t data; // bytes of the pieces so far, each padded
    bool full;     // memory was out
};

gguf_writer *gguf_writer_new(void) {
    gguf_writer *w = io_alloc(sizeof *w);
    if (w != NULL)
        *w = (gguf_writer){0};
    return w;
}

void gguf_writer_free(gguf_writer *w) {
    if (w == NULL)
        return;
    io_free(w->values.bytes);
    io_free(w->entries.bytes);
    io_free(w->pieces);
    io_free(w);
}

static void put(gguf_writer *w, block *b, const void *bytes, size_t size) {
    if (size > b->capacity - b->size && !w->full) {
        const size_t capacity = 2 * (b->size + size) + 256; // both are in memory: no overflow
        unsigned char *grown = io_alloc(capacity);
        w->full = grown == NULL;
        if (grown != NULL) {
            if (b->size > 0)
                memcpy(grown, b->bytes, b->size);
            io_free(b->bytes);
            b->bytes = grown;
            b->capacity = capacity;
        }
    }
    if (!w->full) {
        memcpy(b->bytes + b->size, bytes, size);
        b->size += size;
    }
}

static void put_u32(gguf_writer *w, block *b, uint32_t value) {
    put(w, b, &value, sizeof value); // little-endian: the reader refuses to compile elsewhere
}

static void put_u64(gguf_writer *w, block *b, uint64_t value) {
    put(w, b, &value, sizeof value);
}

static void put_text(gguf_writer *w, block *b, const char *text) {
    put_u64(w, b, strlen(text));
    put(w, b, text, strlen(text));
}

static void put_key(gguf_writer *w, const char *key, gguf_value_type type) {
    put_text(w, &w->values, key);
    put_u32(w, &w->values, (uint32_t)type);
    w->n_values++;
}

void gguf_put_u16(gguf_writer *w, const char *key, uint16_t value) {
    put_key(w, key, GGUF_U16);
    put(w, &w->values, &value, sizeof value);
}

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value) {
    put_key(w, key, GGUF_U32);
    put(w, &w->values, &value, sizeof value);
}

void gguf_put_i32(gguf_writer *w, const char *key, int32_t value) {
    put_key(w, key, GGUF_I32);
    put(w, &w->values, &value, sizeof value);
}

void gguf_put_f32(gguf_writer *w, const char *key, float value) {
    put_key(w, key, GGUF_F32);
    put(w, &w->values, &value, sizeof value);
}

void gguf_put_string(gguf_writer *w, const char *key, const char *value) {
    put_key(w, key, GGUF_STRING);
    put_text(w, &w->values, value);
}

void gguf_put_i32_array(gguf_writer *w, const char *key, const int32_t *values, size_t count) {
    put_key(w, key, GGUF_ARRAY);
    put_u32(w, &w->values, GGUF_I32);
    put_u64(w, &w->values, count);
    put(w, &w->values, values, count * sizeof *values);
}

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t type, int n_dims, const int64_t *shape,
                     const void *data) {
    int64_t count = 1, elements = 1;
    size_t bytes = 0;
    put_text(w, &w->entries, name);
    put_u32(w, &w->entries, (uint32_t)n_dims);
    for (int i = n_dims - 1; i >= 0; i--) {
        put_u64(w, &w->entries, (uint64_t)shape[i]);
        count *= shape[i];
    }
    put_u32(w, &w->entries, type);
    put_u64(w, &w->entries, w->data);
    gguf_type_layout(type, &elements, &bytes);
    bytes *= (size_t)(count / elements);
    piece *pieces = io_grow(w->pieces, &w->pieces_capacity, w->n_pieces, sizeof *pieces);
    w->full = w->full || pieces == NULL;
    if (pieces != NULL) {
        w->pieces = pieces;
        pieces[w->n_pieces++] = (piece){data, bytes};
    }
    w->data += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// Zeros up to the next multiple of the alignment after `size` bytes.
static bool pad(io_replacement *r, size_t size, io_error err) {
    static const unsigned char zeros[ALIGNMENT];
    return io_replace_write(r, zeros, (ALIGNMENT - size % ALIGNMENT) % ALIGNMENT, err);
}

static bool write_all(const gguf_writer *w, io_replacement *r, io_error err) {
    unsigned char head[24] = "GGUF";
    const uint32_t version = 3;
    const uint64_t n_tensors = w->n_pieces;
    memcpy(head + 4, &version, sizeof version);
    memcpy(head + 8, &n_tensors, sizeof n_tensors);
    memcpy(head + 16, &w->n_values, sizeof w->n_values);
    if (!io_replace_write(r, head, sizeof head, err) || !io_replace_write(r, w->values.bytes, w->values.size, err) ||
        !io_replace_write(r, w->entries.bytes, w->entries.size, err) ||
        !pad(r, sizeof head + w->values.size + w->entries.size, err))
        return false;
    for (size_t i = 0; i < w->n_pieces; i++)
        if (!io_replace_write(r, w->pieces[i].data, w->pieces[i].bytes, err) || !pad(r, w->pieces[i].bytes, err))
            return false;
    return true;
}

bool gguf_writer_save(gguf_writer *w, const char *path, io_error err) {
    io_replacement r;
    if (w->full)
        return io_fail(err, "out of memory");
    if (!io_replace_begin(&r, path, err))
        return false;
    if (!write_all(w, &r, err)) {
        io_replace_abandon(&r);
        return false;
    }
    return io_replace_commit(&r, err);
}
