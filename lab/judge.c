// SPDX-License-Identifier: Apache-2.0
//
// Reads samples as [turned, ns, ns, ns, ns, dropped by], makes d of them, and goes down the table of verdicts.
#include "lab/judge.h"

#include "lab/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 3, MOST_TIMES = 2 * STATS_BLOCKS };

typedef struct series {
    stats_sample d;
    stats_result result;
    int blocks, dropped;
    double *a, *b; // ns of both arms in kept blocks, [MOST_TIMES]
    int times;
} series;

typedef struct case_judged {
    const char *name;
    double effect, harm; // as d: ln(1 + floor)
    series null, pair;
    bool fits;
} case_judged;

static void close_case(case_judged *c) {
    free(c->null.a);
    free(c->null.b);
    free(c->pair.a);
    free(c->pair.b);
}

// ---- Reading ------------------------------------------------------------------------------------

static bool read_block(series *s, json_t *block, double *d, bool *kept) {
    double ns[4];
    if (json_array_size(block) != 6)
        return false;
    for (size_t i = 0; i < 4; i++) {
        ns[i] = json_number_value(json_array_get(block, i + 1));
        if (!(ns[i] > 0) || !isfinite(ns[i]))
            return false;
    }
    json_t *drop = json_array_get(block, 5);
    if (!json_is_integer(drop) || !json_is_integer(json_array_get(block, 0)))
        return false;
    const bool turned = json_integer_value(json_array_get(block, 0)) != 0;
    const double outer = log(ns[0]) + log(ns[3]), inner = log(ns[1]) + log(ns[2]);
    *d = (turned ? outer - inner : inner - outer) / 2;
    *kept = json_integer_value(drop) == 0;
    s->blocks++;
    s->dropped += !*kept;
    if (*kept && s->times + 2 <= MOST_TIMES) {
        double *at_outer = turned ? s->b : s->a, *at_inner = turned ? s->a : s->b;
        at_outer[s->times] = ns[0];
        at_outer[s->times + 1] = ns[3];
        at_inner[s->times] = ns[1];
        at_inner[s->times + 1] = ns[2];
        s->times += 2;
    }
    return true;
}

static bool read_series(series *s, json_t *processes, const char *kind) {
    size_t p, i;
    json_t *process, *block;
    static double values[STATS_BLOCKS];
    s->a = calloc(MOST_TIMES, sizeof *s->a);
    s->b = calloc(MOST_TIMES, sizeof *s->b);
    if (!s->a || !s->b || !json_is_array(processes))
        return false;
    stats_clear(&s->d);
    json_array_foreach(processes, p, process) {
        json_t *blocks = json_object_get(process, kind);
        int count = 0;
        if (!json_is_array(blocks) || json_array_size(blocks) > STATS_BLOCKS)
            return false;
        json_array_foreach(blocks, i, block) {
            bool kept = false;
            double d;
            if (!read_block(s, block, &d, &kept))
                return false;
            if (kept)
                values[count++] = d;
        }
        if (!stats_add(&s->d, values, count))
            return false;
    }
    return true;
}

static bool read_floor(json_t *plan_case, const char *key, double *floor) {
    const double percent = json_number_value(json_object_get(plan_case, key));
    *floor = log1p(percent / 100);
    return percent > 0 && percent <= 100;
}

// blind: the candidate's blocks are not looked at.
static bool read_case(case_judged *c, json_t *plan, json_t *plan_case, json_t *sample, bool blind) {
    json_t *processes = json_object_get(sample, "processes");
    const uint64_t seed = (uint64_t)json_integer_value(json_object_get(plan, "seed"));
    const int draws = (int)json_integer_value(json_object_get(plan, "draws"));
    c->name = json_string_value(json_object_get(plan_case, "name"));
    if (!c->name || !read_floor(plan_case, "effect_floor", &c->effect) ||
        !read_floor(plan_case, "harm_floor", &c->harm) || draws < 100 || !read_series(&c->null, processes, "null") ||
        (!blind && !read_series(&c->pair, processes, "pair")))
        return false;
    if (c->null.d.processes > 0)
        c->null.result = stats_estimate(&c->null.d, seed, draws);
    if (!blind && c->pair.d.processes > 0)
        c->pair.result = stats_estimate(&c->pair.d, seed + 1, draws);
    const stats_result *null = &c->null.result;
    c->fits = null->processes > 0 && fabs(null->estimate) + (null->high - null->low) / 2 <= c->effect / 2;
    return true;
}

// The cases of a plan beside their samples; -1: malformed.
static int read_cases(case_judged cases[MOST_CASES], json_t *plan, json_t *samples, bool blind) {
    json_t *plan_cases = json_object_get(plan, "cases");
    const size_t count = json_array_size(plan_cases);
    memset(cases, 0, MOST_CASES * sizeof *cases);
    if (count < 1 || count > MOST_CASES || json_array_size(samples) != count)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!read_case(&cases[i], plan, json_array_get(plan_cases, i), json_array_get(samples, i), blind)) {
            for (size_t k = 0; k <= i; k++)
                close_case(&cases[k]);
            return -1;
        }
    return (int)count;
}

bool judge_fits(json_t *plan, json_t *samples) {
    case_judged *cases = calloc(MOST_CASES, sizeof *cases);
    const int count = cases ? read_cases(cases, plan, samples, true) : -1;
    bool fits = count > 0;
    for (int i = 0; i < count; i++) {
        fits &= cases[i].fits && cases[i].null.result.processes >= JUDGE_PROCESSES;
        close_case(&cases[i]);
    }
    free(cases);
    return fits;
}

// ---- The table of verdicts ----------------------------------------------------------------------

static double percent(double d) {
    return expm1(d) * 100;
}

