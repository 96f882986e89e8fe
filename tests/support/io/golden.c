// SPDX-License-Identifier: Apache-2.0
//
// Loading of the official vectors. Every tensor is looked up with the shape that the configuration
// demands; a test never has to check again.
#include "golden.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a failed load knows: where its line goes, and whether there is one already.
typedef struct {
    const char *name;
    char *err;
    size_t size;
    bool failed;
} loader;

static void refuse(loader *l, const char *format, ...) {
    if (l->failed) {
        return;
    }
    l->failed = true;
    char line[ST_ERR_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(l->err, l->size, "%s: %s", l->name, line);
}

static void *zeroed(size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    if (!p) {
        abort();
    }
    return p;
}

// The tensor of that name with exactly these dimensions, else NULL and a refusal.
static const st_tensor *tensor(loader *l, const golden *g, const char *name, int dims, const int64_t *shape) {
    const st_tensor *t = l->failed ? NULL : st_find(g->file, name);
    if (!t) {
        refuse(l, "no tensor %s", name);
        return NULL;
    }
    bool same = t->n_dims == dims;
    for (int i = 0; same && i < dims; i++) {
        same = t->shape[i] == shape[i];
    }
    if (!same) {
        refuse(l, "tensor %s does not have the shape of the configuration", name);
        return NULL;
    }
    return t;
}

#define SHAPE(...)                                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {                                     \
        __VA_ARGS__                                                                                                    \
    }

static float *floats(loader *l, const golden *g, const char *name, int dims, const int64_t *shape) {
    char err[ST_ERR_SIZE];
    const st_tensor *t = tensor(l, g, name, dims, shape);
    if (!t) {
        return NULL;
    }
    float *out = zeroed((size_t)t->count, sizeof *out);
    if (!st_to_f32(t, out, err, sizeof err)) {
        refuse(l, "%s: %s", name, err);
    }
    return out;
}

static float *floats_if_there(loader *l, const golden *g, const char *name, int dims, const int64_t *shape) {
    return st_find(g->file, name) ? floats(l, g, name, dims, shape) : NULL;
}

static int64_t *integers(loader *l, const golden *g, const char *name, int dims, const int64_t *shape) {
    char err[ST_ERR_SIZE];
    const st_tensor *t = tensor(l, g, name, dims, shape);
    if (!t) {
        return NULL;
    }
    int64_t *out = zeroed((size_t)t->count, sizeof *out);
    if (!st_to_i64(t, out, err, sizeof err)) {
        refuse(l, "%s: %s", name, err);
    }
    return out;
}

static void load_config(loader *l, golden *g) {
    const char *text = st_metadata(g->file, "config");
    json_error_t why;
    json_t *root = text ? json_loads(text, JSON_REJECT_DUPLICATES, &why) : NULL;
    double partial = 0;
    oracle_geometry *o = &g->geometry;
    // clang-format off
    int rc = !root ? -1 : json_unpack_ex(root, &why, 0, "{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:F,s:{s:F,s:F,s:[iii!]}}",
        "hidden_size", &g->hidden_size,
        "num_attention_heads", &o->heads,
        "num_key_value_heads", &o->kv_heads,
        "head_dim", &o->head_dim,
        "indexer_n_heads", &o->index_heads,
        "indexer_head_dim", &o->index_dim,
        "indexer_budget", &o->budget,
        "indexer_compress_ratio", &o->ratio,
        "rms_norm_eps", &o->eps,
        "rope_parameters",
            "rope_theta", &o->theta,
            "partial_rotary_factor", &partial,
            "mrope_section", &o->sections[0], &o->sections[1], &o->sections[2]);
    // clang-format on
    if (rc) {
        refuse(l, "metadata config: %s", text ? why.text : "absent");
    }
    json_decref(root);
    o->rotary_dim = (int)(o->head_dim * partial);
    if (!l->failed && (o->heads < 1 || o->kv_heads < 1 || o->ratio < 1 || o->budget % o->ratio ||
                       o->sections[0] + o->sections[1] + o->sections[2] != o->rotary_dim / 2)) {
        refuse(l, "metadata config: no geometry");
    }
}

