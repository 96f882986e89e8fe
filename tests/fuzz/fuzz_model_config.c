// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: config.json of a checkpoint. A refusal must say why; of a config that is accepted the geometry can be
// computed, and written out and read again it is the same.
// SOURCES: tool/common.c tool/layer_config.c tool/model_config.c
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/layer_config.h"
#include "tool/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}

static void check_again(const model_config *config) {
    tool_error error = {""};
    qsa_geometry again;
    int32_t hidden = 0;
    json_t *object = layer_config_make(&config->geometry, config->hidden);
    char *text = json_dumps(object, JSON_COMPACT | LAYER_CONFIG_DUMP);
    require(text != NULL && layer_config_read(text, &again, &hidden, &error), "what was written can be read");
    require(again.eps == config->geometry.eps, "every bit of eps is there");
    json_t *second = layer_config_make(&again, hidden);
    char *second_text = json_dumps(second, JSON_COMPACT | LAYER_CONFIG_DUMP);
    require(second_text != NULL && strcmp(text, second_text) == 0, "and is the same");
    free(text);
    free(second_text);
    json_decref(object);
    json_decref(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tool_error error = {""};
    model_config config;
    if (!model_config_read((const char *)data, size, &config, &error)) {
        require(*error.text != '\0' && config.qsa == NULL, "a refusal says why and keeps nothing");
        return 0;
    }
    require(qsa_geometry_check(&config.geometry) == QSA_OK, "a geometry that can be computed");
    require(config.layers >= 1 && config.layers <= MODEL_MAX_LAYERS && config.hidden >= 1, "counts are in range");
    for (int32_t i = 0; i < config.layers; i++)
        require(config.qsa[i] <= 1 && model_config_check_layer(&config, i, &error) == config.qsa[i],
                "a layer is one or is not");
    require(*model_config_layers(&config).text != '\0', "the list is there");
    check_again(&config);
    model_config_free(&config);
    return 0;
}
