// SPDX-License-Identifier: Apache-2.0
//
// One broken layer: vectors, block keys, scores, selection, attention, gate, each a few lines with its faults in place.
#include "mutate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mutator {
    golden *g;
    float *weight[4];               // zero-centred: q, k, index_q, index_k
    float *raw_k, *raw_v, *raw_key; // [B][T] by cell
};

// What mutate_save fills; freed by it.
typedef struct {
    float *q, *index_q, *k, *v, *scores, *attn, *out;
    uint8_t *selected;
} dump;

static void *zeroed(size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    if (!p) {
        abort();
    }
    return p;
}

static float *nans(size_t count) {
    float *p = zeroed(count, sizeof *p);
    for (size_t i = 0; i < count; i++) {
        p[i] = NAN;
    }
    return p;
}

mutator *mutator_open(const char *name) {
    static const char *const norms[] = {"q_norm", "k_norm", "indexer.q_layernorm", "indexer.k_layernorm"};
    char err[ST_ERR_SIZE];
    mutator *m = zeroed(1, sizeof *m);
    m->g = golden_open(name, err, sizeof err);
    if (!m->g) {
        fprintf(stderr, "%s\n", err);
        abort();
    }
    for (int i = 0; i < 4; i++) {
        char tensor[80];
        snprintf(tensor, sizeof tensor, "self_attn.%s.weight", norms[i]);
        const st_tensor *t = st_find(m->g->file, tensor);
        m->weight[i] = zeroed((size_t)t->count, sizeof(float));
        if (!st_to_f32(t, m->weight[i], NULL, 0)) {
            abort();
        }
    }
    const golden *g = m->g;
    const size_t kv = (size_t)g->geometry.kv_heads * (size_t)g->geometry.head_dim;
    const size_t id = (size_t)g->geometry.index_dim;
    const size_t all = (size_t)g->batch * (size_t)g->tokens;
    m->raw_k = zeroed(all * kv, sizeof(float));
    m->raw_v = zeroed(all * kv, sizeof(float));
    m->raw_key = zeroed(all * id, sizeof(float));
    for (int b = 0; b < g->batch; b++) {
        const size_t first = (size_t)b * (size_t)g->tokens;
        const size_t cells = (size_t)g->cells[b];
        float *k = golden_project_cells(g, GOLDEN_K, b, 0, kv);
        float *v = golden_project_cells(g, GOLDEN_V, b, 0, kv);
        float *key = golden_project_cells(g, GOLDEN_INDEX, b, (size_t)g->geometry.index_heads * id, id);
        memcpy(m->raw_k + first * kv, k, cells * kv * sizeof *k);
        memcpy(m->raw_v + first * kv, v, cells * kv * sizeof *v);
        memcpy(m->raw_key + first * id, key, cells * id * sizeof *key);
        free(k);
        free(v);
        free(key);
    }
    return m;
}

void mutator_close(mutator *m) {
    if (!m) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        free(m->weight[i]);
    }
    free(m->raw_k);
    free(m->raw_v);
    free(m->raw_key);
    golden_close(m->g);
    free(m);
}

enum { NORM_Q, NORM_K, NORM_INDEX_Q, NORM_INDEX_K };

static void norm(const mutator *m, mutation fault, int which, int dim, double *x) {
    static const mutation without[] = {MUTATE_Q_NO_ONE, MUTATE_K_NO_ONE, MUTATE_INDEX_Q_NO_ONE, MUTATE_INDEX_K_NO_ONE};
    static const mutation twice[] = {MUTATE_Q_TWICE, MUTATE_K_TWICE, MUTATE_INDEX_Q_TWICE, MUTATE_INDEX_K_TWICE};
    const bool none = fault == without[which] || (which == NORM_Q && fault == MUTATE_Q_AND_GATE);
    float factor[1024];
    for (int i = 0; i < dim; i++) {
        factor[i] = m->weight[which][i] + (none ? 0.0F : fault == twice[which] ? 2.0F : 1.0F);
    }
    oracle_rms_norm(dim, x, factor, m->g->geometry.eps, x);
}

