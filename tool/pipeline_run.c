// SPDX-License-Identifier: Apache-2.0
//
// Chunk by chunk: gathers projected rows of up to `chunk` tokens into one ragged batch, calls prep, then score, topk,
// attend, merge and gate for the rows that attend, a step of rows at a time, and commits.

#include "pipeline_scratch.h"

#include "host/host_call.h"

#include <string.h>

static int32_t min_rows(int64_t a, int64_t b) {
    return (int32_t)(a < b ? a : b);
}

static size_t head_floats(const pipeline *run) {
    return result_width(run->file, RESULT_Q);
}

static bool attends(const pipeline *run) {
    return run->options.keep & (PIPELINE_KEEP_ATTN | PIPELINE_KEEP_GATED | PIPELINE_KEEP_OUT);
}

// Row i of an array of rows of `width` floats.
static float *row_at(float *rows, int64_t i, size_t width) {
    return rows + (size_t)i * width;
}

static void keep_row(float *results, int64_t to, const float *rows, int64_t from, size_t width) {
    if (results) {
        memcpy(results + (size_t)to * width, rows + (size_t)from * width, width * sizeof *rows);
    }
}

static void gather(pipeline *run, pipeline_scratch *s, const int32_t *tokens, int32_t n) {
    const layer_file *file = run->file;
    const size_t heads = head_floats(run);
    const size_t kv = result_width(file, RESULT_K);
    const size_t index = result_width(file, RESULT_INDEX_Q) + (size_t)run->geometry.index_dim;
    for (int32_t i = 0; i < n; i++) {
        const int32_t token = tokens[i];
        s->sequences[i] = run->sequences[token / file->tokens];
        s->attend[i] = s->row_of[token % file->tokens] >= 0;
        memcpy(s->positions + 3 * (size_t)i, file->positions + 3 * (size_t)token, 3 * sizeof(int32_t));
        const projected row = projection_token(run->projection, token, s->block_has_q[token / PROJECTION_BLOCK]);
        memcpy(row_at(s->raw_k, i, kv), row.k, kv * sizeof(float));
        memcpy(row_at(s->raw_v, i, kv), row.v, kv * sizeof(float));
        memcpy(row_at(s->raw_index, i, index), row.index, index * sizeof(float));
        if (s->attend[i]) {
            memcpy(row_at(s->raw_q, i, 2 * heads), row.q, 2 * heads * sizeof(float));
        }
    }
}

static qsa_rows rows_of(const float *data, size_t row, size_t head) {
    return (qsa_rows){data, QSA_F32, (int64_t)(row * sizeof(float)), (int64_t)(head * sizeof(float))};
}

static bool run_prep(pipeline *run, pipeline_scratch *s, const int32_t *tokens, int32_t n, tool_error *error) {
    const size_t d = (size_t)run->geometry.head_dim;
    const size_t id = (size_t)run->geometry.index_dim;
    const size_t kv = result_width(run->file, RESULT_K);
    const size_t index_q = result_width(run->file, RESULT_INDEX_Q);
    const bool keep_kv = run->options.keep & PIPELINE_KEEP_KV;
    const qsa_batch batch = {
        .size = sizeof batch,
        .rows = n,
        .sequences = s->sequences,
        .positions = s->positions,
        .positions_per_row = 3,
        .q = rows_of(s->raw_q, 2 * head_floats(run), 2 * d),
        .k = rows_of(s->raw_k, kv, d),
        .v = rows_of(s->raw_v, kv, d),
        .index_q = rows_of(s->raw_index, index_q + id, id),
        .index_k = rows_of(s->raw_index + index_q, index_q + id, id),
        .attend = s->attend,
    };
    const qsa_prep_out out = {
        .size = sizeof out,
        .q = s->q,
        .index_q = s->index_q,
        .k = keep_kv ? s->k : NULL,
        .v = keep_kv ? s->v : NULL,
        .cells = s->cells,
    };
    const double start = tool_now_ms();
    const qsa_status status =
        host_is_device(run->context)
            ? host_prep(run->context, &run->geometry, run->layer, run->cache, 0, &batch, &out)
            : qsa_prep(run->context, run->layer, run->cache, 0, &batch, &out, s->workspace, run->workspace_bytes);
    if (status != QSA_OK) {
        return tool_fail_qsa(error, "prep");
    }
    run->ms[PIPELINE_PREP] += tool_now_ms() - start;
    for (int32_t i = 0; i < n; i++) {
        keep_row(run->k, tokens[i], s->k, i, kv);
        keep_row(run->v, tokens[i], s->v, i, kv);
    }
    return true;
}

