// SPDX-License-Identifier: Apache-2.0
//
// A condition variable wakes the threads, a counter that they watch lets them begin together: without it the first
// would be done before the last has woken.

#include "bench/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct bench_team {
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    bench_team_task task;
    void *arg;
    int32_t threads, started, running;
    unsigned round;
    int stop;
    atomic_int arrived;
    struct member {
        bench_team *team;
        int32_t thread;
        pthread_t handle;
    } members[];
};

static void run_together(bench_team *team, bench_team_task task, void *arg, int32_t thread) {
    atomic_fetch_add(&team->arrived, 1);
    while (atomic_load(&team->arrived) < team->threads)
        sched_yield();
    task(arg, thread);
}

static void *member_main(void *argument) {
    const struct member *self = argument;
    bench_team *team = self->team;
    unsigned seen = 0;
    pthread_mutex_lock(&team->mutex);
    for (;;) {
        while (!team->stop && team->round == seen)
            pthread_cond_wait(&team->work, &team->mutex);
        if (team->stop)
            break;
        seen = team->round;
        const bench_team_task task = team->task;
        void *arg = team->arg;
        pthread_mutex_unlock(&team->mutex);
        run_together(team, task, arg, self->thread);
        pthread_mutex_lock(&team->mutex);
        if (--team->running == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

bench_team *bench_team_create(int32_t threads) {
    bench_team *team = calloc(1, sizeof *team + (size_t)threads * sizeof team->members[0]);
    if (!team)
        return NULL;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    team->threads = threads;
    while (team->started < threads - 1) {
        struct member *member = &team->members[team->started];
        member->team = team;
        member->thread = team->started + 1;
        if (pthread_create(&member->handle, NULL, member_main, member) != 0) {
            bench_team_destroy(team);
            return NULL;
        }
        team->started++;
    }
    return team;
}

void bench_team_destroy(bench_team *team) {
    if (!team)
        return;
    pthread_mutex_lock(&team->mutex);
    team->stop = 1;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
    for (int32_t i = 0; i < team->started; i++)
        pthread_join(team->members[i].handle, NULL);
    pthread_cond_destroy(&team->work);
    pthread_cond_destroy(&team->done);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}

void bench_team_run(bench_team *team, bench_team_task task, void *arg) {
    pthread_mutex_lock(&team->mutex);
    team->task = task;
    team->arg = arg;
    team->running = team->threads - 1;
    atomic_store(&team->arrived, 0);
    team->round++;
    pthread_cond_broadcast(&team->work);
    pthread_mutex_unlock(&team->mutex);
    run_together(team, task, arg, 0);
    pthread_mutex_lock(&team->mutex);
    while (team->running > 0)
        pthread_cond_wait(&team->done, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}
