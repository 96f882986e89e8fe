// SPDX-License-Identifier: Apache-2.0
//
// Opens arms.
#include "lab/pair.h"

#include "lab/frozen.h"

#include <stdio.h>
#include <string.h>

static bool usable(const qsa_kernel_row *row, bench_error *error) {
    const char *reason = qsa_table_unusable(row);
    return !*reason || bench_fail(error, "%s does not run on this machine: it %s", row->name, reason);
}

static bool keep_row(const lab_arm *arm, const qsa_kernel_row *row, const char *store, bench_error *error) {
    char name[64], path[LAB_PATH], source[160];
    bool made;
    snprintf(name, sizeof name, "%.12s", arm->id);
    snprintf(source, sizeof source, "src/kernels/%s/%s.c", row->stage, row->name);
    return lab_join(path, lab_root(), source, error) && frozen_keep(arm, path, name, store, &made, error);
}

// The row of a kernel of CUDA, as lab/cuda/rows launches it.
static bool open_cuda_row(lab_arm *arm, const char *what, const char *store, bool keep, bench_error *error) {
    char name[96], row[64], path[LAB_PATH];
    const qsa_kernel_number number = arm->number;
    bool made, refused;
    snprintf(row, sizeof row, "%s_cuda", lab_kernel_name(number));
    snprintf(name, sizeof name, "lab/cuda/rows/%s.cu", row);
    if (what && strcmp(what, "cuda") != 0 && strcmp(what, row) != 0)
        return bench_fail(error, "--baseline %s: no frozen baseline and no row of CUDA's %s has this name", what,
                          lab_kernel_name(number));
    if (!lab_join(path, lab_root(), name, error) || !lab_arm_from_file(arm, number, path, NULL, "cuda", error))
        return false;
    snprintf(arm->label, sizeof arm->label, "%s", row);
    snprintf(name, sizeof name, "%.12s", arm->id);
    if (lab_arm_build(arm, false, &refused, error) && (!keep || frozen_keep(arm, path, name, store, &made, error)))
        return true;
    lab_arm_free(arm);
    return false;
}

bool lab_baseline_open(lab_arm *arm, const lab_options *options, qsa_kernel_number number, bool keep,
                       bench_error *error) {
    bool found = false, refused;
    const char *what = options->baseline;
    if (what && !frozen_load(arm, number, what, options->frozen, &found, error))
        return false;
    if (!found && lab_is_cuda(number)) {
        memset(arm, 0, sizeof *arm);
        arm->number = number;
        return open_cuda_row(arm, what, options->frozen, keep, error);
    }
    const qsa_kernel_row *row = found ? NULL : what ? lab_row(number, what) : qsa_table_best(number, QSA_CLASS_STRICT);
    if (!found && !row)
        return bench_fail(error, "--baseline %s: no frozen baseline and no row of %s has this name", what,
                          lab_kernel_name(number));
    if (!found && (!usable(row, error) || !lab_arm_from_row(arm, row, error)))
        return false;
    if (!lab_arm_build(arm, found, &refused, error) ||
        (!found && keep && !keep_row(arm, row, options->frozen, error))) {
        lab_arm_free(arm);
        return false;
    }
    return true;
}

bool lab_pair_open(lab_pair *pair, const lab_options *options, const char *kernel, bool keep, bench_error *error) {
    memset(pair, 0, sizeof *pair);
    const bool cuda = options->candidate && lab_is_cuda_file(options->candidate);
    if (!(cuda ? lab_cuda_kernel : lab_kernel)(kernel, &pair->number, error))
        return false;
    if (!options->candidate)
        return bench_fail(error, "no --candidate FILE given");
    if (options->bound && strcmp(kernel, "attend") != 0)
        return bench_fail(error, "--bound: %s is held to memcmp; only attend has a bound", kernel);
    if (!lab_baseline_open(&pair->baseline, options, pair->number, keep, error))
        return false;
    lab_arm *candidate = &pair->candidate;
    bench_error said = {""};
    bool made =
        lab_arm_from_file(candidate, pair->number, options->candidate, options->where, pair->baseline.where, &said);
    if (!made && strstr(said.text, "No such file or directory") && !strstr(said.text, "kernels include")) {
        lab_arm_free(&pair->baseline);
        *error = said;
        return false; // the candidate itself cannot be read
    }
    pair->refused = !made;
    candidate->fast = options->bound;
    if (made &&
        (!lab_where_runs(candidate->where, options->candidate, error) || !lab_arm_check_layout(candidate, error))) {
        lab_pair_close(pair);
        return false;
    }
    if (made && !lab_arm_build(candidate, false, &pair->refused, &said) && !pair->refused) {
        *error = said;
        lab_pair_close(pair);
        return false;
    }
    candidate->fast = options->bound;
    snprintf(pair->reason, sizeof pair->reason, "%s", pair->refused ? said.text : "");
    return true;
}

void lab_pair_close(lab_pair *pair) {
    lab_arm_free(&pair->baseline);
    lab_arm_free(&pair->candidate);
}
