// SPDX-License-Identifier: Apache-2.0

#include "host/host_copies.h"

static void *add(host_copies *c, const void *array, void *back, size_t bytes) {
    if (c->status != QSA_OK || bytes == 0)
        return NULL;
    void *memory;
    c->status = qsa_memory_alloc(c->context, bytes, &memory);
    if (c->status != QSA_OK)
        return NULL;
    c->copy[c->count].device = memory;
    c->copy[c->count].host = back;
    c->copy[c->count++].bytes = bytes;
    if (array)
        c->status = qsa_memory_copy(c->context, memory, array, bytes);
    return memory;
}

void *host_in(host_copies *c, const void *array, size_t bytes) {
    return array ? add(c, array, NULL, bytes) : NULL;
}

void *host_both(host_copies *c, void *array, size_t bytes) {
    return array ? add(c, array, array, bytes) : NULL;
}

void *host_room(host_copies *c, size_t bytes) {
    return add(c, NULL, NULL, bytes);
}

// Bytes before and behind the first element that an array of rows takes.
static void extent(int64_t row_stride, int64_t head_stride, qsa_type type, int32_t count, int32_t heads, int32_t dim,
                   size_t *before, size_t *bytes) {
    const int64_t rows = (int64_t)(count - 1) * row_stride, across = (int64_t)(heads - 1) * head_stride;
    const int64_t low = (rows < 0 ? rows : 0) + (across < 0 ? across : 0);
    const int64_t high = (rows > 0 ? rows : 0) + (across > 0 ? across : 0) + (int64_t)dim * (type == QSA_F32 ? 4 : 2);
    *before = (size_t)-low;
    *bytes = (size_t)(high - low);
}

qsa_rows host_rows_in(host_copies *c, const qsa_rows *rows, int32_t count, int32_t heads, int32_t dim) {
    qsa_rows made = *rows;
    if (!rows->data || count < 1)
        return made;
    size_t before, bytes;
    extent(rows->row_stride, heads > 1 ? rows->head_stride : 0, rows->type, count, heads, dim, &before, &bytes);
    unsigned char *memory = host_in(c, (const unsigned char *)rows->data - before, bytes);
    made.data = memory ? memory + before : NULL;
    return made;
}

qsa_rows_out host_rows_both(host_copies *c, const qsa_rows_out *rows, int32_t count, int32_t heads, int32_t dim) {
    qsa_rows_out made = *rows;
    if (!rows->data || count < 1)
        return made;
    size_t before, bytes;
    extent(rows->row_stride, heads > 1 ? rows->head_stride : 0, rows->type, count, heads, dim, &before, &bytes);
    unsigned char *memory = host_both(c, (unsigned char *)rows->data - before, bytes);
    made.data = memory ? memory + before : NULL;
    return made;
}

qsa_selection host_selection(host_copies *c, const qsa_selection *selection, int32_t rows) {
    qsa_selection made = *selection;
    const size_t n = (size_t)rows;
    made.ids = host_both(c, selection->ids, n * (size_t)selection->stride * sizeof(int32_t));
    made.count = host_both(c, selection->count, n * sizeof(int32_t));
    made.cut_index = host_both(c, selection->cut_index, n * sizeof(int32_t));
    made.cut_cells = host_both(c, selection->cut_cells, n * sizeof(int32_t));
    return made;
}

qsa_status host_finish(host_copies *c, qsa_status status) {
    if (status == QSA_OK)
        status = c->status;
    for (int i = 0; i < c->count; i++) {
        if (status == QSA_OK && c->copy[i].host)
            status = qsa_memory_copy(c->context, c->copy[i].host, c->copy[i].device, c->copy[i].bytes);
        qsa_memory_free(c->context, c->copy[i].device, c->copy[i].bytes);
    }
    return status;
}
