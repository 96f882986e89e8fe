// SPDX-License-Identifier: Apache-2.0
//
// pthread_create fails for the i-th thread of a pool: a status, no thread left running, no memory kept. The program has a
// pthread_create of its own that passes on to the real one, so nothing of the system's limits is needed.
// RUNNER: plain
// LABELS: small threads
#define _GNU_SOURCE // RTLD_NEXT
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static long created, fail_at = -1;
static atomic_long alive;
static struct start {
    void *(*function)(void *);
    void *argument;
} starts[16]; // of the threads since `created` was set to 0

// Counted here and not in /proc, where a thread stays for a moment after it was joined.
static void *counted(void *argument) {
    const struct start *start = argument;
    void *result = start->function(start->argument);
    atomic_fetch_sub(&alive, 1);
    return result;
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*function)(void *),
                   void *restrict argument) {
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    create_function real;
    memcpy(&real, &symbol, sizeof real);
    if (!real || created == fail_at || created == sizeof starts / sizeof *starts)
        return EAGAIN;
    struct start *start = &starts[created++];
    *start = (struct start){function, argument};
    atomic_fetch_add(&alive, 1);
    return real(thread, attributes, counted, start);
}

static void every_thread(void) {
    const int32_t threads = 6;
    for (long fail = 0; fail < threads; fail++) {
        heap h = heap_make(0xff);
        qsa_context_config c;
        qsa_context_config_init(&c);
        c.threads = threads;
        c.allocator = heap_hook(&h);
        char untouched;
        qsa_context *context = (qsa_context *)&untouched;
        created = 0;
        fail_at = fail;
        const qsa_status status = qsa_context_create(&c, &context);
        if (fail < threads - 1) {
            PLAIN_CHECK_INT(status, QSA_ERR_MEMORY);
            PLAIN_CHECK(context == (qsa_context *)&untouched);
            PLAIN_CHECK(strstr(qsa_last_error(), "thread") != NULL);
            PLAIN_CHECK_INT(created, fail);
        } else {
            PLAIN_CHECK_INT(status, QSA_OK);
            PLAIN_CHECK_INT(created, threads - 1);
            PLAIN_CHECK_INT(atomic_load(&alive), threads - 1);
            qsa_context_destroy(context);
        }
        PLAIN_CHECK_INT(atomic_load(&alive), 0);
        PLAIN_CHECK_INT(h.live_bytes, 0);
        PLAIN_CHECK_INT(h.wrong, 0);
    }
    fail_at = -1;
}

int main(void) {
    PLAIN_RUN(every_thread);
    return plain_finish();
}
