// SPDX-License-Identifier: Apache-2.0
//
// Samples: calls of 4 ms at least, after one call that is not timed (the roofs have used the caches). With
// --cold every call follows a flush and is timed alone. A run is roofs, sample, roofs, sample, ... roofs; where the nearer
// roof moves by more than 5 % between two neighbours the run is repeated, at most three in all, and the steadiest one is
// reported.

#include "bench/measure.h"

#include "bench/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 3, PROBES = 4, MOST_COLD_CALLS = 8, SIZING_TRIES = 3 };
static const double sample_seconds = 4e-3, long_seconds = 0.05, steady = 0.05;

// Something that is timed once in every round.
typedef struct probe {
    bench_world *world;
    bench_call call;
    bool appended;
    int32_t calls;   // of a batch, after which the clock is read; --cold: of a sample
    bool warm_up;    // one call first that is not timed; a long call warms up by itself
    double *seconds; // [samples] of one call
} probe;

typedef struct measurement {
    const bench_options *options;
    probe probes[PROBES]; // the case, then what is reported beside it
    int32_t n_probes;
    bench_flusher flusher;
    bench_team *team;
    roof_meter *meter;
    roof_values *roofs; // [samples + 1]
    int64_t switches;
} measurement;

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Sorts.
static double median_of(double *values, int32_t count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// Seconds of one call in batches until they make a sample, or -1. After flushes each call is timed alone.
static double time_calls(const probe *p, bench_flusher *flusher) {
    const int32_t batch = flusher ? 1 : p->calls;
    double seconds = 0, done = 0;
    while (flusher ? done < p->calls : seconds < sample_seconds) {
        if (flusher)
            bench_flush(flusher);
        const double start = bench_now();
        for (int32_t k = 0; k < batch; k++)
            if (p->call(p->world) != QSA_OK)
                return -1;
        seconds += bench_now() - start;
        done += batch;
    }
    return seconds / done;
}

// The same with what has to be done around a sample.
static double sample(const probe *p, bench_flusher *flusher) {
    double seconds = -1;
    if (p->appended && world_append(p->world) != QSA_OK)
        return -1;
    if (!p->warm_up || p->call(p->world) == QSA_OK)
        seconds = time_calls(p, flusher);
    if (p->appended && world_discard(p->world) != QSA_OK)
        return -1;
    return seconds;
}

// The least of a few, so that a moment's disturbance does not decide the size of every batch.
static double least_sample(const probe *p, bench_flusher *flusher) {
    double least = sample(p, flusher);
    for (int i = 1; i < SIZING_TRIES && least >= 0 && least < long_seconds; i++) {
        const double seconds = sample(p, flusher);
        least = seconds < least ? seconds : least;
    }
    return least;
}

// Finds how many calls are made between two looks at the clock: some that make a sample, so that the clock is no part of
// it.
static bool size_sample(probe *p, bench_flusher *flusher) {
    p->calls = 1;
    p->warm_up = !flusher;
    const double seconds = least_sample(p, flusher);
    if (seconds < 0)
        return false;
    const double most = flusher ? MOST_COLD_CALLS : 1 << 20,
                 wanted = sample_seconds / (seconds > 1e-9 ? seconds : 1e-9);
    p->calls = wanted < 1 ? 1 : wanted > most ? (int32_t)most : (int32_t)wanted + 1;
    p->warm_up = !flusher && seconds < long_seconds;
    return true;
}

bool bench_time(bench_world *world, bench_call call, bool appended, int32_t samples, double *ms, bench_error *error) {
    double *seconds = calloc((size_t)samples, sizeof *seconds);
    if (!seconds)
        return bench_fail(error, "no memory for %d samples", (int)samples);
    probe p = {.world = world, .call = call, .appended = appended, .seconds = seconds};
    bool right = size_sample(&p, NULL);
    for (int32_t i = 0; right && i < samples; i++) {
        seconds[i] = sample(&p, NULL);
        right = seconds[i] >= 0;
    }
    *ms = right ? median_of(seconds, samples) * 1e3 : 0;
    free(seconds);
    return right || bench_fail_library(error);
}

static bool one_run(measurement *m) {
    bench_flusher *flusher = m->options->cold ? &m->flusher : NULL;
    const int64_t before = bench_switches();
    int64_t in_roofs = 0;
    for (int32_t i = 0; i <= m->options->samples; i++) {
        const int64_t at_roofs = bench_switches();
        m->roofs[i] = roof_measure(m->meter);
        in_roofs += bench_switches() - at_roofs;
        for (int32_t k = 0; i < m->options->samples && k < m->n_probes; k++) {
            m->probes[k].seconds[i] = sample(&m->probes[k], flusher);
            if (m->probes[k].seconds[i] < 0)
                return false;
        }
    }
    m->switches = bench_switches() - before - in_roofs;
    return true;
}

// Each sample's share of a roof, the roof being the mean of its two neighbours: the median. `work` in 1e9.
static double share_of(const measurement *m, int roof, double work, double *scratch) {
    for (int32_t i = 0; i < m->options->samples; i++) {
        const double mean = (m->roofs[i].of[roof] + m->roofs[i + 1].of[roof]) / 2;
        scratch[i] = work / m->probes[0].seconds[i] / mean;
    }
    return median_of(scratch, m->options->samples);
}

static double largest_move(const measurement *m, int roof) {
    double moved = 0;
    for (int32_t i = 0; i < m->options->samples; i++) {
        const double a = m->roofs[i].of[roof], b = m->roofs[i + 1].of[roof];
        const double move = (a > b ? a - b : b - a) / (a < b ? a : b);
        moved = move > moved ? move : moved;
    }
    return moved;
}

// Milliseconds of a probe: the median; least and most where asked.
static double milliseconds(const probe *p, int32_t samples, double *scratch, double *least, double *most) {
    memcpy(scratch, p->seconds, (size_t)samples * sizeof *scratch);
    const double median = median_of(scratch, samples);
    if (least) {
        *least = scratch[0] * 1e3;
        *most = scratch[samples - 1] * 1e3;
    }
    return median * 1e3;
}

// Reads a run's numbers into the result.
static void evaluate(const measurement *m, bench_result *r, double *scratch) {
    const int32_t samples = m->options->samples;
    double ms[PROBES] = {0};
    for (int32_t k = 0; k < m->n_probes; k++)
        ms[k] = milliseconds(&m->probes[k], samples, scratch, k ? NULL : &r->min_ms, &r->max_ms);
    r->median_ms = ms[0];
    r->score_ms = r->id == BENCH_TOPK ? ms[1] : 0;
    r->fused_ms = r->id == BENCH_PREP ? ms[1] : 0;
    r->score_topk_ms = r->id == BENCH_STEP ? ms[1] : 0;
    r->against_step_ms = ms[2];
    r->against_score_topk_ms = ms[3];
    r->of_fma = share_of(m, ROOF_FMA, r->work.operations * 1e-9, scratch);
    r->of_dot = share_of(m, ROOF_DOT, r->work.operations * 1e-9, scratch);
    r->of_read = share_of(m, ROOF_READ, r->work.bytes * 1e-9, scratch);
    r->bound = r->of_read > r->of_fma ? ROOF_READ : ROOF_FMA;
    r->of_roof = r->bound == ROOF_READ ? r->of_read : r->of_fma;
    for (int roof = 0; roof < ROOFS; roof++) {
        for (int32_t i = 0; i <= samples; i++)
            scratch[i] = m->roofs[i].of[roof];
        r->roof.of[roof] = median_of(scratch, samples + 1);
    }
    r->moved = largest_move(m, r->bound);
    r->fit = r->moved <= steady;
    r->switches = m->switches;
}

static bool run_until_fit(measurement *m, bench_result *r, bench_error *error) {
    double *scratch = calloc((size_t)m->options->samples + 1, sizeof *scratch);
    if (!scratch)
        return bench_fail(error, "no memory for %d samples", (int)m->options->samples);
    bench_result best = *r;
    bool right = true;
    for (int run = 1; right && run <= RUNS && !best.fit; run++) {
        bench_result now = *r;
        right = one_run(m) || bench_fail_library(error);
        if (right)
            evaluate(m, &now, scratch);
        if (right && (run == 1 || now.moved < best.moved))
            best = now;
        best.runs = run;
    }
    *r = best;
    free(scratch);
    return right;
}

static bool measurement_open(measurement *m, const bench_options *o, size_t bytes, bench_error *error) {
    if (o->cold) {
        m->flusher = bench_flusher_open();
        if (!m->flusher.memory)
            return bench_fail(error, "no memory for the %zu bytes that --cold flushes with", m->flusher.bytes);
    }
    m->roofs = calloc((size_t)o->samples + 1, sizeof *m->roofs);
    if (!m->roofs)
        return bench_fail(error, "no memory for %d samples", (int)o->samples);
    for (int32_t k = 0; k < m->n_probes; k++) {
        m->probes[k].seconds = calloc((size_t)o->samples, sizeof(double));
        if (!m->probes[k].seconds)
            return bench_fail(error, "no memory for %d samples", (int)o->samples);
    }
    m->team = bench_team_create(o->threads);
    if (!m->team)
        return bench_fail(error, "no memory or no thread for %d threads that measure roofs", (int)o->threads);
    m->meter = roof_open(m->team, o->threads, bytes, o->cold ? &m->flusher : NULL, error);
    if (!m->meter)
        return false;
    for (int32_t k = 0; k < m->n_probes; k++)
        if (!size_sample(&m->probes[k], o->cold ? &m->flusher : NULL))
            return bench_fail_library(error);
    return true;
}

static void measurement_close(measurement *m) {
    roof_close(m->meter);
    bench_team_destroy(m->team);
    bench_flusher_close(&m->flusher);
    for (int32_t k = 0; k < PROBES; k++)
        free(m->probes[k].seconds);
    free(m->roofs);
}

static void add_probe(measurement *m, bench_world *world, bench_call call, bool appended) {
    m->probes[m->n_probes++] = (probe){.world = world, .call = call, .appended = appended};
}

static bool measure_world(bench_result *r, bench_world *world, bench_world *against, bench_error *error) {
    const bench_case *c = bench_case_of(r->id);
    measurement m = {.options = r->options};
    add_probe(&m, world, c->call, c->appended);
    if (r->id == BENCH_TOPK)
        add_probe(&m, world, bench_call_score, true);
    else if (r->id == BENCH_PREP)
        add_probe(&m, world, bench_call_prep_fused, false);
    else if (r->id == BENCH_STEP)
        add_probe(&m, world, bench_call_score_topk, true);
    if (against) {
        add_probe(&m, against, c->call, c->appended);
        add_probe(&m, against, bench_call_score_topk, true);
    }
    r->work = bench_work_of(world, r->id);
    r->samples = r->options->samples;
    r->union8 = world->union8;
    r->union16 = world->union16;
    r->jaccard = world->jaccard;
    if (world_append(world) != QSA_OK)
        return bench_fail_library(error);
    bool right = world_logits(world, &r->logits, error);
    right = (world_discard(world) == QSA_OK || bench_fail_library(error)) && right;
    right = right && measurement_open(&m, r->options, (size_t)r->work.bytes, error);
    if (right) {
        snprintf(r->loops, sizeof r->loops, "%s", roof_loops(m.meter));
        r->calls = m.probes[0].calls;
        right = run_until_fit(&m, r, error);
    }
    measurement_close(&m);
    return right;
}

// The kernels that the context picked for the case's stages, in the table's order.
static void name_kernels(bench_result *r, const qsa_context *context) {
    const char *stages = bench_case_of(r->id)->stages;
    size_t used = 0;
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        qsa_kernel_info info = {.size = sizeof info};
        if (qsa_kernel_at(i, &info) != QSA_OK || !strstr(stages, info.stage))
            continue;
        if (!r->options->screen && (strncmp(info.kernel, "screen", 6) == 0 || strcmp(info.kernel, "candidates") == 0))
            continue; // runs with --screen only
        const char *name = qsa_context_kernel(context, info.kernel);
        if (name && strcmp(name, info.name) == 0 && used < sizeof r->kernel)
            used += (size_t)snprintf(r->kernel + used, sizeof r->kernel - used, "%s%s", used ? " " : "", name);
    }
}

