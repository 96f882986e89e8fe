// SPDX-License-Identifier: Apache-2.0
//
// One scenario through the public API: forward, taken back; prep, score, topk under both rules, attend, merge.
#include "digest_data.h"
#include "host/host_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {"", "f32", "f16", "bf16", "i8"};

static void need(qsa_status status, const char *call) {
    if (status == QSA_OK)
        return;
    fprintf(stderr, "%s: %s\n", call, qsa_last_error());
    exit(1);
}
#define NEED(call) need((call), #call)

// A run of a scenario in one format.
typedef struct {
    const digest_scenario *s;
    digest_list *list;
    digest_data data;
    qsa_type kv, keys;
    qsa_context *context;
    qsa_layer *layer;
    qsa_cache *cache;
    qsa_batch batch;
    int32_t *cells; // [rows]
    int32_t *chunks;
    float *q, *index_q, *k, *v, *scores, *records, *lse;
    int64_t score_stride, record_stride;
    unsigned char *out; // [rows][heads][head_dim] of up to 4 bytes
} run;

static qsa_context *open_context(const char *where) {
    static const char *const stages[] = {"prep", "score", "topk", "attend", "merge"};
    qsa_context *context;
    qsa_context_config config;
    qsa_context_config_init(&config);
    const bool cuda = where && strcmp(where, "cuda") == 0;
    config.backend = cuda ? QSA_BACKEND_CUDA : QSA_BACKEND_CPU;
    NEED(qsa_context_create(&config, &context));
    for (int stage = 0; where && !cuda && stage < 5; stage++) {
        bool has = false; // a stage's rows of this `where` may all be of class fast
        for (int32_t i = 0; i < qsa_kernel_count(); i++) {
            qsa_kernel_info info = {.size = sizeof info};
            NEED(qsa_kernel_at(i, &info));
            has |= strcmp(info.stage, stages[stage]) == 0 && strcmp(info.where, where) == 0 &&
                   info.kernel_class == QSA_CLASS_STRICT && info.usable;
        }
        if (has)
            NEED(qsa_context_set_kernel(context, stages[stage], where));
    }
    return context;
}

void digest_kernels(const char *where, size_t size, char *names) {
    qsa_context *context = open_context(where);
    size_t at = 0;
    for (int32_t i = 0; i < qsa_kernel_count() && at < size; i++) {
        qsa_kernel_info info = {.size = sizeof info};
        NEED(qsa_kernel_at(i, &info));
        const char *used = qsa_context_kernel(context, info.kernel);
        if (strcmp(used, info.name) == 0)
            at += (size_t)snprintf(names + at, size - at, "%s%s", at ? " " : "", used);
    }
    qsa_context_destroy(context);
}

static void open_run(run *r, const char *where, digest_change change) {
    const digest_scenario *s = r->s;
    digest_data_open(&r->data, s, change);
    const qsa_geometry *g = &r->data.geometry;
    r->context = open_context(where);
    const qsa_layer_config layer = {.size = sizeof layer,
                                    .geometry = *g,
                                    .norm_form = QSA_NORM_ZERO_CENTRED,
                                    .norm_type = QSA_BF16,
                                    .q_norm = r->data.norms[0],
                                    .k_norm = r->data.norms[1],
                                    .index_q_norm = r->data.norms[2],
                                    .index_k_norm = r->data.norms[3]};
    NEED(qsa_layer_create(r->context, &layer, &r->layer));
    qsa_cache_config cache;
    const int32_t most = s->written + s->rows;
    qsa_cache_config_init(&cache, g, most);
    cache.kv_type = r->kv;
    cache.block_key_type = r->keys;
    cache.max_sequences = s->sequences;
    cache.pages *= s->sequences;
    NEED(qsa_cache_create(r->context, &cache, &r->cache));
    for (int32_t i = 0; i < s->sequences; i++) {
        int32_t sequence;
        NEED(qsa_sequence_create(r->cache, &sequence));
        if (sequence != i)
            abort();
    }
    if (s->written) {
        qsa_cells cells;
        digest_cells_open(&cells, g, r->kv, r->keys, s->written);
        digest_cells_fill(&cells, g, r->kv, r->keys, s->written);
        NEED(qsa_cache_write(r->cache, 0, 0, s->written, &cells));
        NEED(qsa_cache_commit(r->cache));
        digest_cells_close(&cells);
    }
    digest_data_batch(&r->data, s, &r->batch);
    const size_t rows = (size_t)s->rows, head = (size_t)g->head_dim, index = (size_t)g->index_dim;
    r->cells = digest_memory(rows, sizeof(int32_t));
    r->chunks = digest_memory(rows, sizeof(int32_t));
    r->q = digest_memory(rows * (size_t)g->heads * head, 4);
    r->k = digest_memory(rows * (size_t)g->kv_heads * head, 4);
    r->v = digest_memory(rows * (size_t)g->kv_heads * head, 4);
    r->index_q = digest_memory(rows * (size_t)g->index_heads * index, 4);
    r->lse = digest_memory(rows * (size_t)g->heads, 4);
    r->out = digest_memory(rows * (size_t)g->heads * head, 4);
    r->score_stride = most / g->ratio;
    r->scores = digest_memory(rows * (size_t)r->score_stride, 4);
    r->record_stride = (int64_t)qsa_max_chunks(g) * g->heads * (2 + g->head_dim);
    r->records = digest_memory(rows * (size_t)r->record_stride, 4);
}