static void rotate(const mutator *m, mutation fault, int which, const int32_t positions[3], double *x) {
    oracle_geometry g = m->g->geometry;
    const int half = g.rotary_dim / 2;
    float c[512];
    float s[512];
    const bool index_theta = fault == MUTATE_THETA_INDEX && which == NORM_INDEX_K;
    g.theta = fault == MUTATE_THETA_1E4 || index_theta ? 1e4 : fault == MUTATE_THETA_1E6 ? 1e6 : g.theta;
    oracle_rope_table(&g, positions, c, s);
    for (int i = 0; fault == MUTATE_ONE_ROUNDING && i < half; i++) {
        // Text only: the three positions are equal.
        const float angle = (float)exp(log(g.theta) * -2 * i / g.rotary_dim) * (float)positions[0];
        c[i] = (float)cos((double)angle);
        s[i] = (float)sin((double)angle);
    }
    for (int i = 0; i < half; i++) {
        double *a = fault == MUTATE_INTERLEAVED ? &x[2 * i] : &x[i];
        double *b = fault == MUTATE_INTERLEAVED ? a + 1 : &x[half + i];
        const double old = *a;
        *a = old * c[i] - *b * s[i];
        *b = *b * c[i] + old * s[i];
    }
}

// Keys of the complete blocks of a sequence: [cells / ratio][ID], to be freed.
static double *block_keys(const mutator *m, mutation fault, int b) {
    const golden *g = m->g;
    const int ratio = g->geometry.ratio;
    const int id = g->geometry.index_dim;
    const size_t base = (size_t)b * (size_t)g->tokens;
    double *keys = zeroed((size_t)(g->cells[b] / ratio) * (size_t)id, sizeof *keys);
    for (int block = 0; block < g->cells[b] / ratio; block++) {
        double *key = keys + (size_t)block * (size_t)id;
        double cell[1024];
        for (int c = block * ratio; c < (block + 1) * ratio; c++) {
            oracle_widen((size_t)id, m->raw_key + (base + (size_t)c) * (size_t)id, cell);
            if (fault == MUTATE_POOL_AFTER_NORM) {
                norm(m, fault, NORM_INDEX_K, id, cell);
            }
            for (int i = 0; i < id; i++) {
                key[i] += cell[i] / ratio;
            }
        }
        if (fault != MUTATE_POOL_AFTER_NORM) {
            norm(m, fault, NORM_INDEX_K, id, key);
        }
        const int32_t *tokens = g->token_of_cell + base;
        const int at = fault == MUTATE_BLOCK_LAST ? (block + 1) * ratio - 1 : block * ratio;
        int32_t positions[3];
        memcpy(positions, g->positions + 3 * (base + (size_t)tokens[at]), sizeof positions);
        for (int axis = 0; axis < 3; axis++) {
            positions[axis] = fault == MUTATE_BLOCK_PHYSICAL ? tokens[at]
                              : fault == MUTATE_BLOCK_NUMBER ? block
                                                             : positions[axis];
        }
        rotate(m, fault, NORM_INDEX_K, positions, key);
    }
    return keys;
}

static void make_keys(const mutator *m, mutation fault, int b, double *k, dump *d) {
    const golden *g = m->g;
    const size_t dim = (size_t)g->geometry.head_dim;
    const size_t row = (size_t)g->geometry.kv_heads * dim;
    for (int32_t c = 0; c < g->cells[b]; c++) {
        const size_t base = (size_t)b * (size_t)g->tokens;
        const size_t token = base + (size_t)g->token_of_cell[base + (size_t)c];
        for (size_t h = 0; h < (size_t)g->geometry.kv_heads; h++) {
            double *x = k + (size_t)c * row + h * dim;
            oracle_widen(dim, m->raw_k + (base + (size_t)c) * row + h * dim, x);
            norm(m, fault, NORM_K, (int)dim, x);
            rotate(m, fault, NORM_K, g->positions + 3 * token, x);
            for (size_t i = 0; i < dim; i++) {
                d->k[token * row + h * dim + i] = (float)x[i];
                d->v[token * row + h * dim + i] = m->raw_v[(base + (size_t)c) * row + h * dim + i];
            }
        }
    }
}