bool bench_measure(bench_result *r, const bench_options *o, bench_id id, bench_error *error) {
    const bench_case *c = bench_case_of(id);
    qsa_context *context = world_context(o, error);
    if (!context)
        return false;
    *r = (bench_result){.id = id,
                        .options = o,
                        .tokens = o->tokens >= 0 ? o->tokens : c->tokens,
                        .pos = o->pos >= 0 ? o->pos : 30000,
                        .seqs = o->seqs,
                        .selects = c->selects || c->scores,
                        .selection = c->scores ? BENCH_SCORED : o->selection,
                        .against_pos = id == BENCH_STEP ? o->against : -1};
    bench_world world = {0}, against = {0};
    const bool beside = r->against_pos >= 0;
    if (o->backend == QSA_BACKEND_CPU)
        name_kernels(r, context);
    bool right = world_open(&world, o, context, id, r->pos, r->tokens, error) && bench_case_ready(&world, id, error);
    right = right && (!beside || (world_open(&against, o, context, id, r->against_pos, r->tokens, error) &&
                                  bench_case_ready(&against, id, error)));
    if (o->backend == QSA_BACKEND_CUDA)
        right = right && device_measure(r, &world, error);
    else
        right = right && measure_world(r, &world, beside ? &against : NULL, error);
    world_close(&against);
    world_close(&world);
    qsa_context_destroy(context);
    return right;
}
