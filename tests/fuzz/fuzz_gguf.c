// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the GGUF reader on bytes in memory, and what the command makes of a model's metadata. A refusal must leave
// one printable line; a file that is accepted must keep what gguf.h promises.
// SOURCES: tool/common.c tool/layer_config.c tool/model_config.c tool/model_gguf.c
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/stored_tensor.h"
#include "tool/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static void check_line(const char *line) {
    require(*line != '\0', "a refusal says why");
    for (; *line != '\0'; line++)
        require(*line >= 0x20 && *line <= 0x7e, "the line is printable ASCII");
}

static void check_value(const gguf_file *file, const gguf_value *v) {
    char key[GGUF_MAX_KEY + 1];
    gguf_text text;
    require(v->key.size >= 1 && v->key.size <= GGUF_MAX_KEY, "a key's length");
    memcpy(key, v->key.bytes, v->key.size);
    key[v->key.size] = '\0';
    require(strlen(key) != v->key.size || gguf_key(file, key) == v, "a value is found by its key");
    int64_t integer = 0;
    double real = 0;
    require(!gguf_integer(v, v->count, &integer) && !gguf_real(v, v->count, &real), "an array ends");
    for (uint64_t i = 0; i < v->count && i < 1000; i++) {
        const bool is_integer = gguf_integer(v, i, &integer), is_real = gguf_real(v, i, &real);
        require(!is_integer || !is_real, "an element is of one kind");
    }
    if (gguf_string(v, &text)) {
        volatile unsigned sum = 0;
        for (size_t i = 0; i < text.size; i++)
            sum += (unsigned char)text.bytes[i];
        (void)sum;
    }
}

// Reads every byte, and converts what is small.
static void check_tensor(const gguf_file *file, const gguf_tensor *t) {
    char err[512] = "";
    int64_t count = 1, block = 1;
    size_t bytes = 0;
    volatile unsigned sum = 0;
    require(gguf_find(file, t->name) == t, "a tensor is found by its name");
    for (int i = 0; i < t->n_dims; i++)
        count *= t->shape[i];
    require(count == t->count, "count is the product of the shape");
    if (!gguf_type_layout(t->type, &block, &bytes)) {
        require(t->data == NULL && t->bytes == 0, "a type that is not known has no data");
    } else {
        require((size_t)(count / block) * bytes == t->bytes && t->data != NULL, "bytes fit the shape");
        for (size_t i = 0; i < t->bytes; i++)
            sum += t->data[i];
    }
    (void)sum;
    if (count > 4096)
        return;
    const stored_tensor stored = stored_of_gguf(t);
    float *values = malloc((size_t)count * sizeof *values);
    require(values != NULL, "memory");
    if (!stored_to_f32(&stored, values, (io_error){err, sizeof err}))
        check_line(err);
    free(values);
}

static void check_model(const uint8_t *data, size_t size) {
    char err[512] = "";
    tool_error error = {""};
    model_config config;
    gguf_set *set = gguf_set_open_memory(data, size, (io_error){err, sizeof err});
    if (set == NULL)
        return;
    if (model_config_of_gguf(set, &config, &error)) {
        require(qsa_geometry_check(&config.geometry) == QSA_OK && config.hidden > 0, "a geometry that can be computed");
        require(model_config_qsa_layers(&config) > 0, "a model has a QSA layer");
        model_config_free(&config);
    } else {
        require(*error.text != '\0', "a refusal says why");
    }
    gguf_set_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char err[512] = "";
    gguf_file *file = gguf_open_memory(data, size, (io_error){err, sizeof err});
    if (file == NULL) {
        check_line(err);
        return 0;
    }
    for (size_t i = 0; i < gguf_value_count(file); i++)
        check_value(file, gguf_value_at(file, i));
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        require(i == 0 || strcmp(gguf_tensor_at(file, i - 1)->name, t->name) < 0, "names ascend");
        check_tensor(file, t);
    }
    gguf_close(file);
    check_model(data, size);
    return 0;
}