// The same on a GPU, its copies included in the times; the fast kernels where there are such.
static bool attend_on_device(pipeline *run, pipeline_scratch *s, const qsa_row_set *set, const qsa_rows *gate,
                             const qsa_rows *attn, const qsa_rows_out *to_attn, const qsa_rows_out *to_gated,
                             tool_error *error) {
    const qsa_geometry *g = &run->geometry;
    const double start = tool_now_ms();
    double attended;
    qsa_status status;
    if (host_has_fast(run->context, run->cache)) {
        status = host_attention(run->context, g, run->cache, 0, set, s->step_q, &s->selection, NULL, to_attn);
        attended = tool_now_ms();
    } else {
        status = host_attend(run->context, g, run->cache, 0, set, s->step_q, &s->selection, s->records,
                             s->record_stride, s->chunks);
        attended = tool_now_ms();
        if (status == QSA_OK) {
            status =
                host_merge(run->context, g, set->rows, s->records, s->record_stride, s->chunks, NULL, to_attn, NULL);
        }
    }
    if (status == QSA_OK) {
        status = host_gate(run->context, g, set->rows, attn, gate, to_gated);
    }
    run->ms[PIPELINE_ATTEND] += attended - start;
    run->ms[PIPELINE_MERGE] += tool_now_ms() - attended;
    return status == QSA_OK || tool_fail_qsa(error, "attend");
}

// Attention of `rows` rows that stand in the step's buffers, over s->selection.
static bool run_attend(pipeline *run, pipeline_scratch *s, int32_t rows, tool_error *error) {
    const qsa_geometry *g = &run->geometry;
    const size_t heads = head_floats(run);
    const size_t d = (size_t)g->head_dim;
    const qsa_row_set set = {sizeof set, rows, s->step_sequences, s->step_cells};
    const qsa_rows gate = rows_of(s->gate, heads, d);
    const qsa_rows attn = rows_of(s->attn, heads, d);
    const qsa_rows_out to_attn = {s->attn, QSA_F32, attn.row_stride, attn.head_stride};
    const qsa_rows_out to_gated = {s->gated, QSA_F32, attn.row_stride, attn.head_stride};
    const double start = tool_now_ms();
    if (host_is_device(run->context)) {
        return attend_on_device(run, s, &set, &gate, &attn, &to_attn, &to_gated, error);
    }
    if (qsa_attend(run->context, run->cache, 0, &set, s->step_q, &s->selection, s->records, s->record_stride, s->chunks,
                   s->workspace, run->workspace_bytes) != QSA_OK) {
        return tool_fail_qsa(error, "attend");
    }
    const double attended = tool_now_ms();
    if (qsa_merge(run->context, g, rows, s->records, s->record_stride, s->chunks, NULL, &to_attn, NULL) != QSA_OK ||
        qsa_gate(run->context, g, rows, &attn, &gate, &to_gated) != QSA_OK) {
        return tool_fail_qsa(error, "merge");
    }
    run->ms[PIPELINE_ATTEND] += attended - start;
    run->ms[PIPELINE_MERGE] += tool_now_ms() - attended;
    return true;
}

static bool run_select(pipeline *run, pipeline_scratch *s, int32_t rows, tool_error *error) {
    const qsa_row_set set = {sizeof set, rows, s->step_sequences, s->step_cells};
    const double start = tool_now_ms();
    if (host_is_device(run->context)) {
        // The scores are wanted for the comparison, so the stages run by the strict kernels.
        const qsa_geometry *g = &run->geometry;
        if (host_score(run->context, g, run->cache, 0, &set, s->step_index_q, s->scores, s->score_stride) != QSA_OK ||
            host_topk(run->context, g, run->options.rule, rows, s->step_cells, s->scores, s->score_stride,
                      &s->selection) != QSA_OK) {
            return tool_fail_qsa(error, "score");
        }
        run->ms[PIPELINE_SCORE] += tool_now_ms() - start;
        return true;
    }
    if (qsa_score(run->context, run->cache, 0, &set, s->step_index_q, s->scores, s->score_stride, s->workspace,
                  run->workspace_bytes) != QSA_OK) {
        return tool_fail_qsa(error, "score");
    }
    const double scored = tool_now_ms();
    if (qsa_topk(run->context, &run->geometry, run->options.rule, rows, s->step_cells, s->scores, s->score_stride,
                 &s->selection) != QSA_OK) {
        return tool_fail_qsa(error, "topk");
    }
    run->ms[PIPELINE_SCORE] += scored - start;
    run->ms[PIPELINE_TOPK] += tool_now_ms() - scored;
    return true;
}

static void keep_selection(pipeline *run, const pipeline_scratch *s, int32_t i) {
    const qsa_selection *from = &s->selection;
    qsa_selection *to = &run->selection;
    const int64_t slot = s->slot[i];
    to->count[slot] = from->count[i];
    to->cut_index[slot] = from->cut_index[i];
    to->cut_cells[slot] = from->cut_cells[i];
    memcpy(to->ids + slot * to->stride, from->ids + i * from->stride, (size_t)from->count[i] * sizeof *to->ids);
    if (run->scores) {
        memcpy(run->scores + slot * run->blocks, s->scores + i * s->score_stride,
               (size_t)(s->step_cells[i] / run->geometry.ratio) * sizeof *run->scores);
    }
}

