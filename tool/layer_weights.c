// SPDX-License-Identifier: Apache-2.0
//
// Looks the tensors of a layer up and checks them. Shapes follow from geometry and hidden size.

#include "layer_weights.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const weight_names[LAYER_WEIGHTS] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.indexer.index_qk_proj", "self_attn.o_proj",
};

static const char *const norm_names[LAYER_NORMS] = {
    "self_attn.q_norm.weight",
    "self_attn.k_norm.weight",
    "self_attn.indexer.q_layernorm.weight",
    "self_attn.indexer.k_layernorm.weight",
};

const char *layer_weight_name(layer_weight weight) {
    return weight_names[weight];
}

static bool type_check(const stored_tensor *tensor, unsigned encodings, const char *types, tool_error *error) {
    return (tensor->encoding & encodings) != 0 ||
           tool_fail(error, "%s has the type %s, expected %s", tensor->name, tensor->type, types);
}

// Checks a matrix of `rows` in all. Of two parts the second has the last `last` rows.
static bool matrix_check(layer_matrix *m, const layer_source *source, int n_dims, const int64_t shape[2], int64_t last,
                         tool_error *error) {
    for (int p = 0; p < m->parts; p++) {
        const stored_tensor *t = &m->part[p];
        const int64_t rows = m->parts == 1 ? shape[0] : p == 1 ? last : shape[0] - last;
        const int64_t wanted[2] = {rows, shape[1]};
        if (!type_check(t, source->encodings, source->types, error) ||
            !layer_shape_fits(t->name, t->n_dims, t->shape, n_dims, wanted, error)) {
            return false;
        }
    }
    m->rows = (int32_t)shape[0];
    m->columns = n_dims == 2 ? (int32_t)shape[1] : 1;
    return true;
}

static bool open_matrices(layer_file *file, const layer_source *source, tool_error *error) {
    const qsa_geometry *g = &file->geometry;
    const int64_t q_dim = (int64_t)g->heads * g->head_dim;
    const int64_t kv_dim = (int64_t)g->kv_heads * g->head_dim;
    const int64_t index_dim = (int64_t)(g->index_heads + 1) * g->index_dim;
    const int64_t shapes[LAYER_WEIGHTS][2] = {
        {2 * q_dim, file->hidden}, {kv_dim, file->hidden}, {kv_dim, file->hidden},
        {index_dim, file->hidden}, {file->hidden, q_dim},
    };
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        char name[80];
        snprintf(name, sizeof name, "%s.weight", weight_names[w]);
        if (!source->find(source, name, true, &file->weight[w], error) ||
            !matrix_check(&file->weight[w], source, 2, shapes[w], g->index_dim, error)) {
            return false;
        }
        snprintf(name, sizeof name, "%s.bias", weight_names[w]);
        if (!source->find(source, name, false, &file->bias[w], error) ||
            !matrix_check(&file->bias[w], source, 1, shapes[w], g->index_dim, error)) {
            return false;
        }
    }
    return true;
}

static bool open_norms(layer_file *file, const layer_source *source, tool_error *error) {
    const qsa_geometry *g = &file->geometry;
    const int64_t dims[LAYER_NORMS] = {g->head_dim, g->head_dim, g->index_dim, g->index_dim};
    for (int n = 0; n < LAYER_NORMS; n++) {
        layer_matrix norm = {0};
        if (!source->find(source, norm_names[n], true, &norm, error) ||
            !type_check(&norm.part[0], STORED_F32 | STORED_F16 | STORED_BF16, "F32, F16 or BF16", error) ||
            !layer_shape_fits(norm.part[0].name, norm.part[0].n_dims, norm.part[0].shape, 1, &dims[n], error) ||
            !(file->norm[n] = layer_matrix_load(&norm, error))) {
            return false;
        }
    }
    file->norm_form = source->norm_form;
    return true;
}

bool layer_weights_open(layer_file *file, const layer_source *source, tool_error *error) {
    return open_matrices(file, source, error) && open_norms(file, source, error);
}

float *layer_matrix_load(const layer_matrix *m, tool_error *error) {
    int64_t count = 0;
    for (int p = 0; p < m->parts; p++) {
        count += m->part[p].count;
    }
    float *values = tool_array((size_t)count, sizeof *values, false, error);
    int64_t at = 0;
    for (int p = 0; values && p < m->parts; p++) {
        char reason[ST_ERR_SIZE];
        if (!stored_to_f32(&m->part[p], values + at, (io_error){reason, sizeof reason})) {
            tool_fail(error, "%.1000s", reason);
            free(values);
            return NULL;
        }
        at += m->part[p].count;
    }
    return values;
}
