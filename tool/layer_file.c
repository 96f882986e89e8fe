// SPDX-License-Identifier: Apache-2.0
//
// Opens a layer file, looks every tensor up, checks types, shapes and values, and lays out what the pipeline walks:
// visible tokens, their cells and positions. Sizes that are multiplied later (B * T, rows of weights) are bounded here.

#include "layer_file.h"

#include "expected.h"
#include "layer_config.h"
#include "layer_weights.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_float(st_dtype dtype) {
    return dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16;
}

static bool is_integer(st_dtype dtype) {
    return dtype == ST_I64 || dtype == ST_I32 || dtype == ST_I16 || dtype == ST_I8 || dtype == ST_U64 ||
           dtype == ST_U32 || dtype == ST_U16 || dtype == ST_U8 || dtype == ST_BOOL;
}

// "[2, 43, 64]", in a buffer of the caller.
static const char *shape_text(int n_dims, const int64_t *shape, char text[static 192]) {
    size_t used = (size_t)snprintf(text, 192, "[");
    for (int i = 0; i < n_dims; i++) {
        used += (size_t)snprintf(text + used, 192 - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    snprintf(text + used, 192 - used, "]");
    return text;
}

bool layer_shape_fits(const char *name, int has_dims, const int64_t *has, int n_dims, const int64_t *shape,
                      tool_error *error) {
    if (has_dims == n_dims && memcmp(has, shape, (size_t)n_dims * sizeof *shape) == 0) {
        return true;
    }
    char has_text[192];
    char wanted[192];
    return tool_fail(error, "%s has the shape %s, expected %s", name, shape_text(has_dims, has, has_text),
                     shape_text(n_dims, shape, wanted));
}

bool layer_shape_check(const st_tensor *tensor, int n_dims, const int64_t *shape, tool_error *error) {
    return layer_shape_fits(tensor->name, tensor->n_dims, tensor->shape, n_dims, shape, error);
}

static bool float_check(const st_tensor *tensor, tool_error *error) {
    return is_float(tensor->dtype) || tool_fail(error, "%s has the type %s, expected F32, F16 or BF16", tensor->name,
                                                st_dtype_name(tensor->dtype));
}

// A tensor of integers as int64, into memory that the caller frees; NULL and a line.
static int64_t *load_integers(const st_tensor *tensor, tool_error *error) {
    if (!is_integer(tensor->dtype)) {
        tool_fail(error, "%s has the type %s, expected integers", tensor->name, st_dtype_name(tensor->dtype));
        return NULL;
    }
    int64_t *values = tool_array((size_t)tensor->count, sizeof *values, false, error);
    char reason[ST_ERR_SIZE];
    if (values && !st_to_i64(tensor, values, reason, sizeof reason)) {
        tool_fail(error, "%.1000s", reason);
        free(values);
        return NULL;
    }
    return values;
}

static const st_tensor *required(const layer_file *file, const char *name, tool_error *error) {
    const st_tensor *tensor = st_find(file->st, name);
    if (!tensor) {
        tool_fail(error, "no tensor %s", name);
    }
    return tensor;
}

static bool open_hidden(layer_file *file, int32_t hidden_size, tool_error *error) {
    const st_tensor *hidden = required(file, "hidden", error);
    if (!hidden || !float_check(hidden, error)) {
        return false;
    }
    if (hidden->n_dims != 3) {
        return tool_fail(error, "hidden has %d dimensions, expected 3 (sequences, tokens, hidden size)",
                         hidden->n_dims);
    }
    for (int i = 0; i < 3; i++) {
        if (hidden->shape[i] < 1 || hidden->shape[i] > INT32_MAX) {
            return tool_fail(error, "hidden has %lld in dimension %d, expected 1 to %d", (long long)hidden->shape[i], i,
                             INT32_MAX);
        }
    }
    if (hidden->shape[0] > INT32_MAX / hidden->shape[1]) {
        return tool_fail(error, "hidden has %lld x %lld tokens, expected at most %d", (long long)hidden->shape[0],
                         (long long)hidden->shape[1], INT32_MAX);
    }
    if (hidden_size && hidden->shape[2] != hidden_size) {
        return tool_fail(error, "hidden has rows of %lld, expected hidden_size %d of the config",
                         (long long)hidden->shape[2], hidden_size);
    }
    file->hidden_states = hidden;
    file->batch = (int32_t)hidden->shape[0];
    file->tokens = (int32_t)hidden->shape[1];
    file->hidden = (int32_t)hidden->shape[2];
    return true;
}

// The weights of the file itself.
typedef struct own_source {
    layer_source source;
    const layer_file *file;
} own_source;

static bool find_own(const layer_source *source, const char *name, bool needed, layer_matrix *matrix,
                     tool_error *error) {
    const layer_file *file = ((const own_source *)source)->file;
    const st_tensor *tensor = needed ? required(file, name, error) : st_find(file->st, name);
    *matrix = (layer_matrix){.parts = tensor != NULL};
    if (tensor) {
        matrix->part[0] = stored_of_st(tensor);
    }
    return tensor || !needed;
}

static bool open_weights(layer_file *file, tool_error *error) {
    const own_source own = {
        {find_own, STORED_F32 | STORED_F16 | STORED_BF16, "F32, F16 or BF16", QSA_NORM_ZERO_CENTRED}, file};
    return layer_weights_open(file, &own.source, error);
}

static bool open_mask(layer_file *file, tool_error *error) {
    const size_t count = (size_t)file->batch * (size_t)file->tokens;
    file->visible = tool_array(count, 1, false, error);
    if (!file->visible) {
        return false;
    }
    memset(file->visible, 1, count);
    const st_tensor *mask = st_find(file->st, "attention_mask");
    if (!mask) {
        return true;
    }
    const int64_t shape[2] = {file->batch, file->tokens};
    int64_t *values = layer_shape_check(mask, 2, shape, error) ? load_integers(mask, error) : NULL;
    if (!values) {
        return false;
    }
    bool right = true;
    for (size_t i = 0; right && i < count; i++) {
        right = values[i] == 0 || values[i] == 1;
        file->visible[i] = values[i] == 1;
        if (!right) {
            tool_fail(error, "attention_mask holds %lld at token %zu, expected 0 or 1", (long long)values[i], i);
        }
    }
    free(values);
    return right;
}

static bool open_cells(layer_file *file, tool_error *error) {
    const size_t count = (size_t)file->batch * (size_t)file->tokens;
    file->length = tool_array((size_t)file->batch, sizeof *file->length, true, error);
    file->cell_token = tool_array(count, sizeof *file->cell_token, true, error);
    file->token_cells = tool_array(count, sizeof *file->token_cells, true, error);
    if (!file->length || !file->cell_token || !file->token_cells) {
        return false;
    }
    for (int32_t b = 0; b < file->batch; b++) {
        const size_t first = (size_t)b * (size_t)file->tokens;
        for (int32_t t = 0; t < file->tokens; t++) {
            if (file->visible[first + (size_t)t]) {
                file->cell_token[first + (size_t)file->length[b]] = t;
                file->token_cells[first + (size_t)t] = ++file->length[b];
            }
        }
    }
    return true;
}

// Masked tokens may have any position, left padding often has -1: they are no cells.
static bool open_positions(layer_file *file, tool_error *error) {
    const st_tensor *ids = required(file, "position_ids", error);
    const int64_t shape[3] = {3, file->batch, file->tokens};
    const size_t count = (size_t)file->batch * (size_t)file->tokens;
    const bool one = ids && ids->n_dims == 2;
    if (!ids || !layer_shape_check(ids, one ? 2 : 3, one ? shape + 1 : shape, error)) {
        return false;
    }
    file->positions = tool_array(3 * count, sizeof *file->positions, true, error);
    int64_t *values = file->positions ? load_integers(ids, error) : NULL;
    if (!values) {
        return false;
    }
    bool right = true;
    for (size_t i = 0; right && i < 3 * count; i++) {
        const size_t token = i % count;
        const int64_t value = values[one ? token : i];
        if (!file->visible[token]) {
            continue;
        }
        right = value >= 0 && value <= INT32_MAX;
        file->positions[3 * token + i / count] = right ? (int32_t)value : 0;
        if (!right) {
            tool_fail(error, "position_ids holds %lld at token %zu, expected 0 to %d", (long long)value, token,
                      INT32_MAX);
        }
    }
    free(values);
    return right;
}

static bool open_rows(layer_file *file, tool_error *error) {
    const st_tensor *rows = st_find(file->st, "rows");
    file->has_rows = rows != NULL;
    if (rows) {
        return expected_read_rows(rows, file->tokens, &file->rows, &file->n_rows, error);
    }
    file->rows = tool_array((size_t)file->tokens, sizeof *file->rows, false, error);
    file->n_rows = file->tokens;
    for (int32_t t = 0; file->rows && t < file->tokens; t++) {
        file->rows[t] = t;
    }
    return file->rows != NULL;
}

// Each cell's number in its sequence, where the file does not say the positions.
static bool count_positions(layer_file *file, tool_error *error) {
    const size_t count = (size_t)file->batch * (size_t)file->tokens;
    file->positions = tool_array(3 * count, sizeof *file->positions, true, error);
    for (size_t i = 0; file->positions && i < 3 * count; i++) {
        const int32_t cells = file->token_cells[i / 3];
        file->positions[i] = cells ? cells - 1 : 0;
    }
    return file->positions != NULL;
}

static bool open_st(layer_file *file, const char *path, tool_error *error) {
    char reason[ST_ERR_SIZE];
    *file = (layer_file){0};
    file->st = st_open(path, reason, sizeof reason);
    return file->st || tool_fail(error, "%.1000s", reason);
}

bool layer_file_open(layer_file *file, const char *path, tool_error *error) {
    if (!open_st(file, path, error)) {
        return false;
    }
    file->config = st_metadata(file->st, "config");
    int32_t hidden_size = 0;
    bool opened = file->config ? layer_config_read(file->config, &file->geometry, &hidden_size, error)
                               : tool_fail(error, "no metadata key config");
    opened = opened && open_hidden(file, hidden_size, error) && open_weights(file, error) && open_mask(file, error) &&
             open_cells(file, error) && open_positions(file, error) && open_rows(file, error);
    if (!opened) {
        layer_file_close(file);
    }
    return opened;
}

bool layer_file_open_model(layer_file *file, const char *path, const model *from, int32_t layer, const char **blame,
                           tool_error *error) {
    *blame = path;
    if (!open_st(file, path, error)) {
        return false;
    }
    file->config = from->text;
    file->geometry = from->config.geometry;
    bool opened = open_hidden(file, from->config.hidden, error) && open_mask(file, error) && open_cells(file, error) &&
                  (st_find(file->st, "position_ids") ? open_positions(file, error) : count_positions(file, error)) &&
                  open_rows(file, error);
    if (opened) {
        *blame = from->path;
        opened = model_open_layer(from, layer, file, error);
    }
    if (!opened) {
        layer_file_close(file);
    }
    return opened;
}

void layer_file_close(layer_file *file) {
    for (int n = 0; n < LAYER_NORMS; n++) {
        free(file->norm[n]);
    }
    free(file->positions);
    free(file->visible);
    free(file->length);
    free(file->cell_token);
    free(file->token_cells);
    free(file->rows);
    st_close(file->st);
    *file = (layer_file){0};
}
