// SPDX-License-Identifier: Apache-2.0
//
// The model's tensors, one unit at a time: raw rows to vectors, attention over marked tokens, gate and o_proj.

#include "check_model_impl.h"

#include <math.h>
#include <string.h>

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

// Softmax of one head's `count` logits in place.
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
    return m->variant.attend == CHECK_ATTEND_MODULO ? h % g->kv_heads : h * g->kv_heads / g->heads;
}

// In eight sums, which the compiler keeps in vectors: most of a search's time goes by here.
static double dot(int32_t n, const double *a, const double *b) {
    double sum[8] = {0};
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int32_t j = 0; j < 8; j++) {
            sum[j] += a[i + j] * b[i + j];
        }
    }
    for (; i < n; i++) {
        sum[0] += a[i] * b[i];
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

// Softmax weights of all heads over the attended tokens, ascending, into m->logits: [H][T].
static void weigh(check_model *m, int64_t slot, const uint8_t *tokens) {
    const layer_file *file = m->file;
    const qsa_geometry *g = &file->geometry;
    const int64_t first = slot / m->run->n_rows * file->tokens;
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
            m->logits[(int64_t)h * file->tokens + count] = dot(g->head_dim, q, k) / root;
        }
        count++;
    }
    for (int32_t h = 0; h < g->heads; h++) {
        softmax(m->logits + (int64_t)h * file->tokens, count);
    }
}

static void attention(check_model *m, int64_t slot, double *out) {
    const layer_file *file = m->file;
    const qsa_geometry *g = &file->geometry;
    const int64_t first = slot / m->run->n_rows * file->tokens;
    const uint8_t *tokens = attended(m, slot);
    weigh(m, slot, tokens);
    memset(out, 0, result_width(file, RESULT_ATTN) * sizeof *out);
    for (int32_t t = 0, c = 0; t < file->tokens; t++) {
        if (!tokens[t]) {
            continue;
        }
        value(m, first + t, m->v);
        check_round_rows(m->variant.kv, g->kv_heads, g->head_dim, m->v);
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

// The gates of a slot's row applied to x in place.
static void apply_gate(const check_model *m, int64_t slot, double *x) {
    const qsa_geometry *g = &m->file->geometry;
    const float *raw = m->raw_q + (size_t)slot * 2 * result_width(m->file, RESULT_Q);
    for (int32_t h = 0; m->variant.gate != CHECK_GATE_NONE && h < g->heads; h++) {
        for (int32_t i = 0; i < g->head_dim; i++) {
            const double gate = raw_at(m, LAYER_Q_PROJ, raw, q_row(m, h, i, true));
            const double sigmoid = 1 / (1 + exp(-gate));
            x[(int64_t)h * g->head_dim + i] *= m->variant.gate == CHECK_GATE_SILU ? gate * sigmoid : sigmoid;
        }
    }
}

static bool output(check_model *m, int64_t slot, double *out, tool_error *error) {
    attention(m, slot, m->attn);
    apply_gate(m, slot, m->attn);
    if (m->variant.gate == CHECK_GATE_TWICE) {
        apply_gate(m, slot, m->attn);
    }
    for (size_t i = 0; i < result_width(m->file, RESULT_ATTN); i++) {
        m->gated[i] = (float)m->attn[i];
    }
    if (!projection_out(m->run->projection, 1, NULL, m->gated, m->out, error)) {
        return false;
    }
    for (int32_t i = 0; i < m->file->hidden; i++) {
        out[i] = raw_at(m, LAYER_O_PROJ, m->out, (size_t)i);
    }
    return true;
}

bool check_model_unit(check_model *m, result_tensor which, int64_t unit, double *out, tool_error *error) {
    switch (which) {
    case RESULT_Q:
        query(m, unit, out);
        break;
    case RESULT_INDEX_Q:
        index_query(m, unit, out);
        break;
    case RESULT_K:
        key(m, unit, out);
        break;
    case RESULT_V:
        value(m, unit, out);
        break;
    case RESULT_SCORES:
        index_query(m, unit, m->q);
        check_scores(m, unit, out);
        break;
    case RESULT_ATTN:
        attention(m, unit, out);
        if (m->variant.gate == CHECK_GATE_EARLY || m->variant.gate == CHECK_GATE_TWICE) {
            apply_gate(m, unit, out);
        }
        break;
    case RESULT_OUT:
        return output(m, unit, out, error);
    case RESULT_SELECTED:
    case RESULT_TENSORS:
        break;
    }
    return true;
}
