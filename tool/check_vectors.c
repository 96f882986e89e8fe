// SPDX-License-Identifier: Apache-2.0
//
// The model's vectors: RMS norm, rotary embedding and block keys, each with what goes wrong in ports.

#include "check_model_impl.h"

#include <math.h>
#include <string.h>

int32_t check_dim(const check_model *model, check_place place) {
    const qsa_geometry *g = &model->run->geometry;
    return place == CHECK_Q || place == CHECK_K ? g->head_dim : g->index_dim;
}

static int32_t rotary(const check_model *model, check_place place) {
    const bool whole = model->variant.rope[place].pairs == CHECK_PAIRS_WHOLE;
    return whole ? check_dim(model, place) / 2 * 2 : model->run->geometry.rotary_dim;
}

void check_frequencies(check_model *model) {
    for (int place = 0; place < CHECK_PLACES; place++) {
        const check_rope *rope = &model->variant.rope[place];
        const double theta = rope->theta > 0 ? rope->theta : model->run->geometry.theta;
        const int32_t dims = rotary(model, (check_place)place);
        for (int32_t i = 0; i < dims / 2; i++) {
            const double exact = pow(theta, -2.0 * i / dims);
            const float power = (float)pow(theta, (double)((float)(2 * i) / (float)dims));
            double *to = &model->frequency[place][i];
            switch (rope->rounding) {
            case CHECK_FREQ_RIGHT:
                *to = (double)(1.0F / power);
                break;
            case CHECK_FREQ_ONE:
                *to = (double)(float)exact;
                break;
            case CHECK_FREQ_F64:
            case CHECK_FREQ_CHAIN:
                *to = exact;
                break;
            }
        }
    }
}

void check_norm_vector(const check_model *model, check_place place, double *x) {
    static const layer_norm norms[CHECK_PLACES] = {LAYER_Q_NORM, LAYER_INDEX_Q_NORM, LAYER_K_NORM, LAYER_INDEX_K_NORM};
    const check_norm form = model->variant.norm[place];
    const float *weight = model->file->norm[norms[place]];
    const int32_t dim = check_dim(model, place);
    double sum = 0;
    for (int32_t i = 0; i < dim; i++) {
        sum += x[i] * x[i];
    }
    const double scale = 1 / sqrt(sum / dim + (double)model->run->geometry.eps);
    for (int32_t i = 0; form != CHECK_NORM_NONE && i < dim; i++) {
        const float factor = form == CHECK_NORM_NO_ONE    ? weight[i]
                             : form == CHECK_NORM_TWO     ? 1.0F + (1.0F + weight[i])
                             : form == CHECK_NORM_NO_GAIN ? 1.0F
                                                          : 1.0F + weight[i];
        x[i] *= scale * (double)factor;
    }
}

// Axis whose position frequency i takes.
static int axis_of(const qsa_geometry *g, check_axes axes, int32_t i) {
    if (axes == CHECK_AXES_TEMPORAL) {
        return 0;
    }
    if (axes == CHECK_AXES_CONTIGUOUS) {
        return i < g->sections[0] ? 0 : i < g->sections[0] + g->sections[1] ? 1 : 2;
    }
    return i % 3 == 1 && i < 3 * g->sections[1] ? 1 : i % 3 == 2 && i < 3 * g->sections[2] ? 2 : 0;
}

