// SPDX-License-Identifier: Apache-2.0
//
// The statistics of docs/lab.md: median of medians, two-level bootstrap, signs.

#ifndef QSA_LAB_STATS_H
#define QSA_LAB_STATS_H

#include <stdbool.h>
#include <stdint.h>

// Blocks of one kind of one case: process p has its values at first[p] .. first[p + 1] - 1. Processes with too few blocks are
// not in it.
enum { STATS_PROCESSES = 100, STATS_BLOCKS = 10000, STATS_FEWEST = 3 };
typedef struct stats_sample {
    int processes;
    int first[STATS_PROCESSES + 1];
    double value[STATS_BLOCKS];
} stats_sample;

typedef struct stats_result {
    double estimate, low, high; // of d
    int processes, faster;      // faster: processes whose median is below 0
} stats_result;

void stats_clear(stats_sample *sample);
// Adds a process; one with fewer than STATS_FEWEST blocks is left out. False: no room.
bool stats_add(stats_sample *sample, const double *values, int count);

double stats_median(double *values, int count); // sorts; count > 0
// The interval holds 95 %. Needs one process at least.
stats_result stats_estimate(const stats_sample *sample, uint64_t seed, int draws);
// P(X >= k) for X binomial (n, 1/2).
double stats_tail(int n, int k);

#endif
