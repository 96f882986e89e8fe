// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab freeze` and `qsa-lab prove`.
#include "lab/cache.h"
#include "lab/commands.h"
#include "lab/device.h"
#include "lab/frozen.h"
#include "lab/pair.h"
#include "lab/prove.h"
#include "lab/record.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

// ---- freeze -------------------------------------------------------------------------------------

static bool freeze_source(lab_arm *arm, const lab_options *o, qsa_kernel_number number, char source[LAB_PATH],
                          bench_error *error) {
    if (lab_is_cuda(number)) {
        char name[80];
        snprintf(name, sizeof name, "lab/cuda/rows/%s_cuda.cu", lab_kernel_name(number));
        if (lab_is_cuda_file(o->from))
            snprintf(source, LAB_PATH, "%s", o->from);
        else if (!lab_join(source, lab_root(), name, error))
            return false;
        return lab_arm_from_file(arm, number, source, NULL, "cuda", error) && lab_arm_check_layout(arm, error);
    }
    const qsa_kernel_row *row = o->from ? lab_row(number, o->from) : qsa_table_best(number, QSA_CLASS_STRICT);
    if (!row || strcmp(o->from ? o->from : "row", "row") == 0)
        row = o->from && strcmp(o->from, "row") != 0 ? NULL : qsa_table_best(number, QSA_CLASS_STRICT);
    if (row) {
        char name[160];
        snprintf(name, sizeof name, "src/kernels/%s/%s.c", row->stage, row->name);
        return lab_join(source, lab_root(), name, error) && lab_arm_from_row(arm, row, error);
    }
    if (snprintf(source, LAB_PATH, "%s", o->from) >= LAB_PATH)
        return bench_fail(error, "--from %.40s...: the path is too long", o->from);
    return lab_arm_from_file(arm, number, o->from, o->where, qsa_table_best(number, QSA_CLASS_STRICT)->where, error) &&
           lab_arm_check_layout(arm, error);
}

int cmd_freeze(const lab_options *o, bench_error *error) {
    char kernel[64], source[LAB_PATH], name[64];
    qsa_kernel_number number;
    lab_arm arm;
    bool refused, made;
    if (!lab_one_operand(o, "freeze", "KERNEL", error))
        return LAB_BAD;
    const char *equals = strchr(o->operand[0], '=');
    snprintf(kernel, sizeof kernel, "%.*s", (int)strcspn(o->operand[0], "="), o->operand[0]);
    if (equals && (!equals[1] || strlen(equals + 1) >= sizeof name || strchr(equals + 1, '/'))) {
        bench_say(error, "%s: expected KERNEL=NAME with a name of 1 to %zu characters", o->operand[0], sizeof name - 1);
        return LAB_BAD;
    }
    const bool cuda = o->from && (strcmp(o->from, "cuda") == 0 || lab_is_cuda_file(o->from));
    if (!(cuda ? lab_cuda_kernel : lab_kernel)(kernel, &number, error) ||
        !freeze_source(&arm, o, number, source, error))
        return LAB_BAD;
    bool right = lab_arm_build(&arm, false, &refused, error);
    snprintf(name, sizeof name, "%.*s", equals ? (int)sizeof name - 1 : 12, equals ? equals + 1 : arm.id);
    right = right && frozen_keep(&arm, source, name, o->frozen, &made, error);
    if (right && o->json)
        lab_print_json(json_pack("{s:s, s:s, s:s, s:s, s:b}", "kernel", kernel, "name", name, "id", arm.id, "where",
                                 arm.where, "made", made));
    else if (right)
        printf("%s %s  %.12s  %s, %d unit%s\n", made ? "frozen" : "already frozen", kernel, arm.id, arm.where,
               arm.units, arm.units == 1 ? "" : "s");
    lab_arm_free(&arm);
    return right ? LAB_KEEP : LAB_BAD;
}

// ---- prove --------------------------------------------------------------------------------------

static void print_proof(const lab_pair *pair, const prove_report *report, const lab_options *o) {
    printf("baseline   %s  %.12s  %s\n", pair->baseline.label, pair->baseline.id, pair->baseline.where);
    printf("candidate  %s  %.12s  %s\n", pair->candidate.label, pair->candidate.id, pair->candidate.where);
    if (pair->refused) {
        printf("lint       %s\nreject\n", pair->reason);
        return;
    }
    const bool cuda = lab_is_cuda(pair->number);
    printf("proof      %d calls, %s, seed %llu, %.1f s\n", (int)report->calls,
           cuda ? "each between guards, two poisons" : "each at both guard pages", (unsigned long long)o->seed,
           report->seconds);
    for (int i = 0; cuda && i < LAB_DEVICE_CASES; i++)
        lab_print_resources(&pair->baseline, &pair->candidate, i);
    if (o->bound && report->worst[0] > 0)
        printf("bound      relative l2 %.3g, %.3g at logits of deviation 1, 2; allowed %.3g\n", report->worst[0],
               report->worst[1], LAB_BOUND);
    if (report->passed)
        printf("%s PASS\n", o->bound ? "bound" : "memcmp");
    else
        printf("%s FAIL\n  %s\n  in call %d, %s\n", report->differs ? "memcmp" : "proof", report->complaint,
               (int)report->calls, report->what);
}

int cmd_prove(const lab_options *o, bench_error *error) {
    lab_pair pair;
    prove_report report = {0};
    if (!lab_one_operand(o, "prove", "KERNEL", error) || !lab_pair_open(&pair, o, o->operand[0], false, error))
        return LAB_BAD;
    const prove_plan plan = {.baseline = &pair.baseline,
                             .candidate = &pair.candidate,
                             .seed = o->seed,
                             .random = o->cases,
                             .grid = !o->short_grid,
                             .bound = o->bound,
                             .cpu_seconds = LAB_PROVE_SECONDS};
    int code = LAB_REJECT;
    if (!pair.refused &&
        !(lab_is_cuda(pair.number) ? lab_prove_pair(&pair, &report, &plan, error) : lab_prove(&report, &plan, error)))
        code = LAB_BAD;
    else if (report.baseline_failed && !pair.refused) {
        bench_say(error, "the baseline %s breaks its contract: %s", pair.baseline.label, report.complaint);
        code = LAB_BAD;
    } else if (report.passed) {
        if (!lab_is_cuda(pair.number))
            lab_cache_keep(&report, &plan);
        code = LAB_KEEP;
    }
    if (code != LAB_BAD && o->json)
        lab_print_json(lab_proof_json(&pair, &report, o->seed, o->bound));
    else if (code != LAB_BAD)
        print_proof(&pair, &report, o);
    lab_pair_close(&pair);
    return code;
}
