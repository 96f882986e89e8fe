// SPDX-License-Identifier: Apache-2.0
//
// The model's memory: raw rows of every token, gathered once, and room for one unit of each tensor.

#include "check_model_impl.h"

#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

check_variant check_variant_right(qsa_type kv) {
    return (check_variant){.kv = kv};
}

static bool make_arrays(check_model *m, tool_error *error) {
    const layer_file *file = m->file;
    const qsa_geometry *g = &file->geometry;
    const size_t tokens = (size_t)file->batch * (size_t)file->tokens;
    const size_t slots = (size_t)m->run->slots;
    const size_t heads = result_width(file, RESULT_Q);
    const size_t kv = result_width(file, RESULT_K);
    const size_t index_q = result_width(file, RESULT_INDEX_Q);
    const size_t id = (size_t)g->index_dim;
    const size_t longest = (size_t)(g->head_dim > g->index_dim ? g->head_dim : g->index_dim);
    const size_t blocks = (size_t)(file->tokens / g->ratio);
    struct {
        void **array;
        size_t count, size;
    } all[] = {
        {(void **)&m->raw_k, tokens * kv, sizeof(float)},
        {(void **)&m->raw_v, tokens * kv, sizeof(float)},
        {(void **)&m->raw_index_k, tokens * id, sizeof(float)},
        {(void **)&m->raw_q, slots * 2 * heads, sizeof(float)},
        {(void **)&m->raw_index_q, slots * index_q, sizeof(float)},
        {(void **)&m->keys, blocks * id, sizeof(double)},
        {(void **)&m->q, heads > index_q ? heads : index_q, sizeof(double)},
        {(void **)&m->k, kv, sizeof(double)},
        {(void **)&m->v, kv, sizeof(double)},
        {(void **)&m->pooled, id, sizeof(double)},
        {(void **)&m->scores, blocks, sizeof(double)},
        {(void **)&m->logits, (size_t)file->tokens * (size_t)g->heads, sizeof(double)},
        {(void **)&m->order, blocks, sizeof(check_ranked)},
        {(void **)&m->attn, heads, sizeof(double)},
        {(void **)&m->tokens, (size_t)file->tokens, 1},
        {(void **)&m->gated, heads, sizeof(float)},
        {(void **)&m->out, (size_t)file->hidden, sizeof(float)},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!(*all[i].array = tool_array(all[i].count, all[i].size, true, error))) {
            return false;
        }
    }
    for (int place = 0; place < CHECK_PLACES; place++) {
        if (!(m->frequency[place] = tool_array(longest, sizeof(double), true, error))) {
            return false;
        }
    }
    return true;
}

static bool load_biases(check_model *m, tool_error *error) {
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        const layer_matrix *bias = &m->file->bias[w];
        if (bias->parts && !(m->bias[w] = layer_matrix_load(bias, error))) {
            return false;
        }
    }
    return true;
}

// Copies the raw rows out of the projection, block by block in order, so that each block is projected once.
static bool gather(check_model *m, tool_error *error) {
    const layer_file *file = m->file;
    const pipeline *run = m->run;
    const size_t kv = result_width(file, RESULT_K);
    const size_t heads = 2 * result_width(file, RESULT_Q);
    const size_t index_q = result_width(file, RESULT_INDEX_Q);
    const size_t id = (size_t)file->geometry.index_dim;
    int32_t *row_of = tool_array((size_t)file->tokens, sizeof *row_of, false, error);
    for (int32_t t = 0; row_of && t < file->tokens; t++) {
        row_of[t] = -1;
    }
    for (int32_t r = 0; row_of && r < run->n_rows; r++) {
        row_of[run->rows[r]] = r;
    }
    const int64_t tokens = (int64_t)file->batch * file->tokens;
    for (int64_t token = 0; row_of && token < tokens; token++) {
        const int32_t r = row_of[token % file->tokens];
        const projected row = projection_token(run->projection, token, r >= 0);
        memcpy(m->raw_k + (size_t)token * kv, row.k, kv * sizeof(float));
        memcpy(m->raw_v + (size_t)token * kv, row.v, kv * sizeof(float));
        memcpy(m->raw_index_k + (size_t)token * id, row.index + index_q, id * sizeof(float));
        if (r >= 0) {
            const size_t slot = (size_t)(token / file->tokens * run->n_rows + r);
            memcpy(m->raw_q + slot * heads, row.q, heads * sizeof(float));
            memcpy(m->raw_index_q + slot * index_q, row.index, index_q * sizeof(float));
        }
    }
    free(row_of);
    return row_of != NULL;
}

check_model *check_model_create(pipeline *run, const uint8_t *selected, tool_error *error) {
    check_model *m = tool_array(1, sizeof *m, true, error);
    if (!m) {
        return NULL;
    }
    m->run = run;
    m->file = run->file;
    m->selected = selected;
    if (!make_arrays(m, error) || !load_biases(m, error) || !gather(m, error)) {
        check_model_destroy(m);
        return NULL;
    }
    const check_variant right = check_variant_right(QSA_F32);
    check_model_vary(m, &right);
    return m;
}

void check_model_destroy(check_model *m) {
    if (!m) {
        return;
    }
    void *const all[] = {m->raw_k, m->raw_v, m->raw_index_k, m->raw_q,  m->raw_index_q, m->keys,
                         m->q,     m->k,     m->v,           m->pooled, m->scores,      m->logits,
                         m->order, m->attn,  m->tokens,      m->gated,  m->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        free(m->bias[w]);
    }
    for (int place = 0; place < CHECK_PLACES; place++) {
        free(m->frequency[place]);
    }
    free(m);
}

void check_model_vary(check_model *m, const check_variant *variant) {
    m->variant = *variant;
    m->keys_of = -1;
    check_frequencies(m);
}
