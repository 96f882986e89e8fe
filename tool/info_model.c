// SPDX-License-Identifier: Apache-2.0
//
// Prints a model. The memory is that of `qsa size`: one sequence, all QSA layers, f32 block keys, 64 cells of rollback.

#include "info_model.h"

#include "io/io_util.h"
#include "layer_config.h"
#include "model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t contexts[] = {4096, 32768, 262144, 1048576};
static const qsa_type formats[] = {QSA_F32, QSA_F16, QSA_BF16, QSA_I8};

enum { CONTEXTS = 4, FORMATS = 4 };

typedef struct description {
    model from;
    layer_file layer; // weights and norms of the first QSA layer
    int32_t first;    // its number
    size_t bytes[CONTEXTS][FORMATS];
} description;

static bool measure(description *d, tool_error *error) {
    const int32_t layers = model_config_qsa_layers(&d->from.config);
    for (int c = 0; c < CONTEXTS; c++) {
        for (int f = 0; f < FORMATS; f++) {
            qsa_cache_config config;
            qsa_cache_config_init(&config, &d->from.config.geometry, contexts[c]);
            config.layers = layers;
            config.kv_type = formats[f];
            config.pages = (contexts[c] + config.page_cells - 1) / config.page_cells;
            if (qsa_cache_size(&config, &d->bytes[c][f]) != QSA_OK) {
                return tool_fail_qsa(error, "cache");
            }
        }
    }
    return true;
}

static bool describe(description *d, const char *path, bool gguf, tool_error *error) {
    *d = (description){0};
    if (!model_open(&d->from, path, gguf, error)) {
        return false;
    }
    const model_config *config = &d->from.config;
    while (d->first < config->layers && !config->qsa[d->first]) {
        d->first++;
    }
    d->layer.geometry = config->geometry;
    d->layer.hidden = config->hidden;
    return model_open_layer(&d->from, d->first, &d->layer, error) && measure(d, error);
}

static void forget(description *d) {
    layer_file_close(&d->layer);
    model_close(&d->from);
}

// The name below self_attn.
static const char *short_name(int weight) {
    return layer_weight_name((layer_weight)weight) + strlen("self_attn.");
}

static void print_table(const description *d) {
    const model_config *config = &d->from.config;
    const qsa_geometry *g = &config->geometry;
    printf("%s %s\n", d->from.set ? "checkpoint" : "gguf      ", io_quote_string(d->from.path).text);
    printf("geometry   %d / %d heads x %d, indexer %d x %d, rotary %d (%d %d %d), theta %g, eps %g\n", g->heads,
           g->kv_heads, g->head_dim, g->index_heads, g->index_dim, g->rotary_dim, g->sections[0], g->sections[1],
           g->sections[2], g->theta, (double)g->eps);
    printf("           budget %d, ratio %d, hidden size %d\n", g->budget, g->ratio, config->hidden);
    printf("layers     %d, QSA layers: %s\n", config->layers, model_config_layers(config).text);
    if (*config->dtype || config->fp8) {
        printf("config     dtype %s%s\n", *config->dtype ? config->dtype : "not said",
               config->fp8 ? ", fp8 with blocks of 128 x 128" : "");
    }
    printf("weights    layer %d:", d->first);
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        printf("%s %s %s", w ? "," : "", short_name(w), d->layer.weight[w].part[0].type);
    }
    printf("\n\nmemory of a cache for %d QSA layer%s, one sequence, in MiB (more: qsa size)\n%12s",
           model_config_qsa_layers(config), model_config_qsa_layers(config) == 1 ? "" : "s", "cells");
    for (int f = 0; f < FORMATS; f++) {
        printf(" %11s", tool_type_name(formats[f]));
    }
    for (int c = 0; c < CONTEXTS; c++) {
        printf("\n%12d", contexts[c]);
        for (int f = 0; f < FORMATS; f++) {
            printf(" %11.1f", (double)d->bytes[c][f] / 1048576);
        }
    }
    printf("\n");
}

static bool print_json(const description *d, tool_error *error) {
    const model_config *config = &d->from.config;
    json_t *layers = json_array();
    json_t *weights = json_object();
    json_t *memory = json_array();
    for (int32_t i = 0; i < config->layers; i++) {
        if (config->qsa[i]) {
            json_array_append_new(layers, json_integer(i));
        }
    }
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        json_object_set_new(weights, short_name(w), json_string(d->layer.weight[w].part[0].type));
    }
    for (int c = 0; c < CONTEXTS; c++) {
        json_t *row = json_pack("{s:i}", "ctx", (int)contexts[c]);
        for (int f = 0; f < FORMATS; f++) {
            json_object_set_new(row, tool_type_name(formats[f]), json_integer((json_int_t)d->bytes[c][f]));
        }
        json_array_append_new(memory, row);
    }
    json_t *path = json_string(d->from.path);
    json_t *object =
        json_pack("{s:o, s:o, s:i, s:o, s:s, s:b, s:o, s:o}", d->from.set ? "checkpoint" : "gguf",
                  path ? path : json_string(io_quote_string(d->from.path).text), "config",
                  layer_config_make(&config->geometry, config->hidden), "layers", (int)config->layers, "qsa_layers",
                  layers, "dtype", config->dtype, "fp8", (int)config->fp8, "weights", weights, "memory", memory);
    char *text = object ? json_dumps(object, JSON_COMPACT | LAYER_CONFIG_DUMP) : NULL;
    json_decref(object);
    if (!text) {
        return tool_fail(error, "no memory for the JSON object");
    }
    puts(text);
    free(text);
    return true;
}

int info_model(const char *path, bool gguf, bool json) {
    tool_error error = {""};
    description d;
    bool done = describe(&d, path, gguf, &error);
    if (done && json) {
        done = print_json(&d, &error);
    } else if (done) {
        print_table(&d);
    }
    forget(&d);
    return done ? TOOL_OK : tool_report(path, &error);
}
