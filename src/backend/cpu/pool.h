// SPDX-License-Identifier: Apache-2.0
//
// Threads for one context: a mutex and condition variables, so that nothing spins and no CPU is used between calls.

#ifndef QSA_BACKEND_CPU_POOL_H
#define QSA_BACKEND_CPU_POOL_H

#include "qsa/qsa.h"

typedef struct qsa_pool qsa_pool;

// A pool of `threads` workers, the caller of qsa_pool_run included (threads - 1 are started). NULL when memory or threads
// cannot be had; nothing is left running then.
qsa_pool *qsa_pool_create(int32_t threads, const qsa_allocator *allocator);
void qsa_pool_destroy(qsa_pool *pool);
// task(arg, i) for i in 0..n-1, in any order; returns when all are done. One call at a time.
void qsa_pool_run(qsa_pool *pool, int32_t n, qsa_task task, void *arg);

#endif
