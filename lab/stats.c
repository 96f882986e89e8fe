// SPDX-License-Identifier: Apache-2.0
//
// Deterministic: the same sample and seed give the same interval everywhere.
#include "lab/stats.h"

#include "support/rng.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DRAWS = 20000 };

void stats_clear(stats_sample *sample) {
    sample->processes = 0;
    sample->first[0] = 0;
}

bool stats_add(stats_sample *sample, const double *values, int count) {
    const int at = sample->first[sample->processes];
    if (count < STATS_FEWEST)
        return true;
    if (sample->processes == STATS_PROCESSES || count > STATS_BLOCKS - at)
        return false;
    memcpy(sample->value + at, values, (size_t)count * sizeof *values);
    sample->first[++sample->processes] = at + count;
    return true;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double stats_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double process_median(const stats_sample *s, int p) {
    static double scratch[STATS_BLOCKS];
    const int count = s->first[p + 1] - s->first[p];
    memcpy(scratch, s->value + s->first[p], (size_t)count * sizeof *scratch);
    return stats_median(scratch, count);
}

// The estimate of one draw: processes with replacement, and of each its blocks with replacement.
static double draw(const stats_sample *s, rng *r) {
    static double blocks[STATS_BLOCKS];
    double medians[STATS_PROCESSES] = {0};
    for (int i = 0; i < s->processes; i++) {
        const int p = (int)rng_below(r, (uint32_t)s->processes), first = s->first[p], count = s->first[p + 1] - first;
        for (int b = 0; b < count; b++)
            blocks[b] = s->value[first + (int)rng_below(r, (uint32_t)count)];
        medians[i] = stats_median(blocks, count);
    }
    return stats_median(medians, s->processes);
}

stats_result stats_estimate(const stats_sample *sample, uint64_t seed, int draws) {
    static double estimates[MOST_DRAWS];
    stats_result result = {.processes = sample->processes};
    double medians[STATS_PROCESSES] = {0};
    rng r = rng_make(seed);
    draws = draws < MOST_DRAWS ? draws : MOST_DRAWS;
    for (int p = 0; p < sample->processes; p++) {
        medians[p] = process_median(sample, p);
        result.faster += medians[p] < 0;
    }
    result.estimate = stats_median(medians, sample->processes);
    for (int i = 0; i < draws; i++)
        estimates[i] = draw(sample, &r);
    qsort(estimates, (size_t)draws, sizeof *estimates, ascending);
    result.low = estimates[draws / 40];
    result.high = estimates[draws - 1 - draws / 40];
    return result;
}

double stats_tail(int n, int k) {
    double term = 1, sum = 0, all = 0; // binomial coefficients
    for (int i = 0; i <= n; i++) {
        sum += i >= k ? term : 0;
        all += term;
        term = term * (n - i) / (i + 1);
    }
    return sum / all;
}
