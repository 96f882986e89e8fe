// SPDX-License-Identifier: Apache-2.0
//
// Hot: `calls` calls back to back between two events, or with --graph as one captured graph that is replayed. Cold: 256 MiB are
// written before each call, which is timed alone; the host is ahead of the device by then, so launches are not in the time. The
// roofs are measured between the samples.

#include "bench/device.h"

#include "api/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPH_CALLS = 20, LONG_ROWS = 256, FLUSH_BYTES = 1 << 28 };

static void *to_device(bench_world *w, const void *array, size_t bytes, bench_error *error) {
    void *memory = NULL;
    if (w->n_device == WORLD_BUFFERS || qsa_memory_alloc(w->context, bytes, &memory) != QSA_OK) {
        bench_fail_library(error);
        return NULL;
    }
    w->device_memory[w->n_device] = memory;
    w->device_bytes[w->n_device++] = bytes;
    if (array && qsa_memory_copy(w->context, memory, array, bytes) != QSA_OK) {
        bench_fail_library(error);
        return NULL;
    }
    return memory;
}

static bool move_rows(bench_world *w, qsa_rows *rows, bench_error *error) {
    rows->data = to_device(w, rows->data, (size_t)w->rows * (size_t)rows->row_stride, error);
    return rows->data != NULL;
}

static bool move_selection(bench_world *w, qsa_selection *s, bench_error *error) {
    const size_t rows = (size_t)w->rows;
    s->ids = to_device(w, s->ids, rows * (size_t)s->stride * sizeof(int32_t), error);
    s->count = s->ids ? to_device(w, s->count, rows * sizeof(int32_t), error) : NULL;
    return s->count != NULL;
}

static bool move_floats(bench_world *w, float **array, size_t count, bench_error *error) {
    if (!*array)
        return true;
    *array = to_device(w, NULL, count * sizeof(float), error);
    return *array != NULL;
}

bool device_move(bench_world *w, bench_error *error) {
    const qsa_geometry *g = &w->geometry;
    const size_t rows = (size_t)w->rows, vector = (size_t)g->heads * (size_t)g->head_dim;
    qsa_batch *b = &w->batch;
    bool right = move_rows(w, &b->q, error) && move_rows(w, &b->k, error) && move_rows(w, &b->v, error) &&
                 move_rows(w, &b->index_q, error) && move_rows(w, &b->index_k, error) && move_rows(w, &b->gate, error);
    right = right && move_floats(w, &w->q, rows * vector, error) &&
            move_floats(w, &w->index_q, rows * (size_t)g->index_heads * (size_t)g->index_dim, error) &&
            move_floats(w, &w->scores, rows * (size_t)w->score_stride, error) &&
            move_floats(w, &w->records, (size_t)w->record_rows * (size_t)w->record_stride, error);
    right = right && move_selection(w, &w->selection, error) && move_selection(w, &w->found, error);
    if (right && w->chunks)
        right = (w->chunks = to_device(w, NULL, (size_t)w->record_rows * sizeof(int32_t), error)) != NULL;
    right = right && (w->out.data = to_device(w, NULL, rows * vector * sizeof(float), error)) != NULL;
    return right && (w->workspace = to_device(w, NULL, w->workspace_bytes, error)) != NULL;
}

void device_free(bench_world *w) {
    for (int32_t i = 0; i < w->n_device; i++)
        qsa_memory_free(w->context, w->device_memory[i], w->device_bytes[i]);
    w->n_device = 0;
}

const float *device_values(bench_world *w, const float *array, size_t count, bench_error *error) {
    if (w->n_device == 0)
        return array;
    float *host = world_array(w, count, sizeof *host, error);
    if (host && qsa_memory_copy(w->context, host, array, count * sizeof *host) != QSA_OK) {
        bench_fail_library(error);
        return NULL;
    }
    return host;
}

qsa_status device_call(bench_world *w, bench_id id) {
    const int fast = w->options->kernel_class == QSA_CLASS_FAST;
    const qsa_row_set rows = {.size = sizeof rows, .rows = w->rows, .sequences = w->sequences, .cells = w->cells};
    const qsa_forward_options use = {.size = sizeof use, .use = &w->selection};
    if ((id == BENCH_PROMPT || id == BENCH_DECODE) && fast)
        return qsa_device_attention(w->context, w->cache, 0, &rows, w->q, &w->selection, &w->batch.gate, &w->out,
                                    w->workspace);
    if (id == BENCH_SCORE_TOPK && fast)
        return qsa_device_choose(w->context, w->cache, 0, &rows, w->index_q, &w->found, w->workspace);
    if (id == BENCH_PROMPT || id == BENCH_STEP)
        return qsa_forward(w->context, w->layer, w->cache, 0, &w->batch, id == BENCH_PROMPT ? &use : NULL, &w->out,
                           w->workspace, w->workspace_bytes);
    if (id == BENCH_PREP)
        return world_append(w);
    return bench_case_of(id)->call(w);
}

