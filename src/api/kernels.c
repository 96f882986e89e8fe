// SPDX-License-Identifier: Apache-2.0
//
// The kernel table as the caller sees it: listing, forcing rows of a stage, and the names of what is picked.

#include "api/device.h"

#include <stdio.h>
#include <string.h>

qsa_status qsa_kernel_at(int32_t i, qsa_kernel_info *info) {
    QSA_REQUIRE_STRUCT("qsa_kernel_at", info, "info");
    QSA_REQUIRE_ARG(i >= 0 && i < qsa_table_rows(), "qsa_kernel_at: i is %d, must be 0..%d", (int)i,
                    (int)qsa_table_rows() - 1);
    const qsa_kernel_row *row = qsa_table_row(i);
    const char *reason = qsa_table_unusable(row);
    *info = (qsa_kernel_info){.size = sizeof *info,
                              .stage = row->stage,
                              .kernel = row->kernel,
                              .where = row->where,
                              .name = row->name,
                              .rank = row->rank,
                              .kernel_class = row->kernel_class,
                              .usable = !*reason,
                              .reason = reason};
    return QSA_OK;
}

static int matches(const qsa_kernel_row *row, const char *stage, const char *name) {
    return strcmp(row->stage, stage) == 0 && (strcmp(row->where, name) == 0 || strcmp(row->name, name) == 0);
}

// "prep: ref, fma, angles_ref, ..." of one stage, or the stages if there is no such stage.
static qsa_status unknown_name(const char *stage, const char *name) {
    char list[400] = "";
    size_t at = 0;
    int known = 0;
    for (int32_t i = 0; i < qsa_table_rows() && at < sizeof list; i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (strcmp(row->stage, stage) != 0)
            continue;
        known = 1;
        int seen = 0;
        for (int32_t j = 0; j < i; j++)
            seen |= matches(qsa_table_row(j), stage, row->where);
        if (!seen)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", row->where);
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, ", %s", row->name);
    }
    if (!known)
        return qsa_fail(
            QSA_ERR_ARGUMENT,
            "qsa_context_set_kernel: no stage is called '%.64s'; there are: prep, score, topk, attend, merge", stage);
    return qsa_fail(QSA_ERR_ARGUMENT, "qsa_context_set_kernel: stage %s has no kernel '%.64s'; it has: %s", stage, name,
                    list);
}

// On a device the strict rows can be forced: `cuda` of the stages score and attend, which class fast leaves otherwise; the
// other stages have no others.
static qsa_status force_strict(qsa_context *context, const char *stage, const char *name) {
    const int known = strcmp(stage, "prep") == 0 || strcmp(stage, "score") == 0 || strcmp(stage, "topk") == 0 ||
                      strcmp(stage, "attend") == 0 || strcmp(stage, "merge") == 0;
    QSA_REQUIRE_ARG(known && strcmp(name, "cuda") == 0,
                    "qsa_context_set_kernel: backend cuda has the row cuda of the stages prep, score, topk, attend and "
                    "merge, and not %.64s of %.64s",
                    name, stage);
    context->device->strict_score |= strcmp(stage, "score") == 0 || strcmp(stage, "topk") == 0;
    context->device->strict_attend |= strcmp(stage, "attend") == 0 || strcmp(stage, "merge") == 0;
    return QSA_OK;
}

qsa_status qsa_context_set_kernel(qsa_context *context, const char *stage, const char *name) {
    QSA_REQUIRE_ARG(context, "qsa_context_set_kernel: context is null");
    QSA_REQUIRE_ARG(stage, "qsa_context_set_kernel: stage is null");
    QSA_REQUIRE_ARG(name, "qsa_context_set_kernel: name is null");
    if (context->device)
        return force_strict(context, stage, name);
    int found = 0;
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (!matches(row, stage, name))
            continue;
        const char *reason = qsa_table_unusable(row);
        QSA_REQUIRE(!*reason, QSA_ERR_UNSUPPORTED, "qsa_context_set_kernel: this machine cannot run %s: %s", row->name,
                    reason);
        QSA_REQUIRE(row->kernel_class == QSA_CLASS_STRICT || context->kernel_class == QSA_CLASS_FAST,
                    QSA_ERR_UNSUPPORTED, "qsa_context_set_kernel: %s is of class fast, the context of class strict",
                    row->name);
        const char *refused = qsa_table_ready(row);
        QSA_REQUIRE(!*refused, QSA_ERR_UNSUPPORTED, "qsa_context_set_kernel: this machine cannot run %s: %s", row->name,
                    refused);
        found = 1;
    }
    if (!found)
        return unknown_name(stage, name);
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        if (matches(row, stage, name)) {
            context->picked[row->number] = row;
            qsa_table_pick(&context->kernels, row);
        }
    }
    return QSA_OK;
}

const char *qsa_context_kernel(const qsa_context *context, const char *kernel) {
    if (!context || !kernel)
        return NULL;
    static const char *const on_device[][2] = {
        {"norm_rope", "prep_cuda"},  {"angles", "prep_cuda"}, {"store", "prep_cuda"}, {"pool", "prep_cuda"},
        {"prep_token", "prep_cuda"}, {"score", "score_cuda"}, {"topk", "topk_cuda"},  {"attend", "attend_cuda"},
        {"merge", "merge_cuda"},     {"gate", "gate_cuda"}};
    for (size_t i = 0; context->device && i < sizeof on_device / sizeof on_device[0]; i++)
        if (strcmp(on_device[i][0], kernel) == 0)
            return on_device[i][1];
    if (context->device)
        return NULL;
    for (int k = 0; k < QSA_K_COUNT; k++)
        if (strcmp(context->picked[k]->kernel, kernel) == 0)
            return context->picked[k]->name;
    return NULL;
}
