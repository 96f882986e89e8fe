// SPDX-License-Identifier: Apache-2.0
//
// Records with known noise, for the judge: no clock, no kernel.
#ifndef QSA_TESTS_LAB_SYNTHETIC_H
#define QSA_TESTS_LAB_SYNTHETIC_H

#include "lab/record.h"
#include "support/rng.h"

#include <math.h>

typedef struct {
    double change;        // of the candidate's time: -0.1 is 10 % less
    double second;        // the same in the second case, if there are two
    double null;          // what the null shows
    double block_noise;   // deviation of d from block to block
    double process_noise; // and from process to process
    double drift;         // of the machine within a block, per batch
    double dropped;       // share of the blocks that were disturbed
    double slow;          // and how much slower the disturbed are
    int processes, blocks, cases;
    uint64_t seed;
} synthetic;

static inline synthetic synthetic_of(double change, uint64_t seed) {
    return (synthetic){.change = change,
                       .block_noise = 0.01,
                       .process_noise = 0.004,
                       .drift = 0.002,
                       .dropped = 0.05,
                       .slow = 0.5,
                       .processes = 9,
                       .blocks = 12,
                       .cases = 1,
                       .seed = seed};
}

static inline json_t *synthetic_blocks(const synthetic *s, rng *r, double d) {
    json_t *list = json_array();
    for (int b = 0; b < s->blocks; b++) {
        const bool turned = rng_below(r, 2), dropped = rng_uniform(r) < s->dropped;
        json_t *block = json_pack("[i]", (int)turned);
        for (int i = 0; i < 4; i++) {
            const bool other = (i == 1 || i == 2) != turned;
            const double log_time = (other ? d : 0) + s->drift * i + rng_normal(r) * s->block_noise +
                                    (dropped ? s->slow * rng_uniform(r) : 0);
            json_array_append_new(block, json_integer((json_int_t)(5e8 * exp(log_time))));
        }
        json_array_append_new(block, json_integer(dropped ? 1 : 0));
        json_array_append_new(list, block);
    }
    return list;
}

static inline json_t *synthetic_record(const synthetic *s) {
    rng r = rng_make(s->seed);
    char sha[LAB_HASH];
    json_t *cases = json_array(), *samples = json_array();
    for (int c = 0; c < s->cases; c++) {
        const char *name = c ? "second" : "first";
        json_t *processes = json_array();
        for (int p = 0; p < s->processes; p++) {
            const double null = log1p(s->null) + rng_normal(&r) * s->process_noise;
            const double pair = log1p(c ? s->second : s->change) + rng_normal(&r) * s->process_noise;
            json_t *nulls = synthetic_blocks(s, &r, null);
            json_array_append_new(processes, json_pack("{s:i, s:o, s:o}", "calls", 10, "null", nulls, "pair",
                                                       synthetic_blocks(s, &r, pair)));
        }
        json_array_append_new(cases,
                              json_pack("{s:s, s:f, s:f}", "name", name, "effect_floor", 3.0, "harm_floor", 1.0));
        json_array_append_new(samples, json_pack("{s:s, s:o}", "name", name, "processes", processes));
    }
    json_t *plan = json_pack("{s:i, s:i, s:i, s:o}", "seed", 5, "draws", 2000, "drop_limit", 20, "cases", cases);
    lab_hash_json(sha, plan);
    return json_pack("{s:i, s:s, s:{s:s}, s:{s:b}, s:o, s:s, s:o}", "schema", LAB_SCHEMA, "kernel", "gate", "baseline",
                     "id", "0123456789ab", "proof", "passed", 1, "plan", plan, "plan_sha256", sha, "samples", samples);
}

#endif