typedef struct device_run {
    bench_world *world;
    bench_id id;
    const qsa_device_ops *ops;
    void *handle, *stream, *first, *second, *graph, *flush;
    int32_t calls;
} device_run;

static bool check(const device_run *run, int number, bench_error *error) {
    return number == 0 || bench_fail(error, "%s: %s", run->ops->name(run->handle), run->ops->error(number));
}

// Milliseconds between two events around what `work` queues.
static bool between(device_run *run, qsa_status (*work)(device_run *run), double *ms, bench_error *error) {
    float elapsed = 0;
    if (!check(run, run->ops->event_record(run->handle, run->first, run->stream), error))
        return false;
    if (work(run) != QSA_OK)
        return bench_fail_library(error);
    if (!check(run, run->ops->event_record(run->handle, run->second, run->stream), error) ||
        !check(run, run->ops->event_between(run->handle, run->first, run->second, &elapsed), error))
        return false;
    *ms = (double)elapsed;
    return true;
}

static qsa_status queue_calls(device_run *run) {
    qsa_status status = QSA_OK;
    if (run->graph)
        return qsa_device_check("bench", run->world->context->device,
                                run->ops->graph_launch(run->handle, run->graph, run->stream));
    for (int32_t i = 0; status == QSA_OK && i < run->calls; i++)
        status = device_call(run->world, run->id);
    return status;
}

static bool capture(device_run *run, bench_error *error) {
    if (!check(run, run->ops->capture_begin(run->handle, run->stream), error))
        return false;
    qsa_status status = QSA_OK;
    for (int32_t i = 0; status == QSA_OK && i < run->calls; i++)
        status = device_call(run->world, run->id);
    const int ended = run->ops->capture_end(run->handle, run->stream, &run->graph);
    return (status == QSA_OK || bench_fail_library(error)) && check(run, ended, error);
}

static int roof_of_round;
static qsa_status queue_roof(device_run *run) {
    return qsa_device_check("bench", run->world->context->device,
                            run->ops->roof(run->handle, roof_of_round, run->flush, FLUSH_BYTES, 1, run->stream));
}