static float *factors(loader *l, const golden *g, const char *name, int dim) {
    float *w = floats(l, g, name, SHAPE(dim));
    for (int i = 0; w && i < dim; i++) {
        w[i] += 1.0f;
    }
    return w;
}

static void load_weights(loader *l, golden *g) {
    const oracle_geometry *o = &g->geometry;
    const size_t hidden = (size_t)g->hidden_size, dim = (size_t)o->head_dim;
    const struct {
        const char *name;
        size_t inputs, outputs;
    } plan[GOLDEN_PROJECTIONS] = {
        [GOLDEN_Q] = {"self_attn.q_proj", hidden, (size_t)o->heads * 2 * dim},
        [GOLDEN_K] = {"self_attn.k_proj", hidden, (size_t)o->kv_heads * dim},
        [GOLDEN_V] = {"self_attn.v_proj", hidden, (size_t)o->kv_heads * dim},
        [GOLDEN_INDEX] = {"self_attn.indexer.index_qk_proj", hidden, (size_t)((o->index_heads + 1) * o->index_dim)},
        [GOLDEN_O] = {"self_attn.o_proj", (size_t)o->heads * dim, hidden}};
    for (int p = 0; p < GOLDEN_PROJECTIONS; p++) {
        char name[ST_MAX_NAME];
        golden_linear *linear = &g->linear[p];
        linear->inputs = plan[p].inputs;
        linear->outputs = plan[p].outputs;
        snprintf(name, sizeof name, "%s.weight", plan[p].name);
        linear->weight = floats(l, g, name, SHAPE((int64_t)plan[p].outputs, (int64_t)plan[p].inputs));
        snprintf(name, sizeof name, "%s.bias", plan[p].name);
        linear->bias = floats_if_there(l, g, name, SHAPE((int64_t)plan[p].outputs));
    }
    g->factor[0] = factors(l, g, "self_attn.q_norm.weight", o->head_dim);
    g->factor[1] = factors(l, g, "self_attn.k_norm.weight", o->head_dim);
    g->factor[2] = factors(l, g, "self_attn.indexer.q_layernorm.weight", o->index_dim);
    g->factor[3] = factors(l, g, "self_attn.indexer.k_layernorm.weight", o->index_dim);
    g->norms = (oracle_norms){g->factor[0], g->factor[1], g->factor[2], g->factor[3]};
}

// Batch, tokens, rows; rows, positions and mask; the two maps between tokens and cells.
static void load_tokens(loader *l, golden *g) {
    const st_tensor *hidden = st_find(g->file, "hidden"), *rows = st_find(g->file, "rows");
    if (!hidden || hidden->n_dims != 3 || !rows || rows->n_dims != 1) {
        refuse(l, "hidden [B,T,hidden] or rows [R] missing");
        return;
    }
    int64_t batch = hidden->shape[0], tokens = hidden->shape[1], n = batch * tokens;
    g->batch = (int32_t)batch;
    g->tokens = (int32_t)tokens;
    g->rows = (int32_t)rows->shape[0];
    g->hidden = floats(l, g, "hidden", SHAPE(batch, tokens, g->hidden_size));
    int64_t *row = integers(l, g, "rows", SHAPE(g->rows));
    int64_t *position = integers(l, g, "position_ids", SHAPE(3, batch, tokens));
    int64_t *mask = integers(l, g, "attention_mask", SHAPE(batch, tokens));
    g->row = zeroed((size_t)g->rows, sizeof *g->row);
    g->positions = zeroed((size_t)n * 3, sizeof *g->positions);
    g->mask = zeroed((size_t)n, sizeof *g->mask);
    g->cells = zeroed((size_t)batch, sizeof *g->cells);
    g->token_of_cell = zeroed((size_t)n, sizeof *g->token_of_cell);
    g->cell_of_token = zeroed((size_t)n, sizeof *g->cell_of_token);
    for (int32_t r = 0; !l->failed && r < g->rows; r++) {
        g->row[r] = (int32_t)row[r];
        if (row[r] < 0 || row[r] >= tokens) {
            refuse(l, "rows: %lld is no token", (long long)row[r]);
        }
    }
    for (int64_t i = 0; !l->failed && i < n; i++) {
        int64_t b = i / tokens;
        for (int axis = 0; axis < 3; axis++) {
            g->positions[i * 3 + axis] = (int32_t)position[axis * n + i];
        }
        g->mask[i] = mask[i] != 0;
        g->cell_of_token[i] = g->mask[i] ? g->cells[b]++ : -1;
        if (g->mask[i]) {
            g->token_of_cell[b * tokens + g->cell_of_token[i]] = (int32_t)(i % tokens);
        }
    }
    free(row);
    free(position);
    free(mask);
}

