// SPDX-License-Identifier: Apache-2.0
//
// Steady state: once everything is created, no call takes memory, neither from the hook nor from malloc, and between calls
// the pool uses no CPU. Each check has a control that must be caught by it.
// RUNNER: plain
// LABELS: small threads
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#ifndef QSA_SANITIZED
// The program's own malloc in front of glibc's counts every allocation of the process, whichever thread makes it.
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *memory);

static atomic_long mallocs;

void *malloc(size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_calloc(n, bytes);
}
void *realloc(void *memory, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    return __libc_memalign(align, bytes);
}
int posix_memalign(void **memory, size_t align, size_t bytes) {
    atomic_fetch_add(&mallocs, 1);
    *memory = __libc_memalign(align, bytes);
    return *memory ? 0 : 12;
}
void free(void *memory) {
    __libc_free(memory);
}
static const int counts_mallocs = 1;
#else
static atomic_long mallocs;
static const int counts_mallocs = 0;
#endif

// Everything that a session of steady calls needs, allocated beforehand.
typedef struct steady {
    fx_world *world;
    fx_session s;
    fx_batch batch;
    fx_rows out;
    qsa_selection selection;
    qsa_prep_out prep;
    float *scores, *records, *lse;
    int32_t *chunks;
    void *workspace;
    size_t workspace_bytes;
    heap h;
} steady;

static void set_up(steady *t, int32_t threads) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {60, 40};
    t->world = fx_world_make(31, &g, 1, 2, lengths, 1);
    t->h = heap_make(0xff);
    fx_options o = fx_options_default();
    o.heap = &t->h;
    o.threads = threads;
    t->s = fx_open(t->world, &o);
    const int32_t before[FX_MAX_SEQUENCES] = {30, 30}, next[FX_MAX_SEQUENCES] = {6, 5};
    fx_step(&t->s, before, NULL);
    int32_t tokens[100];
    const int32_t rows = fx_next(&t->s, next, tokens);
    t->batch = fx_batch_make(&t->s, 0, rows, tokens);
    t->out = fx_rows_make(rows, g.heads, g.head_dim, QSA_F32, FX_PACKED);
    const size_t n = (size_t)rows, q = (size_t)g.heads * (size_t)g.head_dim;
    t->prep = (qsa_prep_out){sizeof t->prep, fx_alloc(n * q * 4), fx_alloc(n * 32 * 4), NULL, NULL, fx_alloc(n * 4)};
    t->selection = (qsa_selection){sizeof t->selection, fx_alloc(n * 5 * 4), 5, fx_alloc(n * 4), NULL, NULL};
    t->scores = fx_alloc(n * 15 * 4);
    t->records = fx_alloc(n * (size_t)g.heads * (size_t)(2 + g.head_dim) * 4);
    t->lse = fx_alloc(n * (size_t)g.heads * 4);
    t->chunks = fx_alloc(n * 4);
    FX_OK(qsa_workspace_size(t->s.context, t->s.cache, QSA_STAGE_FORWARD, rows, &t->workspace_bytes));
    t->workspace = fx_alloc(t->workspace_bytes);
}

static void tear_down(steady *t) {
    void *const memory[] = {t->prep.q,  t->prep.index_q, t->prep.cells, t->selection.ids, t->selection.count, t->scores,
                            t->records, t->lse,          t->chunks,     t->workspace,     t->out.memory};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        free(memory[i]);
    fx_batch_free(&t->batch);
    fx_close(&t->s);
    fx_world_free(t->world);
}

static qsa_status forward(steady *t) {
    const qsa_rows_out out = fx_rows_out(&t->out);
    const qsa_forward_options o = {.size = sizeof o, .give = &t->selection, .lse = t->lse};
    return qsa_forward(t->s.context, t->s.layer[0], t->s.cache, 0, &t->batch.batch, &o, &out, t->workspace,
                       t->workspace_bytes);
}

static void stages(steady *t) {
    const qsa_geometry *g = &t->world->geometry;
    qsa_context *context = t->s.context;
    const int32_t rows = t->batch.rows;
    const int64_t stride = (int64_t)g->heads * (2 + g->head_dim);
    const qsa_rows_out out = fx_rows_out(&t->out);
    const qsa_row_set set = {sizeof set, rows, t->batch.sequences, t->prep.cells};
    FX_OK(qsa_prep(context, t->s.layer[0], t->s.cache, 0, &t->batch.batch, &t->prep, t->workspace, t->workspace_bytes));
    FX_OK(qsa_score(context, t->s.cache, 0, &set, t->prep.index_q, t->scores, 15, t->workspace, t->workspace_bytes));
    FX_OK(qsa_topk(context, g, QSA_RULE_OFFICIAL, rows, t->prep.cells, t->scores, 15, &t->selection));
    FX_OK(qsa_attend(context, t->s.cache, 0, &set, t->prep.q, &t->selection, t->records, stride, t->chunks,
                     t->workspace, t->workspace_bytes));
    FX_OK(qsa_merge(context, g, rows, t->records, stride, t->chunks, &t->batch.batch.gate, &out, t->lse));
    FX_OK(qsa_gate(context, g, rows, &t->batch.batch.q, &t->batch.batch.gate, &out));
}

