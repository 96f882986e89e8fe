// SPDX-License-Identifier: Apache-2.0
//
// Sizes: a batch holds `chunk` rows, a step as many attending rows as keep their records within STEP_BYTES (a row of
// the real geometry takes 817 KB), and at least what keeps the threads busy.

#include "pipeline_scratch.h"

#include <stdlib.h>

#define STEP_BYTES    ((size_t)64 << 20)
#define STEP_MIN_ROWS 4

static int32_t min_rows(int64_t a, int64_t b) {
    return (int32_t)(a < b ? a : b);
}

static bool make_order(pipeline *run, pipeline_scratch *s, tool_error *error) {
    const layer_file *file = run->file;
    const int64_t all = (int64_t)file->batch * file->tokens;
    s->order = tool_array((size_t)run->tokens, sizeof *s->order, false, error);
    s->row_of = tool_array((size_t)file->tokens, sizeof *s->row_of, false, error);
    s->block_has_q = tool_array((size_t)(all / PROJECTION_BLOCK + 1), 1, true, error);
    if (!s->order || !s->row_of || !s->block_has_q) {
        return false;
    }
    size_t n = 0;
    for (int32_t group = 0; group < file->batch; group += PIPELINE_MIX) {
        for (int32_t t = 0; t < file->tokens; t++) {
            for (int32_t b = group; b < file->batch && b < group + PIPELINE_MIX; b++) {
                const int32_t token = b * file->tokens + t;
                if (file->visible[token]) {
                    s->order[n++] = token;
                }
            }
        }
    }
    for (int32_t t = 0; t < file->tokens; t++) {
        s->row_of[t] = -1;
    }
    for (int64_t slot = 0; slot < run->slots; slot++) {
        const int32_t t = run->rows[slot % run->n_rows];
        s->row_of[t] = (int32_t)(slot % run->n_rows);
        if (run->attended[slot]) {
            s->block_has_q[(slot / run->n_rows * file->tokens + t) / PROJECTION_BLOCK] = 1;
        }
    }
    return true;
}

static bool make_batch(const pipeline *run, pipeline_scratch *s, tool_error *error) {
    const layer_file *file = run->file;
    const size_t n = (size_t)s->chunk;
    const size_t heads = result_width(file, RESULT_Q);
    const size_t kv = result_width(file, RESULT_K);
    const size_t index_q = result_width(file, RESULT_INDEX_Q);
    return (s->sequences = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->positions = tool_array(3 * n, sizeof(int32_t), false, error)) &&
           (s->cells = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->attending = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->attend = tool_array(n, 1, false, error)) &&
           (s->raw_q = tool_array(n, 2 * heads * sizeof(float), false, error)) &&
           (s->raw_k = tool_array(n, kv * sizeof(float), false, error)) &&
           (s->raw_v = tool_array(n, kv * sizeof(float), false, error)) &&
           (s->raw_index = tool_array(n, (index_q + (size_t)run->geometry.index_dim) * sizeof(float), false, error)) &&
           (s->q = tool_array(n, heads * sizeof(float), false, error)) &&
           (s->index_q = tool_array(n, index_q * sizeof(float), false, error)) &&
           (s->k = tool_array(n, kv * sizeof(float), false, error)) &&
           (s->v = tool_array(n, kv * sizeof(float), false, error));
}

