// SPDX-License-Identifier: Apache-2.0
//
// Values and names of a layer's tensors. Numbers come from splitmix64 by exact arithmetic: the same seed gives the same
// bytes on every machine.

#include "make_tensors.h"

#include "make_form.h"
#include "num/num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFICIAL_PREFIX "model.language_model.layers."

typedef enum rows_of { ROWS_Q, ROWS_KV, ROWS_HIDDEN, ROWS_INDEX, ROWS_HEAD, ROWS_INDEX_HEAD } rows_of;

// Official and GGUF name; the GGUF name of the last index_dim rows where they are a tensor of their own.
static const struct {
    const char *official, *gguf, *gguf_last;
    rows_of rows;
    int half;
    bool norm;
} specs[] = {
    {"self_attn.q_proj.weight", "attn_q.weight", NULL, ROWS_Q, 0, false},
    {"self_attn.k_proj.weight", "attn_k.weight", NULL, ROWS_KV, 0, false},
    {"self_attn.v_proj.weight", "attn_v.weight", NULL, ROWS_KV, 0, false},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", NULL, ROWS_HEAD, 0, true},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", NULL, ROWS_HEAD, 0, true},
    {"self_attn.o_proj.weight", "attn_output.weight", NULL, ROWS_HIDDEN, 1, false},
    {"self_attn.indexer.index_qk_proj.weight", "indexer.q_proj.weight", "indexer.k_proj.weight", ROWS_INDEX, 1, false},
    {"self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight", NULL, ROWS_INDEX_HEAD, 1, true},
    {"self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight", NULL, ROWS_INDEX_HEAD, 1, true},
};
#define SPECS (sizeof specs / sizeof *specs)

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void make_normal(uint64_t seed, uint64_t stream, double deviation, size_t count, float *out) {
    uint64_t state = seed;
    state = next(&state) ^ (stream * UINT64_C(0xd1342543de82ef95));
    // Four uniforms of 16 bits: their sum has the variance 4 * 2^32 / 12.
    const double factor = deviation / 37837.0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = next(&state);
        const int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                            (int32_t)(bits >> 48);
        out[i] = (float)((double)(2 * sum - 4 * 65535) * (factor / 2));
    }
}

static int64_t rows_in(const make_plan *plan, rows_of rows) {
    const qsa_geometry *g = &plan->geometry;
    switch (rows) {
    case ROWS_Q:
        return (int64_t)2 * g->heads * g->head_dim;
    case ROWS_KV:
        return (int64_t)g->kv_heads * g->head_dim;
    case ROWS_HIDDEN:
        return plan->hidden;
    case ROWS_INDEX:
        return (int64_t)(g->index_heads + 1) * g->index_dim;
    case ROWS_HEAD:
        return g->head_dim;
    default:
        return g->index_dim;
    }
}

static make_tensor *begin_tensor(make_half *made, const make_plan *plan, int32_t layer, const char *name) {
    make_tensor *t = &made->tensors[made->count++];
    snprintf(t->name, sizeof t->name, "%s%d.%s", plan->gguf ? "blk." : OFFICIAL_PREFIX, layer, name);
    return t;
}

static bool add_norm(make_half *made, const make_plan *plan, int32_t layer, size_t spec, float *values,
                     tool_error *error) {
    make_tensor *t = begin_tensor(made, plan, layer, plan->gguf ? specs[spec].gguf : specs[spec].official);
    t->n_dims = 1;
    t->shape[0] = rows_in(plan, specs[spec].rows);
    // Checkpoints hold zero-centred weights in their own type; GGUF holds float32 with the 1 added.
    t->encoding = plan->gguf || plan->encoding == STORED_F32 ? STORED_F32
                  : plan->encoding == STORED_F8_E4M3         ? STORED_BF16
                                                             : plan->encoding;
    for (int64_t i = 0; i < t->shape[0]; i++) {
        // Multiples of 2^-12 with 8 bits are exact in bf16 and in f16.
        values[i] = qsa_f32_of_bf16(qsa_bf16_of_f32(rintf(values[i] * 4096) / 4096)) + (plan->gguf ? 1.0F : 0.0F);
    }
    return (t->data = make_form(t->encoding, values, (size_t)t->shape[0], error)) != NULL;
}

static bool add_matrix(make_half *made, const make_plan *plan, int32_t layer, const char *name, const float *values,
                       int64_t rows, int64_t columns, tool_error *error) {
    make_tensor *t = begin_tensor(made, plan, layer, name);
    t->encoding = plan->encoding;
    t->n_dims = 2;
    t->shape[0] = rows;
    t->shape[1] = columns;
    if (plan->encoding != STORED_F8_E4M3) {
        return (t->data = make_form(plan->encoding, values, (size_t)(rows * columns), error)) != NULL;
    }
    float *scales = NULL;
    t->data = make_form_fp8(values, rows, columns, &scales, error);
    if (!t->data) {
        return false;
    }
    char scales_name[120];
    snprintf(scales_name, sizeof scales_name, "%s_scale_inv", name);
    make_tensor *s = begin_tensor(made, plan, layer, scales_name);
    s->encoding = STORED_F32;
    s->n_dims = 2;
    s->shape[0] = (rows + STORED_FP8_BLOCK - 1) / STORED_FP8_BLOCK;
    s->shape[1] = (columns + STORED_FP8_BLOCK - 1) / STORED_FP8_BLOCK;
    s->data = scales;
    return true;
}

static bool add_spec(make_half *made, const make_plan *plan, int32_t layer, size_t spec, tool_error *error) {
    const qsa_geometry *g = &plan->geometry;
    const int64_t rows = rows_in(plan, specs[spec].rows);
    const int64_t columns = specs[spec].norm                  ? 1
                            : specs[spec].rows == ROWS_HIDDEN ? (int64_t)g->heads * g->head_dim
                                                              : plan->hidden;
    const int64_t last = plan->gguf && specs[spec].gguf_last ? g->index_dim : 0;
    float *values = tool_array((size_t)(rows * columns), sizeof *values, false, error);
    if (!values) {
        return false;
    }
    // Rows of unit length keep a hidden state of unit deviation at that; norm weights are a tenth off their factor 1.
    make_normal(plan->seed, (uint64_t)layer * SPECS + spec, specs[spec].norm ? 0.1 : 1 / sqrt((double)columns),
                (size_t)(rows * columns), values);
    bool added = false;
    if (specs[spec].norm) {
        added = add_norm(made, plan, layer, spec, values, error);
    } else {
        added = add_matrix(made, plan, layer, plan->gguf ? specs[spec].gguf : specs[spec].official, values, rows - last,
                           columns, error);
        added = added && (!last || add_matrix(made, plan, layer, specs[spec].gguf_last,
                                              values + (rows - last) * columns, last, columns, error));
    }
    free(values);
    return added;
}

bool make_layer_half(const make_plan *plan, int32_t layer, int half, make_half *made, tool_error *error) {
    memset(made, 0, sizeof *made);
    for (size_t i = 0; i < SPECS; i++) {
        if (specs[i].half == half && !add_spec(made, plan, layer, i, error)) {
            make_half_free(made);
            return false;
        }
    }
    return true;
}

void make_half_free(make_half *made) {
    for (int i = 0; i < made->count; i++) {
        free(made->tensors[i].data);
    }
    made->count = 0;
}

int make_layer_tensors(const make_plan *plan) {
    int count = 0;
    for (size_t i = 0; i < SPECS; i++) {
        count += 1 + (plan->gguf && specs[i].gguf_last) + (plan->encoding == STORED_F8_E4M3 && !specs[i].norm);
    }
    return count;
}
