// SPDX-License-Identifier: Apache-2.0
//
// Looks result tensors up in a safetensors file and checks them against a layer. Their rows are the file's own `rows`,
// so that a dump of fewer rows than the layer file can be compared too.

#include "expected.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[RESULT_TENSORS] = {"q", "index_q", "k", "v", "scores", "selected", "attn", "out"};

const char *result_name(result_tensor tensor) {
    return names[tensor];
}

size_t result_width(const layer_file *file, result_tensor tensor) {
    const qsa_geometry *g = &file->geometry;
    switch (tensor) {
    case RESULT_Q:
    case RESULT_ATTN:
        return (size_t)g->heads * (size_t)g->head_dim;
    case RESULT_INDEX_Q:
        return (size_t)g->index_heads * (size_t)g->index_dim;
    case RESULT_K:
    case RESULT_V:
        return (size_t)g->kv_heads * (size_t)g->head_dim;
    case RESULT_SELECTED:
        return (size_t)file->tokens;
    case RESULT_OUT:
        return (size_t)file->hidden;
    case RESULT_SCORES:
    case RESULT_TENSORS:
        break;
    }
    return 0;
}

bool expected_read_rows(const st_tensor *tensor, int32_t tokens, int32_t **rows, int32_t *n_rows, tool_error *error) {
    if (tensor->n_dims != 1 || tensor->count < 1 || tensor->count > tokens) {
        return tool_fail(error, "rows has %d dimensions and %lld elements, expected 1 and 1 to %d", tensor->n_dims,
                         (long long)tensor->count, tokens);
    }
    const size_t count = (size_t)tensor->count;
    char reason[ST_ERR_SIZE];
    int64_t *values = tool_array(count, sizeof *values, false, error);
    int32_t *kept = values ? tool_array(count, sizeof *kept, false, error) : NULL;
    bool right = kept != NULL;
    if (right && !st_to_i64(tensor, values, reason, sizeof reason)) {
        right = tool_fail(error, "%.1000s", reason);
    }
    for (size_t i = 0; right && i < count; i++) {
        if (values[i] < 0 || values[i] >= tokens) {
            right = tool_fail(error, "rows holds %lld, expected 0 to %d", (long long)values[i], tokens - 1);
        } else if (i && values[i] <= values[i - 1]) {
            right = tool_fail(error, "rows holds %lld after %lld, expected ascending tokens", (long long)values[i],
                              (long long)values[i - 1]);
        } else {
            kept[i] = (int32_t)values[i];
        }
    }
    free(values);
    if (!right) {
        free(kept);
        return false;
    }
    *rows = kept;
    *n_rows = (int32_t)count;
    return true;
}

static bool load_rows(expected *tensors, const st_file *st, const layer_file *file, tool_error *error) {
    const st_tensor *rows = st_find(st, "rows");
    if (rows) {
        return expected_read_rows(rows, file->tokens, &tensors->rows, &tensors->n_rows, error);
    }
    tensors->rows = tool_array((size_t)file->n_rows, sizeof *tensors->rows, false, error);
    if (tensors->rows) {
        memcpy(tensors->rows, file->rows, (size_t)file->n_rows * sizeof *tensors->rows);
        tensors->n_rows = file->n_rows;
    }
    return tensors->rows != NULL;
}

// The shape that the tensor must have. The blocks of scores may be counted up to the longest sequence or up to T.
static int result_shape(const layer_file *file, const expected *tensors, const st_tensor *tensor, result_tensor which,
                        int64_t shape[4]) {
    const qsa_geometry *g = &file->geometry;
    shape[0] = file->batch;
    shape[1] = which == RESULT_K || which == RESULT_V ? file->tokens : tensors->n_rows;
    switch (which) {
    case RESULT_Q:
    case RESULT_ATTN:
        shape[2] = g->heads;
        shape[3] = g->head_dim;
        return 4;
    case RESULT_INDEX_Q:
        shape[2] = g->index_heads;
        shape[3] = g->index_dim;
        return 4;
    case RESULT_K:
    case RESULT_V:
        shape[2] = g->kv_heads;
        shape[3] = g->head_dim;
        return 4;
    case RESULT_SCORES: {
        int32_t longest = 0;
        for (int32_t b = 0; b < file->batch; b++) {
            longest = file->length[b] > longest ? file->length[b] : longest;
        }
        const int64_t has = tensor->n_dims == 3 ? tensor->shape[2] : -1;
        shape[2] = has >= longest / g->ratio && has <= file->tokens ? has : file->tokens / g->ratio;
        return 3;
    }
    default:
        shape[2] = (int64_t)result_width(file, which);
        return 3;
    }
}

static bool load_selected(expected *tensors, const st_tensor *tensor, tool_error *error) {
    int64_t *values = tool_array((size_t)tensor->count, sizeof *values, false, error);
    tensors->selected = values ? tool_array((size_t)tensor->count, 1, false, error) : NULL;
    char reason[ST_ERR_SIZE];
    bool right = tensors->selected != NULL;
    if (right && !st_to_i64(tensor, values, reason, sizeof reason)) {
        right = tool_fail(error, "%.1000s", reason);
    }
    for (int64_t i = 0; right && i < tensor->count; i++) {
        if (values[i] != 0 && values[i] != 1) {
            right = tool_fail(error, "selected holds %lld, expected 0 or 1", (long long)values[i]);
        } else {
            tensors->selected[i] = values[i] == 1;
        }
    }
    free(values);
    return right;
}

static bool load_values(expected *tensors, const st_tensor *tensor, result_tensor which, tool_error *error) {
    float *values = tensors->values[which] = tool_array((size_t)tensor->count, sizeof *values, false, error);
    char reason[ST_ERR_SIZE];
    if (values && !st_to_f32(tensor, values, reason, sizeof reason)) {
        return tool_fail(error, "%.1000s", reason);
    }
    return values != NULL;
}

bool expected_load(expected *tensors, const st_file *st, const layer_file *file, tool_error *error) {
    *tensors = (expected){0};
    bool loaded = load_rows(tensors, st, file, error);
    for (int i = 0; loaded && i < RESULT_TENSORS; i++) {
        const result_tensor which = (result_tensor)i;
        const st_tensor *tensor = st_find(st, names[i]);
        if (!tensor) {
            continue;
        }
        int64_t shape[4];
        int n_dims = result_shape(file, tensors, tensor, which, shape);
        loaded = layer_shape_check(tensor, n_dims, shape, error) &&
                 (which == RESULT_SELECTED ? load_selected(tensors, tensor, error)
                                           : load_values(tensors, tensor, which, error));
        if (which == RESULT_SCORES) {
            tensors->blocks = (int32_t)shape[2];
        }
    }
    if (!loaded) {
        expected_free(tensors);
    }
    return loaded;
}

void expected_free(expected *tensors) {
    free(tensors->rows);
    free(tensors->selected);
    for (int i = 0; i < RESULT_TENSORS; i++) {
        free(tensors->values[i]);
    }
    *tensors = (expected){0};
}

bool expected_any(const expected *tensors) {
    bool any = tensors->selected != NULL;
    for (int i = 0; i < RESULT_TENSORS; i++) {
        any = any || tensors->values[i];
    }
    return any;
}
