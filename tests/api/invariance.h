// SPDX-License-Identifier: Apache-2.0
//
// The ways in which one world may be run, every one of which must give the same bytes as the plain way: one thread, all
// rows of a sequence in one call, one sequence after the other, pages of 16 cells in order.
#ifndef QSA_TESTS_INVARIANCE_H
#define QSA_TESTS_INVARIANCE_H

#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

// A caller's parallel-for: the last task first.
static inline void invariance_reversed(void *user, int32_t n, qsa_task task, void *arg) {
    ++*(int *)user;
    while (n-- > 0)
        task(arg, n);
}

// Any order.
static inline void invariance_shuffled(void *user, int32_t n, qsa_task task, void *arg) {
    rng r = rng_make((uint64_t)++ * (int *)user);
    int32_t *order = fx_alloc((size_t)n * sizeof *order);
    rng_shuffle(&r, n, order);
    for (int32_t i = 0; i < n; i++)
        task(arg, order[i]);
    free(order);
}

static inline void invariance_same(const fx_results *base, const fx_world *world, const fx_options *options) {
    fx_results *r = fx_run(world, options);
    FX_SAME(r, base);
    fx_results_free(r);
}

static inline void invariance_threads(const fx_results *base, const fx_world *world, const fx_options *options) {
    const int32_t threads[] = {2, 3, 7};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        fx_options o = *options;
        o.threads = threads[i];
        invariance_same(base, world, &o);
    }
    for (int i = 0; i < 2; i++) {
        int calls = 0;
        fx_options o = *options;
        o.threads = 3;
        o.parallel_for = i ? invariance_shuffled : invariance_reversed;
        o.parallel_user = &calls;
        invariance_same(base, world, &o);
        PLAIN_CHECK(calls > 0);
    }
}

// One token at a time against 7, 64 and all; one sequence after the other against rows of all in random order.
static inline void invariance_cuts(const fx_results *base, const fx_world *world, const fx_options *options) {
    const int32_t chunks[] = {1, 7, 64, 0};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        for (int interleave = 0; interleave < 2; interleave++) {
            fx_options o = *options;
            o.chunk = chunks[i];
            o.interleave = interleave;
            o.seed = 10 + i;
            invariance_same(base, world, &o);
        }
}

// Each sequence in a cache where nothing else lives.
static inline void invariance_alone(const fx_results *base, const fx_world *world, const fx_options *options) {
    for (int32_t s = 0; s < world->sequences; s++) {
        fx_session session = fx_open(world, options);
        fx_results *r = fx_results_make(&session);
        int32_t count[FX_MAX_SEQUENCES] = {0};
        count[s] = world->length[s];
        if (count[s])
            fx_step(&session, count, r);
        fx_read(&session, r);
        fx_close(&session);
        const char *what = NULL;
        for (int32_t layer = 0; layer < world->layers; layer++) {
            for (int32_t i = 0; i < world->length[s] && !what; i++)
                what = fx_token_difference(r, base, layer, world->first[s] + i);
            PLAIN_CHECK(!what);
            PLAIN_CHECK_INT(r->stored_bytes[layer][s], base->stored_bytes[layer][s]);
            PLAIN_CHECK_BYTES(r->stored[layer][s], base->stored[layer][s], base->stored_bytes[layer][s]);
        }
        fx_results_free(r);
    }
}

// Page sizes, each in order and with the pool's pages in random order; times ratio / 4 for other ratios.
static inline void invariance_pages(const fx_results *base, const fx_world *world, const fx_options *options) {
    const int32_t blocks[] = {1, 4, 16}; // 4, 16, 64 cells at ratio 4
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            fx_options o = *options;
            o.page_cells = blocks[i] * world->geometry.ratio;
            o.shuffle_pages = shuffle;
            o.interleave = shuffle;
            o.chunk = shuffle ? 5 : 0;
            o.seed = 20 + i;
            invariance_same(base, world, &o);
        }
}

static inline void invariance_stages(const fx_results *base, const fx_world *world, const fx_options *options) {
    fx_options o = *options;
    o.stages = 1;
    fx_results *whole = fx_run(world, &o);
    FX_SAME(whole, base);
    // Between two runs by stages, prep's outputs and the scores are compared too.
    o.threads = 2;
    o.chunk = 7;
    o.interleave = 1;
    invariance_same(whole, world, &o);
    o.chunk = 1;
    o.page_cells = world->geometry.ratio;
    o.shuffle_pages = 1;
    invariance_same(whole, world, &o);
    fx_results_free(whole);
}

// Rollback decides what is kept, the machine which kernels run.
static inline void invariance_rest(const fx_results *base, const fx_world *world, const fx_options *options) {
    fx_options o = *options;
    o.chunk = 3;
    o.rollback = 0;
    invariance_same(base, world, &o);
    o.rollback = QSA_ROLLBACK_ALL;
    o.shuffle_pages = 1;
    invariance_same(base, world, &o);
    o.kernels = "ref";
    invariance_same(base, world, &o);
    o.interleave = 1;
    o.threads = 2;
    o.chunk = 10;
    invariance_same(base, world, &o);
}

static inline void invariance_all(const fx_world *world, const fx_options *options) {
    fx_results *base = fx_run(world, options);
    invariance_threads(base, world, options);
    invariance_cuts(base, world, options);
    invariance_alone(base, world, options);
    invariance_pages(base, world, options);
    invariance_stages(base, world, options);
    invariance_rest(base, world, options);
    fx_results_free(base);
}

#endif
