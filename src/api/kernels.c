// SPDX-License-Identifier: Apache-2.0
//
// The kernel table as the caller sees it: listing, forcing rows of a stage, and the names of what is picked.

#include "api/internal.h"

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

qsa_status qsa_context_set_kernel(qsa_context *context, const char *stage, const char *name) {
    QSA_REQUIRE_ARG(context, "qsa_context_set_kernel: context is null");
    QSA_REQUIRE_ARG(stage, "qsa_context_set_kernel: stage is null");
    QSA_REQUIRE_ARG(name, "qsa_context_set_kernel: name is null");
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
    for (int k = 0; k < QSA_K_COUNT; k++)
        if (strcmp(context->picked[k]->kernel, kernel) == 0)
            return context->picked[k]->name;
    return NULL;
}