// Rows first..first+rows-1 of the batch's attending ones.
static bool run_step(pipeline *run, pipeline_scratch *s, const int32_t *tokens, int32_t first, int32_t rows,
                     tool_error *error) {
    const layer_file *file = run->file;
    const size_t heads = head_floats(run);
    const size_t d = (size_t)run->geometry.head_dim;
    const size_t index_q = result_width(file, RESULT_INDEX_Q);
    for (int32_t i = 0; i < rows; i++) {
        const int32_t row = s->attending[first + i];
        const int32_t token = tokens[row];
        s->slot[i] = (int64_t)(token / file->tokens) * run->n_rows + s->row_of[token % file->tokens];
        s->step_sequences[i] = s->sequences[row];
        s->step_cells[i] = s->cells[row];
        keep_row(s->step_q, i, s->q, row, heads);
        keep_row(s->step_index_q, i, s->index_q, row, index_q);
        for (size_t h = 0; h < (size_t)run->geometry.heads; h++) {
            memcpy(row_at(s->gate, i, heads) + h * d, row_at(s->raw_q, row, 2 * heads) + (2 * h + 1) * d,
                   d * sizeof(float));
        }
    }
    if (!run_select(run, s, rows, error) || (attends(run) && !run_attend(run, s, rows, error))) {
        return false;
    }
    for (int32_t i = 0; i < rows; i++) {
        keep_selection(run, s, i);
        keep_row(run->q, s->slot[i], s->step_q, i, heads);
        keep_row(run->index_q, s->slot[i], s->step_index_q, i, index_q);
        keep_row(run->attn, s->slot[i], s->attn, i, heads);
        keep_row(run->gated, s->slot[i], s->gated, i, heads);
    }
    return true;
}

static bool run_chunk(pipeline *run, pipeline_scratch *s, const int32_t *tokens, int32_t n, tool_error *error) {
    gather(run, s, tokens, n);
    if (!run_prep(run, s, tokens, n, error)) {
        return false;
    }
    int32_t attending = 0;
    for (int32_t i = 0; i < n; i++) {
        if (s->attend[i]) {
            s->attending[attending++] = i;
        }
    }
    for (int32_t first = 0; first < attending; first += s->step) {
        if (!run_step(run, s, tokens, first, min_rows(s->step, attending - first), error)) {
            return false;
        }
    }
    return qsa_cache_commit(run->cache) == QSA_OK || tool_fail_qsa(error, "commit");
}

bool pipeline_run(pipeline *run, tool_error *error) {
    pipeline_scratch *s = run->scratch;
    for (int64_t done = 0; done < run->tokens;) {
        const int32_t n = min_rows(s->chunk, run->tokens - done);
        if (!run_chunk(run, s, s->order + done, n, error)) {
            return false;
        }
        done += n;
        if (run->options.progress) {
            run->options.progress(run->options.progress_user, done, run->tokens);
        }
    }
    if (run->out && !projection_out(run->projection, run->slots, run->attended, run->gated, run->out, error)) {
        return false;
    }
    run->ms[PIPELINE_PROJECT] = projection_ms(run->projection);
    run->total_ms = tool_now_ms() - run->started_ms;
    return true;
}

bool pipeline_attend(pipeline *run, int64_t slot, const int32_t *ids, int32_t count, float *attn, float *gated,
                     tool_error *error) {
    pipeline_scratch *s = run->scratch;
    const layer_file *file = run->file;
    const size_t heads = head_floats(run);
    const size_t d = (size_t)run->geometry.head_dim;
    const int64_t b = slot / run->n_rows;
    if (count > s->selection.stride) {
        return tool_fail(error, "a selection of %d blocks, expected at most %lld", count,
                         (long long)s->selection.stride);
    }
    s->step_sequences[0] = run->sequences[b];
    s->step_cells[0] = run->cells[slot];
    memcpy(s->selection.ids, ids, (size_t)count * sizeof *ids);
    s->selection.count[0] = count;
    s->selection.cut_index[0] = -1;
    s->selection.cut_cells[0] = 0;
    keep_row(s->step_q, 0, run->q, slot, heads);
    const projected row = projection_token(run->projection, b * file->tokens + run->rows[slot % run->n_rows], true);
    for (size_t h = 0; h < (size_t)run->geometry.heads; h++) {
        memcpy(s->gate + h * d, row.q + (2 * h + 1) * d, d * sizeof(float));
    }
    const double attend_ms = run->ms[PIPELINE_ATTEND];
    const double merge_ms = run->ms[PIPELINE_MERGE];
    if (!run_attend(run, s, 1, error)) {
        return false;
    }
    run->ms[PIPELINE_ATTEND] = attend_ms; // the times are those of pipeline_run
    run->ms[PIPELINE_MERGE] = merge_ms;
    memcpy(attn, s->attn, heads * sizeof *attn);
    if (gated) {
        memcpy(gated, s->gated, heads * sizeof *gated);
    }
    return true;
}
