// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the safetensors reader on bytes in memory. Each input is tried twice, as a file and
// as header text up to its first NUL byte with data behind it: a mutation that changes the header's
// length then still has the right size in front. A refusal must leave one printable line; a file
// that is accepted must keep what safetensors.h promises.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static void check_line(const char *line) {
    require(*line != '\0', "a refusal says why");
    require(strlen(line) < ST_ERR_SIZE - 1, "ST_ERR_SIZE holds the line whole");
    for (; *line != '\0'; line++)
        require(*line >= 0x20 && *line <= 0x7e, "the line is printable ASCII");
}

// Reads every byte, and converts what is small.
static void check_tensor(const st_file *file, const st_tensor *t) {
    char err[ST_ERR_SIZE] = "";
    int64_t count = 1;
    volatile unsigned sum = 0;
    require(st_find(file, t->name) == t, "a tensor is found by its name");
    for (int i = 0; i < t->n_dims; i++)
        count *= t->shape[i];
    require(count == t->count, "count is the product of the shape");
    require((size_t)count * st_dtype_size(t->dtype) == t->bytes, "bytes fit the shape");
    for (size_t i = 0; i < t->bytes; i++)
        sum += t->data[i];
    (void)sum;
    if (count > 4096)
        return;
    float *floats = malloc((size_t)count * sizeof *floats + 1);
    int64_t *integers = malloc((size_t)count * sizeof *integers + 1);
    require(floats != NULL && integers != NULL, "memory");
    if (!st_to_f32(t, floats, err, sizeof err))
        check_line(err);
    if (!st_to_i64(t, integers, err, sizeof err))
        check_line(err);
    free(floats);
    free(integers);
}

static void check_file(const uint8_t *bytes, size_t size) {
    char err[ST_ERR_SIZE] = "";
    st_file *file = st_open_memory(bytes, size, err, sizeof err);
    if (file == NULL) {
        check_line(err);
        return;
    }
    size_t total = 0;
    for (int64_t i = 0; i < st_tensor_count(file); i++) {
        const st_tensor *t = st_tensor_at(file, i);
        require(i == 0 || strcmp(st_tensor_at(file, i - 1)->name, t->name) < 0, "names ascend");
        check_tensor(file, t);
        total += t->bytes;
    }
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    require(total == size - 8 - header, "the tensors cover the data");
    for (size_t i = 0; i < st_metadata_count(file); i++)
        require(st_metadata(file, st_metadata_key(file, i)) != NULL, "a key has a value");
    st_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_file(data, size);

    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    size_t header = nul != NULL ? (size_t)(nul - data) : size;
    size_t rest = nul != NULL ? size - header - 1 : 0;
    uint8_t *framed = malloc(8 + header + rest);
    require(framed != NULL, "memory");
    for (int i = 0; i < 8; i++)
        framed[i] = (uint8_t)((uint64_t)header >> (8 * i));
    if (header > 0)
        memcpy(framed + 8, data, header);
    if (rest > 0)
        memcpy(framed + 8 + header, nul + 1, rest);
    check_file(framed, 8 + header + rest);
    free(framed);
    return 0;
}
