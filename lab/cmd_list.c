// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab list`: what can be labelled, what is frozen, what was tried.
#include "lab/cases/parts.h"
#include "lab/commands.h"
#include "lab/frozen.h"
#include "lab/record.h"

#include <stdio.h>
#include <string.h>

static json_t *kernels_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < QSA_K_COUNT; i++) {
        const case_plan *plan = case_plan_of((qsa_kernel_number)i);
        json_t *cases = json_array(), *rows = json_array();
        for (int k = 0; k < plan->timings; k++)
            json_array_append_new(cases, json_pack("{s:s, s:i, s:b}", "name", plan->timing[k].name, "cells",
                                                   (int)plan->timing[k].cells, "cold", plan->timing[k].cold));
        for (int32_t r = 0; r < qsa_table_rows(); r++)
            if (qsa_table_row(r)->number == (qsa_kernel_number)i)
                json_array_append_new(rows, json_pack("{s:s, s:b}", "name", qsa_table_row(r)->name, "usable",
                                                      !*qsa_table_unusable(qsa_table_row(r))));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:f, s:o, s:o}", "kernel", lab_kernel_name((qsa_kernel_number)i), "picked",
                            qsa_table_best((qsa_kernel_number)i, QSA_CLASS_STRICT)->where, "effect_floor",
                            plan->effect_floor, "harm_floor", plan->harm_floor, "cases", cases, "rows", rows));
    }
    return list;
}

static json_t *frozen_json(const frozen_list *list) {
    json_t *out = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const frozen_entry *e = &list->entry[i];
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "kernel", e->kernel, "name", e->name, "id",
                                             e->id, "where", e->where, "class", e->kernel_class));
    }
    return out;
}

static json_t *attempts_json(const lab_ledger *ledger, bench_error *error) {
    json_t *out = json_array();
    for (size_t i = 0; i < ledger->count; i++) {
        json_t *record = lab_record_read(ledger->path[i], error);
        if (!record) {
            json_decref(out);
            return NULL;
        }
        json_t *judgement = json_object_get(record, "judgement");
        json_array_append_new(
            out, json_pack("{s:s, s:O, s:O, s:O, s:O, s:O}", "record", strrchr(ledger->path[i], '/') + 1, "attempt",
                           json_object_get(record, "attempt"), "kernel", json_object_get(record, "kernel"), "candidate",
                           json_object_get(json_object_get(record, "candidate"), "label"), "verdict",
                           json_object_get(judgement, "verdict"), "reason", json_object_get(judgement, "reason")));
        json_decref(record);
    }
    return out;
}

static const char *word(json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "?";
}

static void print_list(json_t *all) {
    size_t i, k;
    json_t *one, *two;
    printf("kernels (picked here; timed cases, the first is the one that is claimed)\n");
    json_array_foreach(json_object_get(all, "kernels"), i, one) {
        printf("  %-13s %-8s", word(one, "kernel"), word(one, "picked"));
        json_array_foreach(json_object_get(one, "cases"), k, two) {
            printf("%s %s%s", k ? "," : "", word(two, "name"),
                   json_is_true(json_object_get(two, "cold")) ? " (cold)" : "");
        }
        printf("\n");
    }
    printf("frozen\n");
    json_array_foreach(json_object_get(all, "frozen"), i, one) {
        printf("  %-13s %.12s  %-8s %s\n", word(one, "kernel"), word(one, "id"), word(one, "where"), word(one, "name"));
    }
    printf("attempts\n");
    json_array_foreach(json_object_get(all, "attempts"), i, one) {
        printf("  %s  %s\n    %s\n", word(one, "record"), word(one, "candidate"), word(one, "reason"));
    }
}

int cmd_list(const lab_options *o, bench_error *error) {
    frozen_list frozen = {NULL, 0};
    lab_ledger ledger = {NULL, 0};
    if (o->operands > 0) {
        bench_say(error, "list takes no operand, and there is %s", o->operand[0]);
        return LAB_BAD;
    }
    json_t *all = NULL, *attempts = NULL;
    if (frozen_read_list(&frozen, o->frozen, error) && lab_ledger_read(&ledger, o->ledger, error) &&
        lab_ledger_check(&ledger, error))
        attempts = attempts_json(&ledger, error);
    if (attempts)
        all = json_pack("{s:o, s:o, s:o}", "kernels", kernels_json(), "frozen", frozen_json(&frozen), "attempts",
                        attempts);
    frozen_free_list(&frozen);
    lab_ledger_free(&ledger);
    if (!all)
        return LAB_BAD;
    if (o->json) {
        lab_print_json(all);
    } else {
        print_list(all);
        json_decref(all);
    }
    return LAB_KEEP;
}