// What stands in the way of any claim: dropped blocks, too little, or an unfit machine.
static bool doubtful(const case_judged *c, double drop_limit, char *reason, size_t size) {
    const int blocks = c->null.blocks + c->pair.blocks, dropped = c->null.dropped + c->pair.dropped;
    const int processes =
        c->null.result.processes < c->pair.result.processes ? c->null.result.processes : c->pair.result.processes;
    if (blocks == 0 || dropped > drop_limit / 100 * blocks)
        snprintf(reason, size, "%s: %d of %d blocks were disturbed and dropped, more than %.0f %%", c->name, dropped,
                 blocks, drop_limit);
    else if (processes < JUDGE_PROCESSES)
        snprintf(reason, size, "%s: %d processes with %d blocks, fewer than %d", c->name, processes, STATS_FEWEST,
                 JUDGE_PROCESSES);
    else if (!c->fits)
        snprintf(reason, size,
                 "machine unfit: the null of %s is %+.2f %% with an interval of %+.2f to %+.2f %%, the floor %.1f %%",
                 c->name, percent(c->null.result.estimate), percent(c->null.result.low), percent(c->null.result.high),
                 percent(c->effect));
    else
        return false;
    return true;
}

static int judge_times(const case_judged *cases, int count, double drop_limit, char *reason, size_t size) {
    for (int i = 0; i < count; i++)
        if (doubtful(&cases[i], drop_limit, reason, size))
            return LAB_INCONCLUSIVE;
    for (int i = 0; i < count; i++)
        if (cases[i].pair.result.low > cases[i].harm) {
            snprintf(reason, size, "%s: slower, %+.2f to %+.2f %% of the time, the floor of harm is %.1f %%",
                     cases[i].name, percent(cases[i].pair.result.low), percent(cases[i].pair.result.high),
                     percent(cases[i].harm));
            return LAB_REJECT;
        }
    const stats_result *first = &cases[0].pair.result;
    if (!(first->high < -cases[0].effect)) {
        snprintf(reason, size, "%s: %+.2f to %+.2f %% of the time is not wholly beyond the effect floor of %.1f %%",
                 cases[0].name, percent(first->low), percent(first->high), percent(cases[0].effect));
        return LAB_INCONCLUSIVE;
    }
    if (stats_tail(first->processes, first->faster) > 0.02) {
        snprintf(reason, size, "%s: only %d of %d processes are faster", cases[0].name, first->faster,
                 first->processes);
        return LAB_INCONCLUSIVE;
    }
    for (int i = 1; i < count; i++)
        if (cases[i].pair.result.estimate > cases[i].harm) {
            snprintf(reason, size, "%s: may be slower, %+.2f %%", cases[i].name,
                     percent(cases[i].pair.result.estimate));
            return LAB_INCONCLUSIVE;
        }
    snprintf(reason, size, "%s: %.2f %% less time, %.2f to %.2f %%", cases[0].name, -percent(first->estimate),
             -percent(first->high), -percent(first->low));
    return LAB_KEEP;
}

// ---- The judgement ------------------------------------------------------------------------------

static json_t *series_json(series *s) {
    json_t *out = json_pack("{s:i, s:i, s:i, s:i}", "blocks", s->blocks, "dropped", s->dropped, "processes",
                            s->result.processes, "faster", s->result.faster);
    if (s->result.processes > 0) {
        json_object_set_new(out, "estimate", json_real(s->result.estimate));
        json_object_set_new(out, "low", json_real(s->result.low));
        json_object_set_new(out, "high", json_real(s->result.high));
    }
    if (s->times > 0) {
        json_object_set_new(out, "median_a", json_real(stats_median(s->a, s->times)));
        json_object_set_new(out, "median_b", json_real(stats_median(s->b, s->times)));
        json_object_set_new(out, "min_a", json_real(s->a[0])); // sorted by now
        json_object_set_new(out, "min_b", json_real(s->b[0]));
    }
    return out;
}

static json_t *judgement(int verdict, const char *reason, json_t *cases) {
    return json_pack("{s:s, s:s, s:i, s:o}", "verdict", lab_verdict_name(verdict), "reason", reason, "exit", verdict,
                     "cases", cases);
}

json_t *judge_record(json_t *record, bench_error *error) {
    char reason[400];
    json_t *proof = json_object_get(record, "proof"), *plan = json_object_get(record, "plan");
    const char *complaint = json_string_value(json_object_get(proof, "complaint"));
    const char *stopped = json_string_value(json_object_get(record, "stopped"));
    if (!json_is_object(proof) || !json_is_boolean(json_object_get(proof, "passed"))) {
        bench_say(error, "the record has no proof");
        return NULL;
    }
    if (!json_is_true(json_object_get(proof, "passed")))
        return judgement(LAB_REJECT, complaint ? complaint : "the proof failed", json_array());
    if (stopped)
        return judgement(LAB_REJECT, stopped, json_array());
    case_judged *cases = calloc(MOST_CASES, sizeof *cases);
    const int count = cases ? read_cases(cases, plan, json_object_get(record, "samples"), false) : -1;
    json_t *drop = json_object_get(plan, "drop_limit"), *list = json_array();
    if (count < 0 || !json_is_number(drop)) {
        bench_say(error, "the record's plan and samples do not belong together");
        json_decref(list);
        for (int i = 0; i < count; i++)
            close_case(&cases[i]);
        free(cases);
        return NULL;
    }
    const int verdict = judge_times(cases, count, json_number_value(drop), reason, sizeof reason);
    for (int i = 0; i < count; i++) {
        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:o, s:o}", "name", cases[i].name, "fits", cases[i].fits, "null",
                                        series_json(&cases[i].null), "pair", series_json(&cases[i].pair)));
        close_case(&cases[i]);
    }
    free(cases);
    return judgement(verdict, reason, list);
}