// GB/s, GB/s and TFLOP/s of the three roofs.
static bool measure_roofs(device_run *run, double roofs[QSA_ROOFS], bench_error *error) {
    const double work[QSA_ROOFS] = {FLUSH_BYTES * 1e-9,
                                    (double)QSA_ROOF_GATHER_BLOCKS * 8 * QSA_ROOF_GATHER_PIECES * 1024e-9,
                                    (double)QSA_ROOF_TENSOR_BLOCKS * 8 * QSA_ROOF_TENSOR_ROUNDS * 8 * 4096 * 1e-12};
    for (roof_of_round = 0; roof_of_round < QSA_ROOFS; roof_of_round++) {
        double ms, least = 1e9;
        for (int i = 0; i < 3; i++) { // the least: the first brings the memory into L2
            if (!between(run, queue_roof, &ms, error))
                return false;
            least = ms < least ? ms : least;
        }
        roofs[roof_of_round] = work[roof_of_round] / (least * 1e-3);
    }
    return true;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool run_samples(device_run *run, bench_result *r, double *samples, double *roofs, bench_error *error) {
    const int32_t count = r->options->samples;
    for (int32_t i = 0; i < count; i++) {
        if (!measure_roofs(run, roofs, error))
            return false;
        for (int roof = 0; roof < QSA_ROOFS; roof++)
            r->device_roof[roof] += roofs[roof] / count;
        if (r->options->cold) {
            if (!check(run, run->ops->fill(run->handle, run->flush, i, FLUSH_BYTES, run->stream), error))
                return false;
        } else if (queue_calls(run) != QSA_OK) { // the roofs have used the caches
            return bench_fail_library(error);
        }
        if (!between(run, queue_calls, &samples[i], error))
            return false;
        samples[i] /= run->calls;
    }
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    r->median_ms = samples[count / 2];
    r->min_ms = samples[0];
    r->max_ms = samples[count - 1];
    return true;
}

static bool open_run(device_run *run, const bench_options *o, bench_error *error) {
    const qsa_device_ops *ops = run->ops;
    if (!check(run, ops->stream_create(run->handle, &run->stream), error))
        return false;
    if (qsa_context_set_stream(run->world->context, run->stream) != QSA_OK)
        return bench_fail_library(error);
    if (!check(run, ops->event_create(run->handle, &run->first), error) ||
        !check(run, ops->event_create(run->handle, &run->second), error) ||
        !check(run, ops->alloc(run->handle, FLUSH_BYTES, &run->flush), error) ||
        !check(run, ops->fill(run->handle, run->flush, 0x5a, FLUSH_BYTES, run->stream), error))
        return false;
    if (world_append(run->world) != QSA_OK || device_call(run->world, run->id) != QSA_OK ||
        device_call(run->world, run->id) != QSA_OK || qsa_context_wait(run->world->context) != QSA_OK)
        return bench_fail_library(error);
    run->calls = o->cold || run->world->rows > LONG_ROWS ? 1 : GRAPH_CALLS;
    return !o->graph || capture(run, error);
}

static void close_run(device_run *run) {
    const qsa_device_ops *ops = run->ops;
    (void)qsa_context_wait(run->world->context);
    (void)world_discard(run->world);
    if (run->graph)
        ops->graph_destroy(run->handle, run->graph);
    if (run->flush)
        ops->free(run->handle, run->flush);
    if (run->first)
        ops->event_destroy(run->handle, run->first);
    if (run->second)
        ops->event_destroy(run->handle, run->second);
    if (run->stream) {
        (void)qsa_context_set_stream(run->world->context, NULL);
        ops->stream_destroy(run->handle, run->stream);
    }
}

// The rows of the table that a case runs.
static void name_rows(bench_result *r, const bench_world *w) {
    const qsa_device *d = w->context->device;
    const qsa_cuda_cache on = qsa_device_cache(w->cache, 0);
    const bool fast = r->options->kernel_class == QSA_CLASS_FAST;
    const char *choose = fast ? d->ops->choose_row(d->handle, &on) : NULL;
    const char *attention = fast ? d->ops->attention_row(d->handle, &on) : NULL;
    const char *scoring = choose ? choose : "score_cuda topk_cuda";
    const char *attending = attention ? attention : "attend_cuda merge_cuda";
    switch (r->id) {
    case BENCH_PROMPT:
    case BENCH_DECODE:
        snprintf(r->kernel, sizeof r->kernel, "%s", attending);
        break;
    case BENCH_SCORE_TOPK:
        snprintf(r->kernel, sizeof r->kernel, "%s", scoring);
        break;
    case BENCH_STEP:
        snprintf(r->kernel, sizeof r->kernel, "prep_cuda %s %s", scoring, attending);
        break;
    default:
        snprintf(r->kernel, sizeof r->kernel, "%s_cuda", bench_case_name[r->id]);
    }
    snprintf(r->loops, sizeof r->loops, "%.60s", d->ops->name(d->handle));
}

bool device_measure(bench_result *r, bench_world *w, bench_error *error) {
    const qsa_device *device = w->context->device;
    device_run run = {.world = w, .id = r->id, .ops = device->ops, .handle = device->handle};
    double roofs[QSA_ROOFS], *samples = calloc((size_t)r->options->samples, sizeof *samples);
    if (!samples)
        return bench_fail(error, "no memory for %d samples", (int)r->options->samples);
    r->work = bench_work_of(w, r->id);
    name_rows(r, w);
    r->samples = r->options->samples;
    r->union8 = w->union8;
    r->union16 = w->union16;
    r->jaccard = w->jaccard;
    bool right = open_run(&run, r->options, error) && world_logits(w, &r->logits, error) &&
                 run_samples(&run, r, samples, roofs, error);
    r->calls = run.calls;
    r->runs = 1;
    const double seconds = r->median_ms * 1e-3;
    const double copied = r->device_roof[QSA_ROOF_COPY], product = r->device_roof[QSA_ROOF_TENSOR];
    if (right) {
        r->of_read = r->work.bytes * 1e-9 / seconds / copied;
        r->of_fma = r->work.operations * 1e-12 / seconds / product;
        r->of_gather = r->work.gathered * 1e-9 / seconds / r->device_roof[QSA_ROOF_GATHER];
        r->of_roof = r->of_read > r->of_fma ? r->of_read : r->of_fma;
    }
    close_run(&run);
    free(samples);
    return right;
}