static int32_t select_cells(const golden *g, mutation fault, int32_t n, const float *scores, int32_t *cells) {
    const oracle_rule rule = fault == MUTATE_WIDTH ? ORACLE_CUT : ORACLE_OFFICIAL;
    int32_t *ids = zeroed((size_t)oracle_max_ids(&g->geometry, rule), sizeof *ids);
    const oracle_selection selection = oracle_select(&g->geometry, rule, n, scores, ids);
    int32_t count = oracle_cells(&g->geometry, &selection, ids, cells);
    free(ids);
    return fault == MUTATE_NO_TAIL ? count - n % g->geometry.ratio : count; // ascending: the tail is last
}

static void attend(const golden *g, mutation fault, const double *q, const double *k, const float *v,
                   const int32_t *cells, int32_t count, double *o) {
    const int dim = g->geometry.head_dim;
    const int heads = g->geometry.heads;
    const int groups = g->geometry.kv_heads;
    double *p = zeroed((size_t)count, sizeof *p);
    for (int h = 0; h < heads; h++) {
        const int kv = fault == MUTATE_KV_MODULO ? h % groups : h / (heads / groups);
        double most = -INFINITY;
        double sum = 0;
        for (int32_t c = 0; c < count; c++) {
            const double *key = k + ((size_t)cells[c] * (size_t)groups + (size_t)kv) * (size_t)dim;
            double dot = 0;
            for (int i = 0; i < dim; i++) {
                dot += q[h * dim + i] * key[i];
            }
            p[c] = dot / (fault == MUTATE_LOGITS_UNSCALED ? 1 : sqrt(dim)) + (fault == MUTATE_ODD ? 0.001 * c : 0);
            most = p[c] > most ? p[c] : most;
        }
        for (int i = 0; i < dim; i++) {
            o[h * dim + i] = 0;
        }
        for (int32_t c = 0; c < count; c++) {
            const float *value = v + ((size_t)cells[c] * (size_t)groups + (size_t)kv) * (size_t)dim;
            const double e = exp(p[c] - most);
            sum += e;
            for (int i = 0; i < dim; i++) {
                o[h * dim + i] += e * (double)value[i];
            }
        }
        for (int i = 0; i < dim; i++) {
            o[h * dim + i] /= sum > 0 ? sum : 1;
        }
    }
    free(p);
}

