// SPDX-License-Identifier: Apache-2.0
//
// Selections in and out: checks, and the stage top-k as a call of its own.

#include "api/device.h"

qsa_status qsa_check_rule(const char *call, qsa_rule rule) {
    QSA_REQUIRE_ARG(rule == QSA_RULE_OFFICIAL || rule == QSA_RULE_CUT,
                    "%s: rule is %d, must be 0 (official) or 1 (cut)", call, (int)rule);
    return QSA_OK;
}

qsa_status qsa_check_selection(const char *call, const qsa_geometry *g, qsa_rule rule, const qsa_selection *selection,
                               int written) {
    QSA_REQUIRE_ARG(selection, "%s: selection is null", call);
    QSA_REQUIRE_ARG(selection->size == sizeof *selection, "%s: selection->size is %zu, this library's is %zu", call,
                    selection->size, sizeof *selection);
    QSA_REQUIRE_ARG(selection->ids, "%s: selection->ids is null", call);
    QSA_REQUIRE_ARG(selection->count, "%s: selection->count is null", call);
    const int32_t needed = g->budget / g->ratio + (rule == QSA_RULE_CUT ? 1 : 0);
    QSA_REQUIRE_ARG(selection->stride >= (written ? needed : 1), "%s: selection->stride is %lld, must be at least %d",
                    call, (long long)selection->stride, (int)(written ? needed : 1));
    QSA_REQUIRE_ARG(!selection->cut_index == !selection->cut_cells, "%s: selection->%s is null and the other is not",
                    call, selection->cut_index ? "cut_cells" : "cut_index");
    QSA_REQUIRE_ARG(!written || rule == QSA_RULE_OFFICIAL || selection->cut_index,
                    "%s: selection->cut_index is null, the rule cut needs it", call);
    return QSA_OK;
}

qsa_status qsa_check_selected(const char *call, const qsa_geometry *g, const qsa_selection *selection, int32_t i,
                              int32_t n) {
    const int32_t count = selection->count[i], blocks = n / g->ratio;
    const int32_t cut = selection->cut_index ? selection->cut_index[i] : -1;
    QSA_REQUIRE_ARG(count >= 0 && count <= selection->stride, "%s: selection->count[%d] is %d, stride is %lld", call,
                    (int)i, (int)count, (long long)selection->stride);
    QSA_REQUIRE_ARG(cut >= -1 && cut < count, "%s: selection->cut_index[%d] is %d, must be -1..%d", call, (int)i,
                    (int)cut, (int)count - 1);
    const int32_t cut_cells = cut >= 0 ? selection->cut_cells[i] : g->ratio;
    QSA_REQUIRE_ARG(cut_cells >= 1 && cut_cells <= g->ratio, "%s: selection->cut_cells[%d] is %d, must be 1..%d", call,
                    (int)i, (int)cut_cells, (int)g->ratio);
    const int64_t cells = (int64_t)count * g->ratio - (cut >= 0 ? g->ratio - cut_cells : 0) + n % g->ratio;
    QSA_REQUIRE_ARG(cells <= qsa_width(g), "%s: selection of row %d has %lld cells, above budget + ratio - 1 = %lld",
                    call, (int)i, (long long)cells, (long long)qsa_width(g));
    const int32_t *ids = selection->ids + i * selection->stride;
    for (int32_t k = 0; k < count; k++)
        QSA_REQUIRE_ARG(ids[k] >= (k ? ids[k - 1] + 1 : 0) && ids[k] < blocks,
                        "%s: selection->ids of row %d: id %d is %d, must ascend and be below %d", call, (int)i, (int)k,
                        (int)ids[k], (int)blocks);
    return QSA_OK;
}

void qsa_use_selection(const qsa_selection *selection, int32_t i, qsa_wave_row *row) {
    row->ids = selection->ids + i * selection->stride;
    row->count = selection->count[i];
    row->given = 1;
    row->cut_index = selection->cut_index ? selection->cut_index[i] : -1;
    row->cut_cells = row->cut_index >= 0 ? selection->cut_cells[i] : 0;
}

typedef struct topk_job {
    qsa_context *context;
    const qsa_geometry *geometry;
    qsa_rule rule;
    const int32_t *cells;
    const float *scores;
    int64_t stride;
    qsa_selection *selection;
} topk_job;

static void topk_row(void *arg, int32_t i) {
    const topk_job *job = arg;
    qsa_selection *selection = job->selection;
    // select reads the scores and nothing else of a wave's row.
    qsa_wave_row row = {.n = job->cells[i],
                        .scores = job->scores ? (float *)job->scores + i * job->stride : NULL,
                        .ids = selection->ids + i * selection->stride};
    qsa_wave wave = {.context = job->context, .geometry = job->geometry, .rule = job->rule, .rows = &row, .count = 1};
    qsa_wave_select(&wave);
    selection->count[i] = row.count;
    if (selection->cut_index) {
        selection->cut_index[i] = row.cut_index;
        selection->cut_cells[i] = row.cut_cells;
    }
}

qsa_status qsa_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                    const int32_t *cells, const float *scores, int64_t stride, qsa_selection *selection) {
    QSA_REQUIRE_ARG(context, "qsa_topk: context is null");
    QSA_TRY(qsa_check_geometry("qsa_topk", geometry));
    QSA_TRY(qsa_check_rule("qsa_topk", rule));
    QSA_REQUIRE_ARG(rows >= 0, "qsa_topk: rows is %d, must not be negative", (int)rows);
    QSA_TRY(qsa_check_selection("qsa_topk", geometry, rule, selection, 1));
    QSA_REQUIRE_ARG(cells || rows == 0, "qsa_topk: cells is null");
    for (int32_t i = 0; i < rows; i++) {
        QSA_REQUIRE_ARG(cells[i] >= 0, "qsa_topk: cells[%d] is %d, must not be negative", (int)i, (int)cells[i]);
        if (qsa_below_budget(geometry, cells[i]))
            continue;
        QSA_REQUIRE_ARG(scores, "qsa_topk: scores is null, but row %d with %d cells is above the budget", (int)i,
                        (int)cells[i]);
        QSA_REQUIRE_ARG(stride >= cells[i] / geometry->ratio || rows == 1,
                        "qsa_topk: stride is %lld, row %d has %d blocks", (long long)stride, (int)i,
                        (int)(cells[i] / geometry->ratio));
    }
    if (context->device)
        return qsa_device_topk(context, geometry, rule, rows, cells, scores, stride, selection);
    topk_job job = {context, geometry, rule, cells, scores, stride, selection};
    qsa_context_run(context, rows, topk_row, &job);
    return QSA_OK;
}