static void close_run(run *r) {
    void *all[] = {r->cells, r->chunks, r->q, r->k, r->v, r->index_q, r->lse, r->out, r->scores, r->records};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    qsa_cache_destroy(r->cache);
    qsa_layer_destroy(r->layer);
    qsa_context_destroy(r->context);
    digest_data_close(&r->data);
}

// Adds scenario/what, scenario/kv/what, scenario/keys_f16/what, or both.
typedef enum { OF_RAW = 0, OF_KV = 1, OF_KEYS = 2, OF_BOTH = 3 } depends;

static void add(run *r, depends on, const char *what, const void *data, size_t bytes) {
    char name[64];
    snprintf(name, sizeof name, "%s/%s%s%s%s%s%s", r->s->name, on & OF_KV ? type_names[r->kv] : "",
             on & OF_KV ? "/" : "", on & OF_KEYS ? "keys_" : "", on & OF_KEYS ? type_names[r->keys] : "",
             on & OF_KEYS ? "/" : "", what);
    digest_add(r->list, name, data, bytes);
}

static size_t out_count(const run *r) {
    return (size_t)r->s->rows * (size_t)r->data.geometry.heads * (size_t)r->data.geometry.head_dim;
}

static qsa_rows_out out_rows(const run *r, qsa_type type) {
    const qsa_geometry *g = &r->data.geometry;
    const int64_t head = g->head_dim * (int64_t)(type == QSA_F32 ? 4 : 2);
    return (qsa_rows_out){r->out, type, g->heads * head, head};
}

static void run_forward(run *r) {
    const qsa_rows_out out = out_rows(r, QSA_F32);
    const qsa_forward_options options = {.size = sizeof options, .rule = QSA_RULE_OFFICIAL, .lse = r->lse};
    NEED(host_forward(r->context, &r->data.geometry, r->layer, r->cache, 0, &r->batch, &options, &out));
    NEED(qsa_cache_discard(r->cache));
    add(r, OF_BOTH, "forward", r->out, out_count(r) * 4);
    add(r, OF_BOTH, "lse", r->lse, (size_t)r->s->rows * (size_t)r->data.geometry.heads * 4);
}

static void run_prep(run *r) {
    const qsa_geometry *g = &r->data.geometry;
    const qsa_prep_out out = {sizeof out, r->q, r->index_q, r->k, r->v, r->cells};
    NEED(host_prep(r->context, g, r->layer, r->cache, 0, &r->batch, &out));
    NEED(qsa_cache_commit(r->cache));
    const size_t rows = (size_t)r->s->rows, kv = rows * (size_t)g->kv_heads * (size_t)g->head_dim * 4;
    add(r, OF_RAW, "q", r->q, out_count(r) * 4);
    add(r, OF_RAW, "index_q", r->index_q, rows * (size_t)g->index_heads * (size_t)g->index_dim * 4);
    add(r, OF_RAW, "k", r->k, kv);
    add(r, OF_RAW, "v", r->v, kv);
}

// What is stored: the cells that prep appended, sequence by sequence, and the events.
static void read_cells(run *r) {
    const qsa_geometry *g = &r->data.geometry;
    for (int32_t sequence = 0; sequence < r->s->sequences; sequence++) {
        int32_t length;
        char what[64];
        NEED(qsa_sequence_length(r->cache, sequence, &length));
        const int32_t count = length - r->s->written;
        const size_t vectors = (size_t)count * (size_t)g->kv_heads, groups = ((size_t)g->head_dim + 63) / 64;
        const size_t codes = vectors * (size_t)g->head_dim * (r->kv == QSA_F32 ? 4 : r->kv == QSA_I8 ? 1 : 2);
        const size_t blocks = (size_t)(length / g->ratio - r->s->written / g->ratio) * (size_t)g->index_dim;
        qsa_cells cells;
        digest_cells_open(&cells, g, r->kv, r->keys, count);
        NEED(qsa_cache_read(r->cache, 0, sequence, r->s->written, count, &cells));
        snprintf(what, sizeof what, "stored_k_%" PRId32, sequence);
        add(r, OF_KV, what, cells.k, codes);
        snprintf(what, sizeof what, "stored_v_%" PRId32, sequence);
        add(r, OF_KV, what, cells.v, codes);
        if (r->kv == QSA_I8) {
            snprintf(what, sizeof what, "scales_k_%" PRId32, sequence);
            add(r, OF_KV, what, cells.k_scales, vectors * groups * 2);
            snprintf(what, sizeof what, "scales_v_%" PRId32, sequence);
            add(r, OF_KV, what, cells.v_scales, vectors * groups * 2);
        }
        snprintf(what, sizeof what, "block_keys_%" PRId32, sequence);
        add(r, OF_KEYS, what, cells.block_keys, blocks * (r->keys == QSA_F32 ? 4 : 2));
        digest_cells_close(&cells);
    }
    qsa_cache_events events = {.size = sizeof events};
    NEED(qsa_cache_get_events(r->cache, &events));
    const uint64_t counts[3] = {events.nan, events.infinite, events.saturated};
    add(r, OF_BOTH, "events", counts, sizeof counts);
}

