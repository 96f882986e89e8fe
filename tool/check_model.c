// SPDX-License-Identifier: Apache-2.0
//
// The model's memory and the tensors of one unit: raw rows to vectors, attention over marked tokens, gate and o_proj.

#include "check_model_impl.h"

#include "io/safetensors.h"

#include <math.h>
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
        const st_tensor *bias = m->file->bias[w];
        char reason[ST_ERR_SIZE];
        if (bias && !(m->bias[w] = tool_array((size_t)bias->count, sizeof(float), false, error))) {
            return false;
        }
        if (bias && !st_to_f32(bias, m->bias[w], reason, sizeof reason)) {
            return tool_fail(error, "%.1000s", reason);
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
    void *const all[] = {m->raw_k,  m->raw_v,  m->raw_index_k, m->raw_q, m->raw_index_q, m->keys,
                         m->q,      m->k,      m->v,           m->pooled, m->scores,     m->logits,
                         m->order,  m->attn,   m->tokens,      m->gated, m->out};
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

// Row `row` of a weight's output, without its bias if the variant forgets it.
static double raw_at(const check_model *m, layer_weight w, const float *raw, size_t row) {
    const bool forget = m->variant.no_bias[w] && m->bias[w];
    return (double)raw[row] - (forget ? (double)m->bias[w][row] : 0);
}

// Row of q_proj that holds dim i of head h: of its query, or of its gate.
static size_t q_row(const check_model *m, int32_t h, int32_t i, bool gate) {
    const qsa_geometry *g = &m->file->geometry;
    const size_t d = (size_t)g->head_dim;
    return m->variant.split_q ? ((gate ? (size_t)g->heads : 0) + (size_t)h) * d + (size_t)i
                              : (2 * (size_t)h + gate) * d + (size_t)i;
}

static void query(check_model *m, int64_t slot, double *out) {
    const qsa_geometry *g = &m->file->geometry;
    const pipeline *run = m->run;
    const float *raw = m->raw_q + (size_t)slot * 2 * result_width(m->file, RESULT_Q);
    const int64_t token = slot / run->n_rows * m->file->tokens + run->rows[slot % run->n_rows];
    for (int32_t h = 0; h < g->heads; h++) {
        double *x = out + (int64_t)h * g->head_dim;
        for (int32_t i = 0; i < g->head_dim; i++) {
            x[i] = raw_at(m, LAYER_Q_PROJ, raw, q_row(m, h, i, false));
        }
        check_norm_vector(m, CHECK_Q, x);
        check_rotate_vector(m, CHECK_Q, token, run->cells[slot] - 1, x);
    }
}

static void index_query(check_model *m, int64_t slot, double *out) {
    const qsa_geometry *g = &m->file->geometry;
    const pipeline *run = m->run;
    const float *raw = m->raw_index_q + (size_t)slot * result_width(m->file, RESULT_INDEX_Q);
    const int64_t token = slot / run->n_rows * m->file->tokens + run->rows[slot % run->n_rows];
    for (int32_t h = 0; h < g->index_heads; h++) {
        double *x = out + (int64_t)h * g->index_dim;
        for (int32_t i = 0; i < g->index_dim; i++) {
            x[i] = raw_at(m, LAYER_INDEX_QK_PROJ, raw, (size_t)h * (size_t)g->index_dim + (size_t)i);
        }
        check_norm_vector(m, CHECK_INDEX_Q, x);
        check_rotate_vector(m, CHECK_INDEX_Q, token, run->cells[slot] - 1, x);
    }
}

static void key(check_model *m, int64_t token, double *out) {
    const qsa_geometry *g = &m->file->geometry;
    const float *raw = m->raw_k + (size_t)token * result_width(m->file, RESULT_K);
    for (int32_t h = 0; h < g->kv_heads; h++) {
        double *x = out + (int64_t)h * g->head_dim;
        for (int32_t i = 0; i < g->head_dim; i++) {
            x[i] = raw_at(m, LAYER_K_PROJ, raw, (size_t)h * (size_t)g->head_dim + (size_t)i);
        }
        check_norm_vector(m, CHECK_K, x);
        check_rotate_vector(m, CHECK_K, token, m->file->token_cells[token] - 1, x);
    }
}

static void value(check_model *m, int64_t token, double *out) {
    const size_t width = result_width(m->file, RESULT_V);
    const float *raw = m->raw_v + (size_t)token * width;
    for (size_t i = 0; i < width; i++) {
        out[i] = raw_at(m, LAYER_V_PROJ, raw, i);
    }
}

// Tokens that the row attends: the dump's, else the variant's.
static const uint8_t *attended(check_model *m, int64_t slot) {
    double least = 0;
    if (m->selected) {
        return m->selected + slot * m->file->tokens;
    }
    index_query(m, slot, m->q);
    check_scores(m, slot, m->scores);
    check_model_select(m, slot, m->scores, m->tokens, &least);
    return m->tokens;
}

// Softmax of one head's `count` logits in place. Returns nothing for count 0.
static void softmax(double *logits, int32_t count) {
    double most = -INFINITY;
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        most = logits[i] > most ? logits[i] : most;
    }
    for (int32_t i = 0; i < count; i++) {
        sum += logits[i] = exp(logits[i] - most);
    }
    for (int32_t i = 0; i < count; i++) {
        logits[i] /= sum;
    }
}

