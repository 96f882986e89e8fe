// SPDX-License-Identifier: Apache-2.0
//
// Threads that run a roof at the same time. They sleep between calls, and start a task together.

#ifndef QSA_BENCH_TEAM_H
#define QSA_BENCH_TEAM_H

#include <stdint.h>

typedef struct bench_team bench_team;
typedef void (*bench_team_task)(void *arg, int32_t thread);

// threads >= 1, the caller included. NULL when memory or threads cannot be had.
bench_team *bench_team_create(int32_t threads);
void bench_team_destroy(bench_team *team);
// task(arg, t) on every thread t at once; returns when all are done.
void bench_team_run(bench_team *team, bench_team_task task, void *arg);

#endif