static void run_score(run *r, const qsa_row_set *rows) {
    NEED(host_score(r->context, &r->data.geometry, r->cache, 0, rows, r->index_q, r->scores, r->score_stride));
    // A row's blocks without the gap to the next row's.
    float *packed = digest_memory((size_t)r->s->rows * (size_t)r->score_stride, sizeof *packed);
    size_t n = 0;
    for (int32_t i = 0; i < r->s->rows; i++) {
        const size_t blocks = (size_t)(r->cells[i] / r->data.geometry.ratio);
        memcpy(packed + n, r->scores + i * r->score_stride, blocks * sizeof *packed);
        n += blocks;
    }
    add(r, OF_KEYS, "scores", packed, n * sizeof *packed);
    free(packed);
}

static void run_merge(run *r, const char *what, qsa_type type, bool gated) {
    const qsa_rows_out out = out_rows(r, type);
    NEED(host_merge(r->context, &r->data.geometry, r->s->rows, r->records, r->record_stride, r->chunks,
                    gated ? &r->batch.gate : NULL, &out, r->lse));
    add(r, OF_BOTH, what, r->out, out_count(r) * (type == QSA_F32 ? 4 : 2));
}

static void run_attend(run *r, const qsa_row_set *rows, qsa_rule rule) {
    const qsa_geometry *g = &r->data.geometry;
    const int64_t stride = qsa_selection_stride(g, rule);
    const size_t n = (size_t)rows->rows;
    int32_t *ids = digest_memory(n * (size_t)stride + 3 * n, sizeof *ids), *counts = ids + n * (size_t)stride;
    qsa_selection selection = {sizeof selection, ids, stride, counts, counts + n, counts + 2 * n};
    NEED(host_topk(r->context, g, rule, rows->rows, r->cells, r->scores, r->score_stride, &selection));
    add(r, OF_KEYS, rule == QSA_RULE_CUT ? "cut/ids" : "official/ids", ids, (n * (size_t)stride + 3 * n) * sizeof *ids);
    memset(r->records, 0, n * (size_t)r->record_stride * sizeof(float));
    NEED(host_attend(r->context, g, r->cache, 0, rows, r->q, &selection, r->records, r->record_stride, r->chunks));
    if (rule == QSA_RULE_CUT) {
        run_merge(r, "cut/out", QSA_F32, false);
    } else {
        add(r, OF_BOTH, "records", r->records, n * (size_t)r->record_stride * sizeof(float));
        run_merge(r, "out", QSA_F32, false);
        add(r, OF_BOTH, "lse", r->lse, n * (size_t)g->heads * sizeof(float)); // forward's again
        run_merge(r, "forward", QSA_F32, true);                               // the same bits
        run_merge(r, "gated_f16", QSA_F16, true);
        run_merge(r, "gated_bf16", QSA_BF16, true);
    }
    free(ids);
}

static void run_format(digest_list *list, const digest_scenario *s, qsa_type kv, qsa_type keys, const char *where,
                       digest_change change) {
    run r = {.s = s, .list = list, .kv = kv, .keys = keys};
    open_run(&r, where, change);
    if (s->all_formats || kv == QSA_I8)
        run_forward(&r);
    run_prep(&r);
    read_cells(&r);
    const qsa_row_set rows = {sizeof rows, s->rows, r.data.sequences, r.cells};
    run_score(&r, &rows);
    run_attend(&r, &rows, QSA_RULE_OFFICIAL);
    if (s->all_formats || kv == QSA_I8)
        run_attend(&r, &rows, QSA_RULE_CUT);
    close_run(&r);
}

void digest_run(digest_list *list, const digest_scenario *s, const char *where, digest_change change, bool f32_only) {
    for (int kv = QSA_F32; kv <= (f32_only ? QSA_F32 : QSA_I8); kv++)
        for (int keys = QSA_F32; keys <= (f32_only ? QSA_F32 : QSA_BF16); keys++)
            if ((s->all_formats || keys == (kv == QSA_I8 ? QSA_F32 : kv)) && (!s->only || kv == (int)s->only))
                run_format(list, s, (qsa_type)kv, (qsa_type)keys, where, change);
}