static bool make_step(pipeline *run, pipeline_scratch *s, tool_error *error) {
    const layer_file *file = run->file;
    const size_t heads = result_width(file, RESULT_Q);
    const size_t n = (size_t)s->step;
    qsa_selection *sel = &s->selection;
    *sel = (qsa_selection){.size = sizeof *sel, .stride = run->selection.stride};
    return (s->slot = tool_array(n, sizeof *s->slot, false, error)) &&
           (s->step_sequences = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->step_cells = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->chunks = tool_array(n, sizeof(int32_t), false, error)) &&
           (s->step_q = tool_array(n, heads * sizeof(float), false, error)) &&
           (s->step_index_q = tool_array(n, result_width(file, RESULT_INDEX_Q) * sizeof(float), false, error)) &&
           (s->gate = tool_array(n, heads * sizeof(float), false, error)) &&
           (s->scores = tool_array(n, (size_t)s->score_stride * sizeof(float), false, error)) &&
           (s->records = tool_array(n, (size_t)s->record_stride * sizeof(float), false, error)) &&
           (s->attn = tool_array(n, heads * sizeof(float), false, error)) &&
           (s->gated = tool_array(n, heads * sizeof(float), false, error)) &&
           (sel->ids = tool_array(n, (size_t)sel->stride * sizeof(int32_t), false, error)) &&
           (sel->count = tool_array(n, sizeof(int32_t), false, error)) &&
           (sel->cut_index = tool_array(n, sizeof(int32_t), false, error)) &&
           (sel->cut_cells = tool_array(n, sizeof(int32_t), false, error));
}

static bool make_workspace(pipeline *run, pipeline_scratch *s, tool_error *error) {
    static const qsa_stage stages[] = {QSA_STAGE_PREP, QSA_STAGE_SCORE, QSA_STAGE_ATTEND};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        size_t bytes = 0;
        const int32_t rows = stages[i] == QSA_STAGE_PREP ? s->chunk : s->step;
        if (qsa_workspace_size(run->context, run->cache, stages[i], rows, &bytes) != QSA_OK) {
            return tool_fail_qsa(error, "workspace");
        }
        run->workspace_bytes = bytes > run->workspace_bytes ? bytes : run->workspace_bytes;
    }
    s->workspace = tool_array(run->workspace_bytes, 1, false, error);
    return s->workspace != NULL;
}

bool pipeline_scratch_create(pipeline *run, tool_error *error) {
    pipeline_scratch *s = run->scratch = tool_array(1, sizeof *s, true, error);
    run->projection = s ? projection_create(run->file, PIPELINE_MIX, error) : NULL;
    if (!run->projection) {
        return false;
    }
    int32_t longest = 1;
    for (int32_t b = 0; b < run->file->batch; b++) {
        longest = run->file->length[b] > longest ? run->file->length[b] : longest;
    }
    const qsa_geometry *g = &run->geometry;
    s->score_stride = longest / g->ratio + 1;
    s->record_stride = (int64_t)qsa_max_chunks(g) * g->heads * (2 + g->head_dim);
    const size_t row_bytes = (size_t)s->record_stride * sizeof(float);
    s->chunk = min_rows(run->options.chunk, run->tokens > 0 ? run->tokens : 1);
    s->step = (int32_t)(row_bytes < STEP_BYTES / STEP_MIN_ROWS ? STEP_BYTES / row_bytes : STEP_MIN_ROWS);
    s->step = s->step < 2 * run->options.threads ? 2 * run->options.threads : s->step;
    s->step = min_rows(s->step, s->chunk);
    return make_order(run, s, error) && make_batch(run, s, error) && make_step(run, s, error) &&
           make_workspace(run, s, error);
}

void pipeline_scratch_destroy(pipeline *run) {
    pipeline_scratch *s = run->scratch;
    if (!s) {
        return;
    }
    void *const owned[] = {
        s->order,
        s->row_of,
        s->block_has_q,
        s->sequences,
        s->positions,
        s->cells,
        s->attending,
        s->attend,
        s->raw_q,
        s->raw_k,
        s->raw_v,
        s->raw_index,
        s->q,
        s->index_q,
        s->k,
        s->v,
        s->slot,
        s->step_sequences,
        s->step_cells,
        s->chunks,
        s->step_q,
        s->step_index_q,
        s->gate,
        s->scores,
        s->records,
        s->attn,
        s->gated,
        s->selection.ids,
        s->selection.count,
        s->selection.cut_index,
        s->selection.cut_cells,
        s->workspace,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        free(owned[i]);
    }
    free(s);
    run->scratch = NULL;
}
