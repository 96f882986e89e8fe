// SPDX-License-Identifier: Apache-2.0
//
// Opens models and finds the tensors of a layer under the names of their format.

#include "model.h"

#include "io/file_map.h"
#include "layer_config.h"
#include "layer_weights.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// What stands in front of the layer's number. The first is the official one.
static const char *const prefixes[] = {
    "model.language_model.layers.", "model.layers.", "language_model.model.layers.",
    "language_model.layers.",       "layers.",
};
#define PREFIXES (sizeof prefixes / sizeof *prefixes)

// Names below the layer: ours (and the checkpoints'), and GGUF's; two where it splits the rows.
static const struct {
    const char *name, *first, *second;
} gguf_names[] = {
    {"self_attn.q_proj", "attn_q", NULL},
    {"self_attn.k_proj", "attn_k", NULL},
    {"self_attn.v_proj", "attn_v", NULL},
    {"self_attn.o_proj", "attn_output", NULL},
    {"self_attn.q_norm", "attn_q_norm", NULL},
    {"self_attn.k_norm", "attn_k_norm", NULL},
    {"self_attn.indexer.index_qk_proj", "indexer.q_proj", "indexer.k_proj"},
    {"self_attn.indexer.q_layernorm", "indexer.q_norm", NULL},
    {"self_attn.indexer.k_layernorm", "indexer.k_norm", NULL},
};
#define GGUF_NAMES (sizeof gguf_names / sizeof *gguf_names)

typedef struct model_source {
    layer_source source;
    const model *from;
    int32_t layer;
    const char *prefix; // a checkpoint's
} model_source;

static bool find_st(const model *from, const char *name, const st_tensor **tensor, tool_error *error) {
    char line[ST_ERR_SIZE];
    return st_set_find(from->set, name, tensor, (io_error){line, sizeof line}) || tool_fail(error, "%.1000s", line);
}

// F8_E4M3 is read with the scales beside it.
static bool add_scales(const model *from, const char *name, stored_tensor *tensor, tool_error *error) {
    char scales_name[256];
    char line[ST_ERR_SIZE];
    const st_tensor *scales = NULL;
    snprintf(scales_name, sizeof scales_name, "%s_scale_inv", name);
    if (!find_st(from, scales_name, &scales, error)) {
        return false;
    }
    if (!scales) {
        return tool_fail(error, "%s has the type F8_E4M3, and there is no tensor %s with its block scales", name,
                         scales_name);
    }
    return stored_set_scales(tensor, scales, (io_error){line, sizeof line}) || tool_fail(error, "%.1000s", line);
}

static bool find_checkpoint(const layer_source *source, const char *name, bool required, layer_matrix *matrix,
                            tool_error *error) {
    const model_source *s = (const model_source *)source;
    const st_tensor *tensor = NULL;
    char full[200];
    *matrix = (layer_matrix){0};
    snprintf(full, sizeof full, "%s%d.%s", s->prefix, s->layer, name);
    if (!find_st(s->from, full, &tensor, error)) {
        return false;
    }
    if (!tensor) {
        return !required || tool_fail(error, "no tensor %s", full);
    }
    matrix->parts = 1;
    matrix->part[0] = stored_of_st(tensor);
    return matrix->part[0].encoding != STORED_F8_E4M3 || add_scales(s->from, full, &matrix->part[0], error);
}

// The prefix below which the layer's q_proj lies, the official one if it lies nowhere.
static bool find_prefix(model_source *s, tool_error *error) {
    s->prefix = prefixes[0];
    for (size_t i = 0; i < PREFIXES; i++) {
        const st_tensor *tensor = NULL;
        char full[200];
        snprintf(full, sizeof full, "%s%d.self_attn.q_proj.weight", prefixes[i], s->layer);
        if (!find_st(s->from, full, &tensor, error)) {
            return false;
        }
        if (tensor) {
            s->prefix = prefixes[i];
            return true;
        }
    }
    return true;
}

// Adds the tensor blk.N.NAME.KIND to the matrix. False and its name as a line when there is none.
static bool add_part(const model_source *s, const char *name, const char *kind, layer_matrix *matrix,
                     tool_error *error) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s%s", s->layer, name, kind);
    const gguf_tensor *tensor = gguf_set_find(s->from->parts, full);
    if (!tensor) {
        return tool_fail(error, "no tensor %s", full);
    }
    matrix->part[matrix->parts++] = stored_of_gguf(tensor);
    return true;
}

