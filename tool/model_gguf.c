// SPDX-License-Identifier: Apache-2.0
//
// GGUF metadata to model_config. Keys begin with the architecture, qwen4exp. A key that is per layer in some files (an
// array of block_count) is read at the first QSA layer.

#include "model_config.h"

#include "io/io_util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCHITECTURE "qwen4exp"

typedef struct reader {
    const gguf_set *set;
    const char *key; // the last one asked for, without the architecture
    tool_error *error;
} reader;

static const gguf_value *find(reader *r, const char *key) {
    char name[128];
    r->key = key;
    snprintf(name, sizeof name, ARCHITECTURE ".%s", key);
    return gguf_set_key(r->set, name);
}

static bool fail_missing(const reader *r) {
    return tool_fail(r->error, "no metadata key " ARCHITECTURE ".%s", r->key);
}

// An integer, or that of layer `layer` in an array.
static bool read_int(reader *r, const char *key, int32_t layer, int32_t most, int32_t *out) {
    const gguf_value *value = find(r, key);
    int64_t number = 0;
    if (!value) {
        return fail_missing(r);
    }
    if (!gguf_integer(value, value->array ? (uint64_t)layer : 0, &number)) {
        return tool_fail(r->error, ARCHITECTURE ".%s holds no integer%s", key,
                         value->array ? " for the first QSA layer" : "");
    }
    if (number < 1 || number > most) {
        return tool_fail(r->error, ARCHITECTURE ".%s is %lld, expected an integer from 1 to %d", key, (long long)number,
                         most);
    }
    *out = (int32_t)number;
    return true;
}

static bool read_real(reader *r, const char *key, double *out) {
    const gguf_value *value = find(r, key);
    if (!value) {
        return fail_missing(r);
    }
    return (!value->array && gguf_real(value, 0, out) && *out > 0 && isfinite(*out)) ||
           tool_fail(r->error, ARCHITECTURE ".%s is no number above 0", key);
}

// compress_ratios: the ratio of each QSA layer, 0 for the others. *first is the first QSA layer.
static bool read_layers(reader *r, model_config *config, int32_t *first) {
    if (!read_int(r, "block_count", 0, MODEL_MAX_LAYERS, &config->layers)) {
        return false;
    }
    const gguf_value *ratios = find(r, "attention.compress_ratios");
    if (!ratios) {
        return fail_missing(r);
    }
    config->qsa = tool_array((size_t)config->layers, 1, true, r->error);
    if (!config->qsa) {
        return false;
    }
    *first = -1;
    for (int32_t i = 0; i < config->layers; i++) {
        int64_t ratio = 0;
        if (!ratios->array || !gguf_integer(ratios, (uint64_t)i, &ratio) || ratio < 0 || ratio > QSA_MAX_RATIO) {
            return tool_fail(r->error, ARCHITECTURE ".%s holds no integer from 0 to %d for layer %d", r->key,
                             QSA_MAX_RATIO, i);
        }
        if (ratio && *first >= 0 && ratio != config->geometry.ratio) {
            return tool_fail(r->error,
                             ARCHITECTURE ".%s holds %d for layer %d and %lld for layer %d, expected one ratio", r->key,
                             config->geometry.ratio, *first, (long long)ratio, i);
        }
        if (ratio && *first < 0) {
            config->geometry.ratio = (int32_t)ratio;
            *first = i;
        }
        config->qsa[i] = ratio > 0;
    }
    return *first >= 0 || tool_fail(r->error, ARCHITECTURE ".%s names no QSA layer", r->key);
}

// Four numbers, the last of them 0: the axes of M-RoPE.
static bool read_sections(reader *r, qsa_geometry *g) {
    const gguf_value *value = find(r, "rope.dimension_sections");
    if (!value) {
        return fail_missing(r);
    }
    bool right = value->array && value->count >= 3 && value->count <= 4;
    for (uint64_t i = 0; right && i < value->count; i++) {
        int64_t number = 0;
        right = gguf_integer(value, i, &number) && number >= 0 && number <= (i < 3 ? QSA_MAX_HEAD_DIM : 0);
        if (i < 3) {
            g->sections[i] = (int32_t)number;
        }
    }
    return right ||
           tool_fail(r->error, ARCHITECTURE ".%s is no array of 3 integers, or 4 of which the last is 0", r->key);
}

static bool read_rope(reader *r, qsa_geometry *g) {
    gguf_text text;
    const gguf_value *scaling = find(r, "rope.scaling.type");
    if (scaling && (!gguf_string(scaling, &text) || !gguf_text_is(text, "none"))) {
        return tool_fail(r->error, ARCHITECTURE ".%s is not \"none\", and this library computes no other", r->key);
    }
    return read_int(r, "rope.dimension_count", 0, QSA_MAX_HEAD_DIM, &g->rotary_dim) &&
           read_real(r, "rope.freq_base", &g->theta) && read_sections(r, g);
}

static bool read_all(reader *r, model_config *config) {
    qsa_geometry *g = &config->geometry;
    int32_t layer = 0;
    int32_t value_dim = 0;
    double eps = 0;
    if (!read_layers(r, config, &layer) || !read_int(r, "embedding_length", 0, INT32_MAX, &config->hidden) ||
        !read_int(r, "attention.head_count", layer, QSA_MAX_HEADS, &g->heads) ||
        !read_int(r, "attention.head_count_kv", layer, QSA_MAX_HEADS, &g->kv_heads) ||
        !read_int(r, "attention.key_length", 0, QSA_MAX_HEAD_DIM, &g->head_dim) ||
        !read_int(r, "attention.value_length", 0, QSA_MAX_HEAD_DIM, &value_dim) ||
        !read_int(r, "attention.indexer.head_count", 0, QSA_MAX_HEADS, &g->index_heads) ||
        !read_int(r, "attention.indexer.key_length", 0, QSA_MAX_HEAD_DIM, &g->index_dim) ||
        !read_int(r, "attention.indexer.top_k", 0, QSA_MAX_BUDGET, &g->budget) ||
        !read_real(r, "attention.layer_norm_rms_epsilon", &eps) || !read_rope(r, g)) {
        return false;
    }
    g->eps = (float)eps;
    if (value_dim != g->head_dim) {
        return tool_fail(r->error, ARCHITECTURE ".attention.value_length is %d and key_length %d, expected one length",
                         value_dim, g->head_dim);
    }
    return qsa_geometry_check(g) == QSA_OK || tool_fail_qsa(r->error, "metadata");
}

bool model_config_of_gguf(const gguf_set *set, model_config *config, tool_error *error) {
    reader r = {.set = set, .error = error};
    gguf_text name = {"", 0};
    *config = (model_config){.geometry = {.size = sizeof config->geometry}};
    const gguf_value *architecture = gguf_set_key(set, "general.architecture");
    if (!architecture || !gguf_string(architecture, &name) || !gguf_text_is(name, ARCHITECTURE)) {
        return tool_fail(error, "general.architecture is '%s', this tool reads " ARCHITECTURE,
                         io_quote(name.bytes, name.size).text);
    }
    if (read_all(&r, config)) {
        return true;
    }
    model_config_free(config);
    return false;
}
