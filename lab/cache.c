// SPDX-License-Identifier: Apache-2.0
//
// One small file a proof, made visible as a whole.
#include "lab/cache.h"

#include "qsa/qsa.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool folder_of(char folder[LAB_PATH], bool make) {
    bench_error ignored;
    char parent[LAB_PATH];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache) {
        if (snprintf(parent, sizeof parent, "%s", cache) >= LAB_PATH)
            return false;
    } else if (!home || !*home || !lab_join(parent, home, ".cache", &ignored)) {
        return false;
    }
    if (!lab_join(folder, parent, "qsa-lab", &ignored))
        return false;
    if (make) {
        mkdir(parent, 0700);
        mkdir(folder, 0700);
    }
    return true;
}

static bool path_of(char path[LAB_PATH], const prove_plan *plan, bool make) {
    char folder[LAB_PATH], lab[LAB_HASH], text[1024], key[LAB_HASH];
    bench_error ignored;
    const prove_window none = {0, 0, CASE_ORDINARY}, *w = plan->window ? plan->window : &none;
    if (!folder_of(folder, make) || !lab_hash_file(lab, "/proc/self/exe", &ignored))
        return false;
    const int n = snprintf(text, sizeof text, "%s %s %s %s %llu %d %d %d %d %d %d %s", lab,
                           lab_kernel_name(plan->baseline->number), plan->baseline->object_sha,
                           plan->candidate->object_sha, (unsigned long long)plan->seed, (int)plan->random, plan->grid,
                           (int)w->tokens, (int)w->pos, (int)w->edge, plan->bound, qsa_cpu_features());
    if (n < 0 || n >= (int)sizeof text)
        return false;
    lab_hash(key, text, (size_t)n);
    return lab_join(path, folder, key, &ignored);
}

bool lab_cache_find(prove_report *report, const prove_plan *plan) {
    char path[LAB_PATH];
    json_error_t at;
    json_t *kept = path_of(path, plan, false) ? json_load_file(path, 0, &at) : NULL;
    json_t *worst = json_object_get(kept, "relative_l2"), *calls = json_object_get(kept, "calls");
    const bool found = json_is_integer(calls) && json_array_size(worst) == 2;
    if (found) {
        *report = (prove_report){.passed = true, .cached = true, .calls = (int32_t)json_integer_value(calls)};
        for (size_t i = 0; i < 2; i++)
            report->worst[i] = json_number_value(json_array_get(worst, i));
    }
    json_decref(kept);
    return found;
}

void lab_cache_keep(const prove_report *report, const prove_plan *plan) {
    char path[LAB_PATH];
    bool exists;
    bench_error ignored;
    if (!report->passed || !path_of(path, plan, true))
        return;
    json_t *kept =
        json_pack("{s:i, s:[f, f]}", "calls", (int)report->calls, "relative_l2", report->worst[0], report->worst[1]);
    char *text = json_dumps(kept, JSON_COMPACT);
    if (text)
        lab_publish(path, text, strlen(text), &exists, &ignored);
    free(text);
    json_decref(kept);
}