static bool find_gguf(const layer_source *source, const char *name, bool required, layer_matrix *matrix,
                      tool_error *error) {
    const model_source *s = (const model_source *)source;
    const char *kind = strrchr(name, '.'); // ".weight" or ".bias"
    *matrix = (layer_matrix){0};
    for (size_t i = 0; kind && i < GGUF_NAMES; i++) {
        const size_t size = strlen(gguf_names[i].name);
        const char *second = gguf_names[i].second;
        if (strncmp(gguf_names[i].name, name, size) != 0 || name + size != kind) {
            continue;
        }
        if (!add_part(s, gguf_names[i].first, kind, matrix, error)) {
            // Half of what was split is no bias: it must not be left out silently.
            return !required && (!second || !add_part(s, second, kind, matrix, error));
        }
        return !second || add_part(s, second, kind, matrix, error);
    }
    return tool_fail(error, "%s has no name in GGUF", name);
}

bool model_open_layer(const model *from, int32_t layer, layer_file *file, tool_error *error) {
    const unsigned plain = STORED_F32 | STORED_F16 | STORED_BF16;
    model_source s = {.from = from, .layer = layer};
    if (!model_config_check_layer(&from->config, layer, error)) {
        return false;
    }
    if (from->set) {
        s.source = (layer_source){find_checkpoint, plain | STORED_F8_E4M3,
                                  "F32, F16, BF16 or F8_E4M3 with scales of 128 x 128 blocks", QSA_NORM_ZERO_CENTRED};
        return find_prefix(&s, error) && layer_weights_open(file, &s.source, error);
    }
    s.source = (layer_source){find_gguf, plain | STORED_Q8_0, "F32, F16, BF16 or Q8_0", QSA_NORM_FACTOR};
    return layer_weights_open(file, &s.source, error);
}

static bool read_config(model *from, tool_error *error) {
    char path[4096];
    char line[ST_ERR_SIZE];
    io_map map;
    if (snprintf(path, sizeof path, "%s/config.json", from->path) >= (int)sizeof path) {
        return tool_fail(error, "the path is too long");
    }
    if (!io_map_open(&map, path, (io_error){line, sizeof line})) {
        return tool_fail(error, "config.json: %.900s", line);
    }
    const bool read = model_config_read(map.size ? (const char *)map.bytes : "", map.size, &from->config, error);
    io_map_close(&map);
    return read;
}

static bool make_text(model *from, tool_error *error) {
    json_t *config = layer_config_make(&from->config.geometry, from->config.hidden);
    from->text = config ? json_dumps(config, JSON_COMPACT | LAYER_CONFIG_DUMP) : NULL;
    json_decref(config);
    return from->text || tool_fail(error, "no memory for the geometry");
}

bool model_open(model *from, const char *path, bool gguf, tool_error *error) {
    char line[ST_ERR_SIZE] = "";
    const io_error err = {line, sizeof line};
    *from = (model){.path = path};
    bool opened = false;
    if (gguf) {
        from->parts = gguf_set_open(path, err);
        opened =
            from->parts ? model_config_of_gguf(from->parts, &from->config, error) : tool_fail(error, "%.1000s", line);
    } else if (read_config(from, error)) {
        from->set = st_set_open(path, err);
        opened = from->set || tool_fail(error, "%.1000s", line);
    }
    if (!opened || !make_text(from, error)) {
        model_close(from);
        return false;
    }
    return true;
}

void model_close(model *from) {
    st_set_close(from->set);
    gguf_set_close(from->parts);
    model_config_free(&from->config);
    free(from->text);
    *from = (model){0};
}

// The folder of a path, in `folder`; its result is the name in it.
static const char *split_path(const char *path, char folder[static 4096]) {
    const char *slash = strrchr(path, '/');
    if (!slash) {
        snprintf(folder, 4096, ".");
        return path;
    }
    snprintf(folder, 4096, "%.*s/", (int)(slash - path), path);
    return slash + 1;
}

bool model_owns(const model *from, const char *path) {
    char folder[4096];
    char own[4096];
    struct stat a;
    struct stat b;
    const char *name = split_path(path, folder);
    const size_t size = strlen(name);
    if (from->set) {
        snprintf(own, sizeof own, "%s/", from->path);
    } else {
        split_path(from->path, own);
    }
    if (stat(folder, &a) != 0 || stat(own, &b) != 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino) {
        return false;
    }
    return from->set ? st_set_names(from->set, name) || strcmp(name, "config.json") == 0
                     : size > 5 && strcmp(name + size - 5, ".gguf") == 0;
}
