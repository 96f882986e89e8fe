// SPDX-License-Identifier: Apache-2.0
//
// config.json to model_config. The text model's part is the object `text_config`, or the whole where there is none.

#include "model_config.h"

#include "io/io_util.h"
#include "io/stored_tensor.h"
#include "layer_config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Each key's value is `wanted`, or absent; a line otherwise.
static bool expect_string(const json_t *object, const char *key, const char *wanted, tool_error *error) {
    const json_t *value = json_object_get(object, key);
    return !value || (json_is_string(value) && strcmp(json_string_value(value), wanted) == 0) ||
           tool_fail(error, "config: %s is %s, expected \"%s\"", key, layer_config_show(value).text, wanted);
}

static bool read_count(const json_t *object, const char *key, int32_t fallback, int32_t *out, tool_error *error) {
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (!value && fallback) {
        return true;
    }
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > MODEL_MAX_LAYERS) {
        return tool_fail(error, "config: %s is %s, expected an integer from 1 to %d", key,
                         layer_config_show(value).text, MODEL_MAX_LAYERS);
    }
    *out = (int32_t)number;
    return true;
}

// One entry of layer_types. The shipped checkpoints call a QSA layer full_attention.
static bool read_layer_type(const json_t *type, int32_t layer, uint8_t *qsa, tool_error *error) {
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    *qsa = strcmp(name, "qwen_sparse_attention") == 0 || strcmp(name, "full_attention") == 0;
    return *qsa || strcmp(name, "linear_attention") == 0 ||
           tool_fail(error,
                     "config: layer_types[%d] is %s, expected \"linear_attention\", \"qwen_sparse_attention\" or "
                     "\"full_attention\"",
                     layer, layer_config_show(type).text);
}

static bool read_layers(const json_t *text, model_config *config, tool_error *error) {
    const json_t *types = json_object_get(text, "layer_types");
    int32_t interval = 0;
    if (!read_count(text, "num_hidden_layers", 0, &config->layers, error) ||
        !read_count(text, "full_attention_interval", 4, &interval, error)) {
        return false;
    }
    if (types && !json_is_null(types) && (!json_is_array(types) || json_array_size(types) != (size_t)config->layers)) {
        return tool_fail(error, "config: layer_types is %s, expected an array of num_hidden_layers (%d) names",
                         layer_config_show(types).text, config->layers);
    }
    config->qsa = tool_array((size_t)config->layers, 1, true, error);
    if (!config->qsa) {
        return false;
    }
    for (int32_t i = 0; i < config->layers; i++) {
        config->qsa[i] = (i + 1) % interval == 0;
        if (json_is_array(types) && !read_layer_type(json_array_get(types, (size_t)i), i, &config->qsa[i], error)) {
            return false;
        }
    }
    return true;
}

static bool read_quantization(const json_t *object, model_config *config, tool_error *error) {
    const json_t *how = json_object_get(object, "quantization_config");
    if (!how || json_is_null(how)) {
        return true;
    }
    const json_t *method = json_object_get(how, "quant_method");
    if (!json_is_string(method) || strcmp(json_string_value(method), "fp8") != 0) {
        return tool_fail(error, "config: quantization_config: quant_method is %s, this tool reads \"fp8\"",
                         layer_config_show(method).text);
    }
    const json_t *block = json_object_get(how, "weight_block_size");
    if (json_array_size(block) != 2 || json_integer_value(json_array_get(block, 0)) != STORED_FP8_BLOCK ||
        json_integer_value(json_array_get(block, 1)) != STORED_FP8_BLOCK) {
        return tool_fail(error, "config: quantization_config: weight_block_size is %s, this tool reads [128,128]",
                         layer_config_show(block).text);
    }
    config->fp8 = true;
    return expect_string(how, "fmt", "e4m3", error);
}

static bool read_object(const json_t *root, model_config *config, tool_error *error) {
    const json_t *nested = json_object_get(root, "text_config");
    const json_t *text = nested ? nested : root;
    if (!json_is_object(text)) {
        return tool_fail(error, "config: text_config is %s, expected an object", layer_config_show(text).text);
    }
    const json_t *type = json_object_get(root, "model_type");
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    if (strcmp(name, "qwen4_exp") != 0 && (nested || strcmp(name, "qwen4_exp_text") != 0)) {
        return tool_fail(error, "config: model_type is %s, this tool reads \"qwen4_exp\"",
                         layer_config_show(type).text);
    }
    if (!layer_config_geometry(text, &config->geometry, &config->hidden, error)) {
        return false;
    }
    if (!config->hidden) {
        return tool_fail(error, "config: hidden_size is missing");
    }
    const json_t *dtype = json_object_get(text, "dtype");
    dtype = dtype ? dtype : json_object_get(text, "torch_dtype");
    dtype = dtype ? dtype : json_object_get(root, "dtype");
    dtype = dtype ? dtype : json_object_get(root, "torch_dtype");
    if (json_is_string(dtype)) {
        snprintf(config->dtype, sizeof config->dtype, "%.20s", io_quote_string(json_string_value(dtype)).text);
    }
    return read_layers(text, config, error) && read_quantization(root, config, error) &&
           (text == root || read_quantization(text, config, error));
}

bool model_config_read(const char *text, size_t size, model_config *config, tool_error *error) {
    *config = (model_config){0};
    if (size > MODEL_MAX_CONFIG) {
        return tool_fail(error, "config: %zu bytes, expected at most %d", size, MODEL_MAX_CONFIG);
    }
    json_error_t where;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        return tool_fail(error, "config: JSON line %d column %d: %s", where.line, where.column,
                         io_quote_string(where.text).text);
    }
    const bool read =
        json_is_object(root) ? read_object(root, config, error) : tool_fail(error, "config: it is no JSON object");
    json_decref(root);
    if (!read) {
        model_config_free(config);
    }
    return read;
}

void model_config_free(model_config *config) {
    free(config->qsa);
    *config = (model_config){0};
}

int32_t model_config_qsa_layers(const model_config *config) {
    int32_t count = 0;
    for (int32_t i = 0; i < config->layers; i++) {
        count += config->qsa[i];
    }
    return count;
}

model_layers model_config_layers(const model_config *config) {
    model_layers list = {"none"};
    size_t used = 0;
    for (int32_t i = 0; i < config->layers; i++) {
        if (!config->qsa[i]) {
            continue;
        }
        if (used + 24 > sizeof list.text) {
            snprintf(list.text + used, sizeof list.text - used, ", ...");
            break;
        }
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%d", used ? ", " : "", i);
    }
    return list;
}

bool model_config_check_layer(const model_config *config, int32_t layer, tool_error *error) {
    const model_layers list = model_config_layers(config);
    if (layer < 0 || layer >= config->layers) {
        return tool_fail(error, "layer %d: the model has layers 0 to %d; QSA layers: %s", layer, config->layers - 1,
                         list.text);
    }
    return config->qsa[layer] || tool_fail(error, "layer %d is no QSA layer; QSA layers: %s", layer, list.text);
}