// One row, with its slot's part of the dump.
static void make_row(const mutator *m, mutation fault, int b, int32_t r, const double *k, const double *keys,
                     bool attends, dump *d) {
    const golden *g = m->g;
    const oracle_geometry *o = &g->geometry;
    const size_t dim = (size_t)o->head_dim;
    const size_t id = (size_t)o->index_dim;
    const size_t heads = (size_t)o->heads * dim;
    const size_t base = (size_t)b * (size_t)g->tokens;
    const size_t token = base + (size_t)g->row[r];
    const size_t slot = (size_t)b * (size_t)g->rows + (size_t)r;
    const int32_t n = g->cell_of_token[token] + 1;
    float *raw = zeroed(g->linear[GOLDEN_Q].outputs, sizeof *raw);
    float *raw_index = zeroed(g->linear[GOLDEN_INDEX].outputs, sizeof *raw_index);
    double *x = zeroed(3 * heads + (size_t)o->index_heads * id, sizeof *x);
    double *q = x, *attn = x + heads, *gate = x + 2 * heads, *index_q = x + 3 * heads;
    golden_project(g, GOLDEN_Q, b, g->row[r], raw);
    golden_project(g, GOLDEN_INDEX, b, g->row[r], raw_index);
    for (size_t h = 0; h < (size_t)o->heads; h++) {
        oracle_widen(dim, raw + 2 * h * dim, q + h * dim);
        oracle_widen(dim, raw + (2 * h + 1) * dim, gate + h * dim);
        norm(m, fault, NORM_Q, (int)dim, q + h * dim);
        rotate(m, fault, NORM_Q, g->positions + 3 * token, q + h * dim);
    }
    for (size_t h = 0; h < (size_t)o->index_heads; h++) {
        oracle_widen(id, raw_index + h * id, index_q + h * id);
        norm(m, fault, NORM_INDEX_Q, (int)id, index_q + h * id);
        rotate(m, fault, NORM_INDEX_Q, g->positions + 3 * token, index_q + h * id);
    }
    const int32_t blocks = n / o->ratio;
    float *stored = zeroed((size_t)blocks, sizeof *stored);
    oracle_scores(o, index_q, keys, blocks, NULL, stored);
    int32_t *cells = zeroed((size_t)oracle_max_cells(o), sizeof *cells);
    const int32_t count = select_cells(g, fault, n, stored, cells);
    if (attends) {
        attend(g, fault, q, k, m->raw_v + base * (size_t)o->kv_heads * dim, cells, count, attn);
    }
    for (size_t i = 0; i < heads; i++) {
        d->q[slot * heads + i] = (float)q[i];
        d->attn[slot * heads + i] = (float)attn[i];
        attn[i] /= fault == MUTATE_NO_GATE || fault == MUTATE_Q_AND_GATE ? 1 : 1 + exp(-gate[i]);
    }
    for (size_t i = 0; i < (size_t)o->index_heads * id; i++) {
        d->index_q[slot * (size_t)o->index_heads * id + i] = (float)index_q[i];
    }
    for (int32_t block = 0; block < g->blocks; block++) {
        const double scale = fault == MUTATE_SCORES_UNSCALED ? sqrt(o->index_dim) : 1;
        d->scores[slot * (size_t)g->blocks + (size_t)block] =
            block < blocks ? (float)((double)stored[block] * scale) : -INFINITY;
    }
    for (int32_t c = 0; c < count; c++) {
        d->selected[slot * (size_t)g->tokens + (size_t)g->token_of_cell[base + (size_t)cells[c]]] = 1;
    }
    double *out = zeroed((size_t)g->hidden_size, sizeof *out);
    golden_apply_f64(g, GOLDEN_O, attn, out);
    for (size_t i = 0; i < (size_t)g->hidden_size; i++) {
        d->out[slot * (size_t)g->hidden_size + i] = (float)out[i];
    }
    free(out);
    free(cells);
    free(stored);
    free(x);
    free(raw_index);
    free(raw);
}

// A tensor of `rows` units of `width` elements per sequence; only every `step`th unit is written.
typedef struct {
    const char *name;
    unsigned bit;
    int64_t rows, step, middle, last;
    const float *values; // NULL: selected
} column;

static void add(st_writer *writer, const mutator *m, const column *c, const uint8_t *selected, st_dtype type,
                void **keep) {
    const int64_t width = (c->middle ? c->middle : 1) * c->last;
    const int64_t rows = (c->rows + c->step - 1) / c->step;
    const int64_t shape[4] = {m->g->batch, rows, c->middle ? c->middle : c->last, c->last};
    const size_t size = c->values ? st_dtype_size(type) : 1;
    unsigned char *bytes = *keep = zeroed((size_t)(m->g->batch * rows * width), size);
    for (int64_t i = 0; i < m->g->batch * rows * width; i++) {
        const int64_t unit = i / width / rows * c->rows + i / width % rows * c->step;
        const int64_t from = unit * width + i % width;
        if (!c->values) {
            bytes[i] = selected[from];
        } else if (type == ST_F32) {
            memcpy(bytes + 4 * i, &c->values[from], 4);
        } else {
            const double x = (double)c->values[from];
            const uint16_t half = type == ST_F16 ? oracle_f16_encode(x) : oracle_bf16_encode(x);
            memcpy(bytes + 2 * i, &half, 2);
        }
    }
    if (!st_writer_add(writer, c->name, c->values ? type : ST_U8, c->middle ? 4 : 3, shape, bytes)) {
        abort();
    }
}