static int32_t kv_head(const check_model *m, int32_t h) {
    const qsa_geometry *g = &m->file->geometry;
    return m->variant.attend == CHECK_ATTEND_MODULO ? h % g->kv_heads : h / (g->heads / g->kv_heads);
}

static void attention(check_model *m, int64_t slot, double *out) {
    const layer_file *file = m->file;
    const qsa_geometry *g = &file->geometry;
    const int64_t first = slot / m->run->n_rows * file->tokens;
    const size_t width = result_width(file, RESULT_K);
    const uint8_t *tokens = attended(m, slot);
    const double root = m->variant.attend == CHECK_ATTEND_UNSCALED ? 1
                        : m->variant.attend == CHECK_ATTEND_INDEX  ? sqrt(g->index_dim)
                                                                   : sqrt(g->head_dim);
    int32_t count = 0;
    query(m, slot, m->q);
    for (int32_t t = 0; t < file->tokens; t++) {
        if (!tokens[t]) {
            continue;
        }
        key(m, first + t, m->k);
        check_round_rows(m->variant.kv, g->kv_heads, g->head_dim, m->k);
        for (int32_t h = 0; h < g->heads; h++) {
            const double *q = m->q + (int64_t)h * g->head_dim;
            const double *k = m->k + (int64_t)kv_head(m, h) * g->head_dim;
            double dot = 0;
            for (int32_t i = 0; i < g->head_dim; i++) {
                dot += q[i] * k[i];
            }
            m->logits[(int64_t)h * file->tokens + count] = dot / root;
        }
        count++;
    }
    for (int32_t h = 0; h < g->heads; h++) {
        softmax(m->logits + (int64_t)h * file->tokens, count);
    }
    memset(out, 0, result_width(file, RESULT_ATTN) * sizeof *out);
    for (int32_t t = 0, c = 0; t < file->tokens; t++) {
        if (!tokens[t]) {
            continue;
        }
        value(m, first + t, m->v);
        check_round_rows(m->variant.kv, (int32_t)(width / (size_t)g->head_dim), g->head_dim, m->v);
        for (int32_t h = 0; h < g->heads; h++) {
            const double p = m->logits[(int64_t)h * file->tokens + c];
            const double *v = m->v + (int64_t)kv_head(m, h) * g->head_dim;
            double *o = out + (int64_t)h * g->head_dim;
            for (int32_t i = 0; i < g->head_dim; i++) {
                o[i] += p * v[i];
            }
        }
        c++;
    }
}
