// SPDX-License-Identifier: Apache-2.0
//
// One decode step of several sequences and layers, captured once and replayed at other lengths, across blocks, pages and the
// budget's edge: the bytes of the CPU that runs every step for itself. What a capture may not do is refused.
// LABELS: cuda
// RUNNER: plain
#include "cuda_test.h"

#include "api/device.h"
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

enum { SEQUENCES = 3, EAGER = 3 };

typedef struct step_rows {
    float *device[FX_ARRAYS];
    float *host[FX_ARRAYS];
    size_t row[FX_ARRAYS]; // floats
    float *out[FX_MAX_LAYERS];
    float *lse[FX_MAX_LAYERS];
    int32_t sequences[SEQUENCES], positions[3 * SEQUENCES], tokens[SEQUENCES];
    void *workspace;
    size_t workspace_bytes;
} step_rows;

static void *device_memory(qsa_context *context, size_t bytes) {
    void *memory;
    FX_OK(qsa_memory_alloc(context, bytes, &memory));
    return memory;
}

static void open_rows(step_rows *r, fx_session *s) {
    const qsa_geometry *g = &s->world->geometry;
    for (int a = 0; a < FX_ARRAYS; a++) {
        int32_t heads, dim;
        fx_shape(g, (fx_array)a, &heads, &dim);
        r->row[a] = (size_t)heads * (size_t)dim;
        r->host[a] = fx_alloc((size_t)s->layers * SEQUENCES * r->row[a] * 4);
        r->device[a] = device_memory(s->context, (size_t)s->layers * SEQUENCES * r->row[a] * 4);
    }
    for (int32_t layer = 0; layer < s->layers; layer++) {
        r->out[layer] = device_memory(s->context, SEQUENCES * (size_t)g->heads * (size_t)g->head_dim * 4);
        r->lse[layer] = device_memory(s->context, SEQUENCES * (size_t)g->heads * 4);
    }
    FX_OK(qsa_workspace_size(s->context, s->cache, QSA_STAGE_FORWARD, SEQUENCES, &r->workspace_bytes));
    r->workspace = device_memory(s->context, r->workspace_bytes);
}

static void close_rows(step_rows *r, fx_session *s) {
    for (int a = 0; a < FX_ARRAYS; a++) {
        free(r->host[a]);
        qsa_memory_free(s->context, r->device[a], 1);
    }
    for (int32_t layer = 0; layer < s->layers; layer++) {
        qsa_memory_free(s->context, r->out[layer], 1);
        qsa_memory_free(s->context, r->lse[layer], 1);
    }
    qsa_memory_free(s->context, r->workspace, 1);
}

// The tokens of a step into the arrays that the graph reads.
static void fill_rows(step_rows *r, const fx_session *s, int32_t step) {
    const fx_world *w = s->world;
    for (int32_t i = 0; i < SEQUENCES; i++) {
        r->tokens[i] = w->first[i] + step;
        r->sequences[i] = s->sequence[i];
        memcpy(r->positions + 3 * i, w->positions + 3 * r->tokens[i], 3 * sizeof(int32_t));
    }
    for (int a = 0; a < FX_ARRAYS; a++) {
        for (int32_t layer = 0; layer < s->layers; layer++)
            for (int32_t i = 0; i < SEQUENCES; i++)
                memcpy(r->host[a] + ((size_t)layer * SEQUENCES + (size_t)i) * r->row[a],
                       fx_values(w, layer, (fx_array)a, r->tokens[i]), r->row[a] * 4);
        FX_OK(qsa_memory_copy(s->context, r->device[a], r->host[a], (size_t)s->layers * SEQUENCES * r->row[a] * 4));
    }
}

static qsa_rows rows_of(const step_rows *r, const fx_session *s, int32_t layer, fx_array a) {
    int32_t heads, dim;
    fx_shape(&s->world->geometry, a, &heads, &dim);
    return (qsa_rows){r->device[a] + (size_t)layer * SEQUENCES * r->row[a], QSA_F32, (int64_t)r->row[a] * 4,
                      (int64_t)dim * 4};
}

static qsa_batch batch_of(const step_rows *r, const fx_session *s, int32_t layer) {
    return (qsa_batch){.size = sizeof(qsa_batch),
                       .rows = SEQUENCES,
                       .sequences = r->sequences,
                       .positions = r->positions,
                       .positions_per_row = 3,
                       .q = rows_of(r, s, layer, FX_Q),
                       .k = rows_of(r, s, layer, FX_K),
                       .v = rows_of(r, s, layer, FX_V),
                       .index_q = rows_of(r, s, layer, FX_INDEX_Q),
                       .index_k = rows_of(r, s, layer, FX_INDEX_K),
                       .gate = rows_of(r, s, layer, FX_GATE)};
}

static qsa_status forward_all(const step_rows *r, fx_session *s) {
    const qsa_geometry *g = &s->world->geometry;
    qsa_status status = QSA_OK;
    for (int32_t layer = 0; status == QSA_OK && layer < s->layers; layer++) {
        const qsa_batch batch = batch_of(r, s, layer);
        const qsa_rows_out out = {r->out[layer], QSA_F32, (int64_t)g->heads * g->head_dim * 4,
                                  (int64_t)g->head_dim * 4};
        const qsa_forward_options options = {.size = sizeof options, .rule = s->options.rule, .lse = r->lse[layer]};
        status = qsa_forward(s->context, s->layer[layer], s->cache, layer, &batch, &options, &out, r->workspace,
                             r->workspace_bytes);
    }
    return status;
}