static void save(const mutator *m, const dump *d, unsigned tensors, st_dtype type, int64_t step, const char *path) {
    const golden *g = m->g;
    const oracle_geometry *o = &g->geometry;
    const column columns[] = {
        {"q", DUMP_Q, g->rows, step, o->heads, o->head_dim, d->q},
        {"index_q", DUMP_INDEX_Q, g->rows, step, o->index_heads, o->index_dim, d->index_q},
        {"k", DUMP_K, g->tokens, 1, o->kv_heads, o->head_dim, d->k},
        {"v", DUMP_V, g->tokens, 1, o->kv_heads, o->head_dim, d->v},
        {"scores", DUMP_SCORES, g->rows, step, 0, g->blocks, d->scores},
        {"selected", DUMP_SELECTED, g->rows, step, 0, g->tokens, NULL},
        {"attn", DUMP_ATTN, g->rows, step, o->heads, o->head_dim, d->attn},
        {"out", DUMP_OUT, g->rows, step, 0, g->hidden_size, d->out},
    };
    char err[ST_ERR_SIZE] = "";
    void *keep[8] = {0};
    const int64_t rows = (g->rows + step - 1) / step;
    int32_t *row = zeroed((size_t)rows, sizeof *row);
    for (int64_t r = 0; r < rows; r++) {
        row[r] = g->row[r * step];
    }
    st_writer *writer = st_writer_new();
    bool done = writer && (step == 1 || st_writer_add(writer, "rows", ST_I32, 1, &rows, row));
    for (size_t i = 0; done && i < 8; i++) {
        if (tensors & columns[i].bit) {
            add(writer, m, &columns[i], d->selected, type, &keep[i]);
        }
    }
    if (!done || !st_writer_save(writer, path, err, sizeof err)) {
        fprintf(stderr, "%s: %s\n", path, err);
        abort();
    }
    st_writer_free(writer);
    free(row);
    for (size_t i = 0; i < 8; i++) {
        free(keep[i]);
    }
}

void mutate_save(const mutator *m, mutation fault, unsigned tensors, st_dtype type, bool every_other,
                 const char *path) {
    const golden *g = m->g;
    const oracle_geometry *o = &g->geometry;
    const size_t slots = (size_t)g->batch * (size_t)g->rows;
    const size_t heads = (size_t)o->heads * (size_t)o->head_dim;
    const size_t kv = (size_t)o->kv_heads * (size_t)o->head_dim;
    const size_t tokens = (size_t)g->batch * (size_t)g->tokens;
    dump d = {
        .q = nans(slots * heads),
        .index_q = nans(slots * (size_t)o->index_heads * (size_t)o->index_dim),
        .k = nans(tokens * kv),
        .v = nans(tokens * kv),
        .scores = nans(slots * (size_t)g->blocks),
        .attn = nans(slots * heads),
        .out = nans(slots * (size_t)g->hidden_size),
        .selected = zeroed(slots * (size_t)g->tokens, 1),
    };
    for (int b = 0; b < g->batch; b++) {
        double *k = zeroed((size_t)g->cells[b] * kv, sizeof *k);
        double *keys = block_keys(m, fault, b);
        make_keys(m, fault, b, k, &d);
        for (int32_t r = 0; r < g->rows; r += every_other ? 2 : 1) {
            if (g->cell_of_token[(size_t)b * (size_t)g->tokens + (size_t)g->row[r]] >= 0) {
                make_row(m, fault, b, r, k, keys, tensors & (DUMP_ATTN | DUMP_OUT), &d);
            }
        }
        free(keys);
        free(k);
    }
    save(m, &d, tensors, type, every_other ? 2 : 1, path);
    float *const arrays[] = {d.q, d.index_q, d.k, d.v, d.scores, d.attn, d.out};
    for (size_t i = 0; i < 7; i++) {
        free(arrays[i]);
    }
    free(d.selected);
}