static void everything_else(steady *t) {
    qsa_cache *cache = t->s.cache;
    const int32_t sequence = t->s.sequence[1];
    static int8_t k[8 * 2 * 24], v[8 * 2 * 24];
    static uint16_t k_scales[8 * 2], v_scales[8 * 2];
    static float block_keys[2 * 16];
    qsa_cells cells = {sizeof cells, k, v, k_scales, v_scales, block_keys, NULL, NULL};
    FX_OK(qsa_cache_read(cache, 0, sequence, 0, 8, &cells));
    FX_OK(qsa_sequence_reset(cache, sequence));
    FX_OK(qsa_cache_write(cache, 0, sequence, 8, &cells));
    FX_OK(qsa_cache_commit(cache));
    qsa_cache_info info = {.size = sizeof info};
    qsa_cache_events events = {.size = sizeof events};
    int32_t length, again;
    FX_OK(qsa_cache_get_info(cache, &info));
    FX_OK(qsa_cache_get_events(cache, &events));
    FX_OK(qsa_cache_reset_events(cache));
    FX_OK(qsa_sequence_length(cache, sequence, &length));
    FX_OK(qsa_sequence_destroy(cache, sequence));
    FX_OK(qsa_sequence_create(cache, &again));
    FX_OK(qsa_context_set_kernel(t->s.context, "attend", "ref"));
    size_t bytes;
    FX_OK(qsa_workspace_size(t->s.context, cache, QSA_STAGE_FORWARD, 100, &bytes));
    FX_OK(qsa_cache_size(&t->s.config, &bytes));
}

// Allocations since the numbers given, by either way.
static long taken(const steady *t, long hook, long all) {
    return t->h.calls - hook + atomic_load(&mallocs) - all;
}

static void no_allocation(void) {
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        steady t;
        set_up(&t, threads);
        const long hook = t.h.calls, all = atomic_load(&mallocs);
        PLAIN_CHECK(hook > 0 && (!counts_mallocs || all > 10));
        FX_OK(forward(&t));
        FX_OK(qsa_cache_discard(t.s.cache));
        stages(&t);
        FX_OK(qsa_cache_commit(t.s.cache));
        FX_OK(forward(&t));
        FX_OK(qsa_cache_commit(t.s.cache));
        everything_else(&t);
        FX_OK(forward(&t)); // the number of the destroyed sequence is in use again
        FX_OK(qsa_cache_discard(t.s.cache));
        const qsa_status refused = qsa_forward(t.s.context, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0);
        PLAIN_CHECK_INT(refused, QSA_ERR_ARGUMENT); // a message takes no memory either
        PLAIN_CHECK_INT(taken(&t, hook, all), 0);
        tear_down(&t);
    }
}

// Calls that do allocate are counted: a create in steady state, and a task that calls malloc on a thread of the pool.
static void allocating_task(void *arg, int32_t index) {
    (void)index;
    void *volatile memory = malloc(*(size_t *)arg); // volatile: kept by the optimiser
    free(memory);
}

static void no_allocation_control(void) {
    steady t;
    set_up(&t, 2);
    long hook = t.h.calls, all = atomic_load(&mallocs);
    qsa_layer *layer = fx_make_layer(t.s.context, t.world, 0);
    PLAIN_CHECK(t.h.calls - hook == 1 && taken(&t, hook, all) >= 1);
    qsa_layer_destroy(layer);
    if (counts_mallocs) {
        size_t bytes = 10;
        hook = t.h.calls, all = atomic_load(&mallocs);
        qsa_context_run(t.s.context, 8, allocating_task, &bytes);
        PLAIN_CHECK_INT(taken(&t, hook, all), 8);
    }
    tear_down(&t);
}

static double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

// CPU time of the whole process while this thread sleeps 200 ms.
static double idle_cpu(void) {
    const double before = cpu_seconds();
    const struct timespec pause = {.tv_nsec = 200000000};
    nanosleep(&pause, NULL);
    return cpu_seconds() - before;
}

// A tenth of one core for the sleep itself and for the thread sanitizer's own thread; a spinning thread takes all it gets.
static const double idle_bound = 0.02;

static void idle_pool(void) {
    steady t;
    set_up(&t, 4);
    for (int i = 0; i < 3; i++) {
        FX_OK(forward(&t));
        const double used = idle_cpu();
        PLAIN_CHECK(used < idle_bound);
        FX_OK(qsa_cache_discard(t.s.cache));
    }
    tear_down(&t);
}

static atomic_int stop;

static void *spin(void *argument) {
    while (!atomic_load(&stop)) {
    }
    return argument;
}

static void idle_control(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, spin, NULL) != 0)
        fx_die(__FILE__, __LINE__, "pthread_create");
    double used = idle_cpu();
    for (int i = 0; i < 50 && used < idle_bound; i++) // on a machine that is busy with other things
        used = idle_cpu();
    PLAIN_CHECK(used >= idle_bound);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

int main(void) {
    PLAIN_RUN(no_allocation);
    PLAIN_RUN(no_allocation_control);
    PLAIN_RUN(idle_pool);
    PLAIN_RUN(idle_control);
    return plain_finish();
}