void check_rotate_vector(const check_model *model, check_place place, int64_t token, int32_t cell, double *x) {
    const qsa_geometry *g = &model->run->geometry;
    const check_rope *rope = &model->variant.rope[place];
    const int32_t half = rotary(model, place) / 2;
    const int32_t *ids = model->file->positions + 3 * token;
    const double *frequency = model->frequency[place];
    if (rope->pairs == CHECK_PAIRS_NONE) {
        return;
    }
    float step = 1; // theta ^ (-2i / R) by repeated multiplication
    for (int32_t i = 0; i < half; i++) {
        double position = ids[axis_of(g, rope->axes, i)];
        if (rope->position == CHECK_POSITION_RANK || rope->position == CHECK_POSITION_BLOCK) {
            position = cell;
        } else if (rope->position == CHECK_POSITION_PHYSICAL) {
            position = (double)(token % model->file->tokens);
        }
        double angle = frequency[i] * position;
        if (rope->rounding == CHECK_FREQ_CHAIN) {
            angle = (double)((float)position * step);
            step *= half > 1 ? (float)frequency[1] : 1.0F;
        } else if (rope->rounding != CHECK_FREQ_F64) {
            angle = (double)(float)angle;
        }
        const double c = (double)(float)cos(angle);
        const double s = (double)(float)sin(angle);
        const int32_t at_a = rope->pairs == CHECK_PAIRS_INTERLEAVED ? 2 * i : i;
        const int32_t at_b = rope->pairs == CHECK_PAIRS_INTERLEAVED ? 2 * i + 1 : half + i;
        const double a = x[at_a];
        const double b = x[at_b];
        x[at_a] = a * c - b * s;
        x[at_b] = b * c + a * s;
    }
}

int64_t check_cell_token(const check_model *model, int32_t sequence, int32_t cell) {
    const int64_t first = (int64_t)sequence * model->file->tokens;
    return first + (model->variant.late_mask ? cell : model->file->cell_token[first + cell]);
}

// Key of one block whose first cell is `first`.
static void block_key(check_model *model, int32_t sequence, int32_t block, double *key) {
    const qsa_geometry *g = &model->run->geometry;
    const check_variant *v = &model->variant;
    const int32_t first = block * g->ratio;
    const int32_t cells = v->pool == CHECK_POOL_FIRST ? 1 : g->ratio;
    const float *bias = v->no_bias[LAYER_INDEX_QK_PROJ] ? model->bias[LAYER_INDEX_QK_PROJ] : NULL;
    bias = bias ? bias + (int64_t)g->index_heads * g->index_dim : NULL;
    memset(key, 0, (size_t)g->index_dim * sizeof *key);
    for (int32_t c = first; c < first + cells; c++) {
        const int64_t token = check_cell_token(model, sequence, c);
        const float *raw = model->raw_index_k + token * g->index_dim;
        double *x = model->pooled;
        for (int32_t i = 0; i < g->index_dim; i++) {
            x[i] = (double)raw[i] - (bias ? (double)bias[i] : 0);
        }
        if (v->pool == CHECK_POOL_AFTER_NORM || v->pool == CHECK_POOL_AFTER_ROPE) {
            check_norm_vector(model, CHECK_BLOCK_KEY, x);
        }
        if (v->pool == CHECK_POOL_AFTER_ROPE) {
            check_rotate_vector(model, CHECK_BLOCK_KEY, token, c, x);
        }
        for (int32_t i = 0; i < g->index_dim; i++) {
            key[i] += x[i] / cells;
        }
    }
    if (v->pool == CHECK_POOL_RIGHT || v->pool == CHECK_POOL_FIRST) {
        check_norm_vector(model, CHECK_BLOCK_KEY, key);
    }
    if (v->pool != CHECK_POOL_AFTER_ROPE) {
        const check_position position = v->rope[CHECK_BLOCK_KEY].position;
        const int32_t at = position == CHECK_POSITION_LAST ? first + g->ratio - 1 : first;
        check_rotate_vector(model, CHECK_BLOCK_KEY, check_cell_token(model, sequence, at),
                            position == CHECK_POSITION_BLOCK ? block : at, key);
    }
}

void check_block_keys(check_model *model, int32_t sequence) {
    const qsa_geometry *g = &model->run->geometry;
    if (model->keys_of == sequence) {
        return;
    }
    const int32_t cells = model->variant.late_mask ? model->file->tokens : model->file->length[sequence];
    for (int32_t block = 0; block < cells / g->ratio; block++) {
        block_key(model, sequence, block, model->keys + (int64_t)block * g->index_dim);
    }
    model->keys_of = sequence;
}