static void load_official(loader *l, golden *g) {
    const oracle_geometry *o = &g->geometry;
    const st_tensor *scores = st_find(g->file, "scores"), *table = st_find(g->file, "cos");
    if (!scores || scores->n_dims != 3 || !table || table->n_dims != 3) {
        refuse(l, "scores or cos missing");
        return;
    }
    g->blocks = (int32_t)scores->shape[2];
    g->table_rows = (int32_t)table->shape[1];
    g->q = floats(l, g, "q", SHAPE(g->batch, g->rows, o->heads, o->head_dim));
    g->gate = floats(l, g, "gate", SHAPE(g->batch, g->rows, o->heads, o->head_dim));
    g->attn = floats(l, g, "attn", SHAPE(g->batch, g->rows, o->heads, o->head_dim));
    g->index_q = floats(l, g, "index_q", SHAPE(g->batch, g->rows, o->index_heads, o->index_dim));
    g->scores = floats(l, g, "scores", SHAPE(g->batch, g->rows, g->blocks));
    g->out = floats(l, g, "out", SHAPE(g->batch, g->rows, g->hidden_size));
    g->cos_table = floats(l, g, "cos", SHAPE(g->batch, g->table_rows, o->rotary_dim));
    g->sin_table = floats(l, g, "sin", SHAPE(g->batch, g->table_rows, o->rotary_dim));
    g->k = floats_if_there(l, g, "k", SHAPE(g->batch, g->tokens, o->kv_heads, o->head_dim));
    g->v = floats_if_there(l, g, "v", SHAPE(g->batch, g->tokens, o->kv_heads, o->head_dim));
    g->index_k_raw = floats_if_there(l, g, "index_k_raw", SHAPE(g->batch, g->tokens, o->index_dim));
    if (g->table_rows != g->tokens && g->table_rows != g->rows) {
        refuse(l, "cos has neither a row per token nor one per stored row");
    }
    int64_t *selected = integers(l, g, "selected", SHAPE(g->batch, g->rows, g->tokens));
    size_t n = (size_t)g->batch * (size_t)g->rows * (size_t)g->tokens;
    g->selected = zeroed(n, 1);
    for (size_t i = 0; !l->failed && i < n; i++) {
        g->selected[i] = selected[i] != 0;
    }
    free(selected);
}

golden *golden_open(const char *name, char *err, size_t err_size) {
    char path[4096];
    loader l = {.name = name, .err = err, .size = err_size};
    golden *g = zeroed(1, sizeof *g);
    snprintf(path, sizeof path, "%s/%s.safetensors", QSA_GOLDEN_DIR, name);
    g->file = st_open(path, err, err_size);
    if (!g->file) {
        golden_close(g);
        return NULL;
    }
    void (*const steps[])(loader *, golden *) = {load_config, load_tokens, load_weights, load_official};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !l.failed; i++) {
        steps[i](&l, g);
    }
    if (l.failed) {
        golden_close(g);
        return NULL;
    }
    return g;
}

void golden_close(golden *g) {
    if (!g) {
        return;
    }
    for (int p = 0; p < GOLDEN_PROJECTIONS; p++) {
        free(g->linear[p].weight);
        free(g->linear[p].bias);
    }
    float *const arrays[] = {g->hidden,    g->q,         g->gate,      g->attn,     g->index_q, g->scores,
                             g->out,       g->cos_table, g->sin_table, g->k,        g->v,       g->index_k_raw,
                             g->factor[0], g->factor[1], g->factor[2], g->factor[3]};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        free(arrays[i]);
    }
    free(g->row);
    free(g->positions);
    free(g->mask);
    free(g->cells);
    free(g->token_of_cell);
    free(g->cell_of_token);
    free(g->selected);
    st_close(g->file);
    free(g);
}
