// SPDX-License-Identifier: Apache-2.0
//
// Indices are claimed under the mutex: tasks here take tens of microseconds and more, and a claimed index is the only
// thing that threads share. Workers sleep in a condition variable from the end of one call to the next.

#include "backend/cpu/pool.h"

#include <pthread.h>

struct qsa_pool {
    qsa_allocator allocator;
    size_t bytes;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    qsa_task task;
    void *arg;
    int32_t n, next, unfinished;
    int stop;
    int32_t started;
    pthread_t threads[];
};

// With the mutex held: claims and runs indices until none is left.
static void run_tasks(qsa_pool *pool) {
    while (pool->next < pool->n) {
        int32_t index = pool->next++;
        qsa_task task = pool->task;
        void *arg = pool->arg;
        pthread_mutex_unlock(&pool->mutex);
        task(arg, index);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->unfinished == 0)
            pthread_cond_signal(&pool->done);
    }
}

static void *worker(void *argument) {
    qsa_pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stop) {
        run_tasks(pool);
        if (!pool->stop)
            pthread_cond_wait(&pool->work, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

qsa_pool *qsa_pool_create(int32_t threads, const qsa_allocator *allocator) {
    size_t bytes = sizeof(qsa_pool) + (size_t)threads * sizeof(pthread_t);
    qsa_pool *pool = allocator->alloc(allocator->user, bytes, 64);
    if (!pool)
        return NULL;
    *pool = (qsa_pool){.allocator = *allocator, .bytes = bytes};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    while (pool->started < threads - 1) {
        if (pthread_create(&pool->threads[pool->started], NULL, worker, pool) != 0) {
            qsa_pool_destroy(pool);
            return NULL;
        }
        pool->started++;
    }
    return pool;
}

void qsa_pool_destroy(qsa_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int32_t i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    qsa_allocator allocator = pool->allocator;
    allocator.free(allocator.user, pool, pool->bytes);
}

void qsa_pool_run(qsa_pool *pool, int32_t n, qsa_task task, void *arg) {
    pthread_mutex_lock(&pool->mutex);
    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->next = 0;
    pool->unfinished = n;
    pthread_cond_broadcast(&pool->work);
    run_tasks(pool);
    while (pool->unfinished > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}
