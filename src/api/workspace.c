// SPDX-License-Identifier: Apache-2.0
//
// Sizes of workspaces. forward's is the plan (12 bytes a row) and one wave; nothing else grows with the batch.

#include "api/device.h"

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

void qsa_wave_layout_of(const qsa_context *context, const qsa_cache *cache, int32_t rows, qsa_wave_layout *l) {
    const qsa_geometry *g = &cache->config.geometry;
    const int64_t width = qsa_width(g), most = width < cache->config.max_cells ? width : cache->config.max_cells;
    const int32_t in_flight = qsa_wave_rows(context), screen = cache->config.screen;
    const size_t scores = aligned(((size_t)cache->config.max_cells / (size_t)g->ratio) * 4);
    const size_t screen_heads = (size_t)qsa_screen_heads(g->index_heads);
    const size_t screen_stride = (size_t)qsa_screen_stride(g->index_dim);
    *l = (qsa_wave_layout){.rows = rows < in_flight ? rows : in_flight,
                           .row = aligned(sizeof(qsa_wave_row)),
                           .q = aligned((size_t)g->heads * (size_t)g->head_dim * 4),
                           .index_q = aligned((size_t)g->index_heads * (size_t)g->index_dim * 4),
                           .scores = scores,
                           .lower = screen ? scores : 0,
                           .screen_codes = screen ? aligned(screen_heads * screen_stride * sizeof(int16_t)) : 0,
                           .screen_scales = screen ? aligned(screen_heads * sizeof(float)) : 0,
                           .ids = aligned(((size_t)g->budget / (size_t)g->ratio + 1) * 4),
                           .list = aligned((size_t)most * 4)};
    l->records =
        aligned((size_t)((most + QSA_CHUNK - 1) / QSA_CHUNK) * (size_t)g->heads * (size_t)(2 + g->head_dim) * 4);
    l->per_row = l->row + l->q + l->index_q + l->scores + l->lower + l->screen_codes + l->screen_scales + l->ids +
                 l->list + l->records;
}

void qsa_wave_place(const qsa_wave *wave, const qsa_wave_layout *l, unsigned char *memory, int32_t w) {
    unsigned char *at = memory + (size_t)l->rows * l->row + (size_t)w * (l->per_row - l->row);
    qsa_wave_row *row = &wave->rows[w];
    row->q = (float *)at;
    row->index_q = (float *)(at += l->q);
    row->scores = (float *)(at += l->index_q);
    at += l->scores;
    row->lower = l->lower ? (float *)at : NULL;
    row->screen_codes = (int16_t *)(at += l->lower);
    row->screen_scales = (float *)(at += l->screen_codes);
    row->ids = (int32_t *)(at += l->screen_scales);
    row->list = (int32_t *)(at += l->ids);
    row->records = (float *)(at + l->list);
}

static size_t stage_bytes(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows) {
    if (context->device)
        return qsa_device_workspace(context, cache, stage, rows);
    qsa_wave_layout l;
    qsa_wave_layout_of(context, cache, rows, &l);
    const size_t wave = (size_t)l.rows;
    switch (stage) {
    case QSA_STAGE_FORWARD:
        return 64 + aligned(qsa_plan_bytes(rows)) + wave * l.per_row;
    case QSA_STAGE_PREP:
        return 64 + aligned(qsa_plan_bytes(rows)) + wave * l.row;
    case QSA_STAGE_SCORE:
        return 64 + wave * l.row;
    case QSA_STAGE_ATTEND:
        return 64 + wave * (l.row + l.list);
    case QSA_STAGE_TOPK:
    case QSA_STAGE_MERGE:
        break;
    }
    return 0;
}

qsa_status qsa_workspace_size(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows,
                              size_t *bytes) {
    QSA_REQUIRE_ARG(context, "qsa_workspace_size: context is null");
    QSA_REQUIRE_ARG(cache, "qsa_workspace_size: cache is null");
    QSA_REQUIRE_ARG(bytes, "qsa_workspace_size: bytes is null");
    QSA_REQUIRE_ARG(stage >= QSA_STAGE_FORWARD && stage <= QSA_STAGE_MERGE,
                    "qsa_workspace_size: stage is %d, must be 0..5", (int)stage);
    QSA_TRY(qsa_check_devices("qsa_workspace_size", context, NULL, cache));
    QSA_REQUIRE_ARG(rows >= 0, "qsa_workspace_size: rows is %d, must not be negative", (int)rows);
    *bytes = stage_bytes(context, cache, stage, rows);
    return QSA_OK;
}

qsa_status qsa_check_workspace(const char *call, const qsa_context *context, const qsa_cache *cache, qsa_stage stage,
                               int32_t rows, qsa_scratch scratch) {
    const size_t needed = stage_bytes(context, cache, stage, rows);
    QSA_REQUIRE_ARG(scratch.bytes >= needed, "%s: workspace_bytes is %zu, %d rows need %zu", call, scratch.bytes,
                    (int)rows, needed);
    QSA_REQUIRE_ARG(scratch.workspace || !needed, "%s: workspace is null", call);
    return QSA_OK;
}