static void compare(const step_rows *r, const fx_session *s, const fx_results *base, int32_t step) {
    const qsa_geometry *g = &s->world->geometry;
    const size_t row = (size_t)g->heads * (size_t)g->head_dim * 4;
    unsigned char *out = fx_alloc(SEQUENCES * row);
    for (int32_t layer = 0; layer < s->layers; layer++) {
        FX_OK(qsa_memory_copy(s->context, out, r->out[layer], SEQUENCES * row));
        for (int32_t i = 0; i < SEQUENCES; i++) {
            char what[80];
            snprintf(what, sizeof what, "step %d, layer %d, sequence %d", (int)step, (int)layer, (int)i);
            plain_check_bytes(out + (size_t)i * row, fx_at(base, layer, FX_OUT, r->tokens[i]), row, __FILE__, __LINE__,
                              what);
        }
    }
    free(out);
}

static void steps(int rollback, qsa_rule rule) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[SEQUENCES] = {70, 70, 70};
    fx_world *world = fx_world_make(91, &g, 2, SEQUENCES, lengths, 3);
    fx_options o = fx_options_default();
    o.rollback = rollback;
    o.rule = rule;
    fx_results *base = fx_run(world, &o);
    o.backend = QSA_BACKEND_CUDA;
    fx_session s = fx_open(world, &o);
    const qsa_device *device = s.context->device;
    void *stream, *graph = NULL;
    PLAIN_CHECK_INT(device->ops->stream_create(device->handle, &stream), 0);
    FX_OK(qsa_context_set_stream(s.context, stream));
    step_rows r = {0};
    open_rows(&r, &s);
    for (int32_t step = 0; step < lengths[0]; step++) {
        fill_rows(&r, &s, step);
        const qsa_batch batch = batch_of(&r, &s, 0);
        if (step <= EAGER) {
            FX_OK(forward_all(&r, &s));
        } else {
            FX_OK(qsa_replay(s.context, s.cache, &batch));
            PLAIN_CHECK_INT(qsa_replay(s.context, s.cache, &batch), QSA_ERR_STATE);
            PLAIN_CHECK_INT(device->ops->graph_launch(device->handle, graph, stream), 0);
        }
        if (step == EAGER) {
            PLAIN_CHECK_INT(device->ops->capture_begin(device->handle, stream), 0);
            FX_OK(forward_all(&r, &s));
            r.positions[0]++; // another batch: its plan would have to go over inside the graph
            PLAIN_CHECK_INT(forward_all(&r, &s), QSA_ERR_STATE);
            r.positions[0]--;
            PLAIN_CHECK_INT(device->ops->capture_end(device->handle, stream, &graph), 0);
        }
        FX_OK(qsa_cache_commit(s.cache));
        compare(&r, &s, base, step);
    }
    FX_OK(qsa_context_wait(s.context));
    device->ops->graph_destroy(device->handle, graph);
    close_rows(&r, &s);
    FX_OK(qsa_context_set_stream(s.context, NULL));
    device->ops->stream_destroy(device->handle, stream);
    fx_close(&s);
    fx_results_free(base);
    fx_world_free(world);
}

static void replayed(void) {
    steps(64, QSA_RULE_OFFICIAL);
}

static void replayed_cut(void) {
    steps(QSA_ROLLBACK_ALL, QSA_RULE_CUT);
}

// More memory than a device has: a status, and the context goes on.
static void out_of_memory(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[1] = {20};
    fx_world *world = fx_world_make(3, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    o.backend = QSA_BACKEND_CUDA;
    fx_session s = fx_open(world, &o);
    qsa_cache_config config;
    qsa_cache_config_init(&config, &g, 1 << 28);
    config.layers = 100;
    config.kv_type = QSA_F32;
    qsa_cache *cache = NULL;
    PLAIN_CHECK_INT(qsa_cache_create(s.context, &config, &cache), QSA_ERR_MEMORY);
    PLAIN_CHECK(cache == NULL);
    void *memory = NULL;
    PLAIN_CHECK_INT(qsa_memory_alloc(s.context, (size_t)1 << 42, &memory), QSA_ERR_MEMORY);
    config = s.config;
    config.screen = 1;
    PLAIN_CHECK_INT(qsa_cache_create(s.context, &config, &cache), QSA_ERR_UNSUPPORTED);
    fx_results *r = fx_results_make(&s);
    const int32_t count[FX_MAX_SEQUENCES] = {20};
    fx_step(&s, count, r);
    FX_OK(qsa_context_wait(s.context));
    fx_results_free(r);
    fx_close(&s);
    fx_world_free(world);
}

int main(void) {
    cuda_need();
    PLAIN_RUN(replayed);
    PLAIN_RUN(replayed_cut);
    PLAIN_RUN(out_of_memory);
    return plain_finish();
}
