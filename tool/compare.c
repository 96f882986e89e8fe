// SPDX-License-Identifier: Apache-2.0
//
// Numbers first (q, index_q, k, v, scores), since the score error decides which swapped blocks are near; then the
// selection; then attn and out, where rows of kind tie and near are computed again on the expected selection.

#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void compare_add(compare_sum *sum, const float *x, const float *e, size_t count) {
    sum->count += (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        const double wanted = e[i];
        if (isfinite(wanted)) {
            sum->expected += wanted * wanted;
        }
        if (x[i] == e[i] || (isnan(x[i]) && isnan(e[i]))) {
            continue;
        }
        double difference = fabs((double)x[i] - wanted);
        if (!isfinite(difference)) {
            difference = INFINITY;
        }
        sum->difference += difference * difference;
        sum->max_abs = difference > sum->max_abs ? difference : sum->max_abs;
    }
}

compare_error compare_finish(const compare_sum *sum) {
    compare_error error = {.compared = sum->count > 0, .max_abs = sum->max_abs};
    error.rel_l2 = sum->difference > 0 ? sqrt(sum->difference / sum->expected) : 0;
    return error;
}

double compare_tolerance(qsa_type kv) {
    switch (kv) {
    case QSA_F32:
        return 5e-6;
    case QSA_F16:
        return 1e-3;
    case QSA_BF16:
        return 5e-3;
    case QSA_I8:
        return 1.2e-2;
    }
    return 0;
}

bool compare_ok(const comparison *result, qsa_type block_keys, double tolerance) {
    bool ok = result->rows[COMPARE_WRONG] == 0 && (block_keys != QSA_F32 || result->rows[COMPARE_NEAR] == 0);
    const result_tensor judged[] = {RESULT_ATTN, RESULT_OUT};
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        const compare_error *error = &result->error[judged[i]];
        ok = ok && (!error->compared || error->rel_l2 <= tolerance);
    }
    return ok;
}

compare_kind compare_blocks(const int32_t *ours, int32_t n_ours, const int32_t *theirs, int32_t n_theirs,
                            const float *scores, int32_t n_scores, double score_error) {
    if (n_ours != n_theirs || !scores || !isfinite(score_error)) {
        return COMPARE_WRONG;
    }
    double least = INFINITY;
    double most = -INFINITY;
    for (int32_t i = 0; i < n_ours + n_theirs; i++) {
        const int32_t block = i < n_ours ? ours[i] : theirs[i - n_ours];
        const double score = block < n_scores ? scores[block] : NAN;
        if (!isfinite(score)) {
            return COMPARE_WRONG;
        }
        least = score < least ? score : least;
        most = score > most ? score : most;
    }
    if (most == least) {
        return COMPARE_TIE;
    }
    for (int32_t i = 0; i < n_ours; i++) {
        for (int32_t j = 0; j < n_theirs; j++) {
            if (!(fabs((double)scores[ours[i]] - (double)scores[theirs[j]]) < 2 * score_error)) {
                return COMPARE_WRONG;
            }
        }
    }
    return COMPARE_NEAR;
}

// What compare_run carries from step to step.
typedef struct judge {
    comparison *result;
    pipeline *run;
    const expected *tensors;
    int64_t slots;                             // of the expected rows
    int64_t *slot;                             // [slots] the pipeline's slot of each
    uint8_t *tokens;                           // [T]
    int32_t *only_ours, *only_theirs, *theirs; // [blocks]
    float *attn, *gated, *out; // copies with the rows on the expected selection; NULL: the pipeline's own are right
    tool_error *error;
} judge;

static bool map_rows(judge *j) {
    const pipeline *run = j->run;
    const expected *e = j->tensors;
    j->slots = (int64_t)run->file->batch * e->n_rows;
    j->slot = tool_array((size_t)j->slots, sizeof *j->slot, false, j->error);
    int32_t at = 0;
    for (int32_t r = 0; j->slot && r < e->n_rows; r++) {
        while (at < run->n_rows && run->rows[at] < e->rows[r]) {
            at++;
        }
        if (at == run->n_rows || run->rows[at] != e->rows[r]) {
            return tool_fail(j->error, "rows holds token %d, which is none of the rows that were computed", e->rows[r]);
        }
        for (int64_t b = 0; b < run->file->batch; b++) {
            j->slot[b * e->n_rows + r] = b * run->n_rows + at;
        }
    }
    return j->slot != NULL;
}

// A tensor of one row of `width` numbers per slot.
static void compare_slots(judge *j, result_tensor which, const float *ours) {
    const float *theirs = j->tensors->values[which];
    const size_t width = result_width(j->run->file, which);
    compare_sum sum = {0};
    for (int64_t i = 0; ours && theirs && i < j->slots; i++) {
        if (j->run->attended[j->slot[i]]) {
            compare_add(&sum, ours + (size_t)j->slot[i] * width, theirs + (size_t)i * width, width);
        }
    }
    j->result->error[which] = compare_finish(&sum);
}

static void compare_tokens(judge *j, result_tensor which, const float *ours) {
    const layer_file *file = j->run->file;
    const float *theirs = j->tensors->values[which];
    const size_t width = result_width(file, which);
    const size_t tokens = (size_t)file->batch * (size_t)file->tokens;
    compare_sum sum = {0};
    for (size_t i = 0; ours && theirs && i < tokens; i++) {
        if (file->visible[i]) {
            compare_add(&sum, ours + i * width, theirs + i * width, width);
        }
    }
    j->result->error[which] = compare_finish(&sum);
}

// Blocks that a row does not have are -inf on both sides, also those that only the wider array names.
static void compare_scores(judge *j) {
    const pipeline *run = j->run;
    const float *theirs = j->tensors->values[RESULT_SCORES];
    const int32_t wide = j->tensors->blocks;
    const float none = -INFINITY;
    compare_sum sum = {0};
    for (int64_t i = 0; run->scores && theirs && i < j->slots; i++) {
        const float *row = run->scores + j->slot[i] * run->blocks;
        const float *wanted = theirs + i * wide;
        const int32_t common = wide < run->blocks ? wide : run->blocks;
        if (!run->attended[j->slot[i]]) {
            continue;
        }
        compare_add(&sum, row, wanted, (size_t)common);
        for (int32_t b = common; b < wide; b++) {
            compare_add(&sum, &none, wanted + b, 1);
        }
    }
    j->result->error[RESULT_SCORES] = compare_finish(&sum);
}

// Kind of row i. *n_theirs: the expected blocks in j->theirs, meaningful for tie and near.
static compare_kind judge_row(judge *j, int64_t i, int32_t *n_theirs) {
    const pipeline *run = j->run;
    const layer_file *file = run->file;
    const int32_t ratio = run->geometry.ratio;
    const int64_t slot = j->slot[i];
    const int32_t n = run->cells[slot];
    const uint8_t *wanted = j->tensors->selected + i * file->tokens;
    const int32_t *token = file->cell_token + slot / run->n_rows * file->tokens;
    const float *scores = j->tensors->values[RESULT_SCORES];
    *n_theirs = 0;
    pipeline_selected(run, slot, j->tokens);
    if (memcmp(j->tokens, wanted, (size_t)file->tokens) == 0) {
        return COMPARE_EQUAL;
    }
    int32_t swapped_in = 0;
    int32_t swapped_out = 0;
    int32_t seen = 0;
    for (int32_t block = 0; block < n / ratio; block++) {
        int32_t cells = 0;
        for (int32_t c = block * ratio; c < (block + 1) * ratio; c++) {
            cells += wanted[token[c]];
        }
        if (cells != 0 && cells != ratio) {
            return COMPARE_WRONG;
        }
        const bool our = j->tokens[token[block * ratio]];
        seen += cells;
        if (cells) {
            j->theirs[(*n_theirs)++] = block;
        }
        if (our && !cells) {
            j->only_ours[swapped_in++] = block;
        } else if (!our && cells) {
            j->only_theirs[swapped_out++] = block;
        }
    }
    for (int32_t c = n / ratio * ratio; c < n; c++) {
        if (!wanted[token[c]]) {
            return COMPARE_WRONG;
        }
        seen++;
    }
    for (int32_t t = 0; t < file->tokens; t++) {
        seen -= wanted[t];
    }
    if (seen != 0) { // it also selects tokens that the row does not see
        return COMPARE_WRONG;
    }
    return compare_blocks(j->only_ours, swapped_in, j->only_theirs, swapped_out,
                          scores ? scores + i * j->tensors->blocks : NULL, j->tensors->blocks,
                          j->result->error[RESULT_SCORES].max_abs);
}

static float *copy_of(const float *values, size_t count, tool_error *error) {
    float *copy = tool_array(count, sizeof *copy, false, error);
    if (copy) {
        memcpy(copy, values, count * sizeof *copy);
    }
    return copy;
}

static bool attend_as_expected(judge *j, int64_t slot, int32_t n_theirs) {
    const pipeline *run = j->run;
    const size_t width = result_width(run->file, RESULT_ATTN);
    const size_t count = (size_t)run->slots * width;
    if (!run->q || !run->attn || !run->gated) {
        return true;
    }
    if (!j->attn && !(j->attn = copy_of(run->attn, count, j->error))) {
        return false;
    }
    if (!j->gated && !(j->gated = copy_of(run->gated, count, j->error))) {
        return false;
    }
    return pipeline_attend(j->run, slot, j->theirs, n_theirs, j->attn + (size_t)slot * width,
                           j->gated + (size_t)slot * width, j->error);
}

static bool judge_selection(judge *j) {
    comparison *result = j->result;
    const size_t blocks = (size_t)j->run->blocks;
    result->selection = true;
    result->kind = tool_array((size_t)j->slots, sizeof *result->kind, true, j->error);
    j->tokens = tool_array((size_t)j->run->file->tokens, 1, false, j->error);
    j->only_ours = tool_array(blocks, sizeof(int32_t), false, j->error);
    j->only_theirs = tool_array(blocks, sizeof(int32_t), false, j->error);
    j->theirs = tool_array(blocks, sizeof(int32_t), false, j->error);
    if (!result->kind || !j->tokens || !j->only_ours || !j->only_theirs || !j->theirs) {
        return false;
    }
    for (int64_t i = 0; i < j->slots; i++) {
        int32_t n_theirs = 0;
        if (!j->run->attended[j->slot[i]]) {
            continue;
        }
        const compare_kind kind = result->kind[i] = judge_row(j, i, &n_theirs);
        result->rows[kind]++;
        if ((kind == COMPARE_TIE || kind == COMPARE_NEAR) && !attend_as_expected(j, j->slot[i], n_theirs)) {
            return false;
        }
    }
    return true;
}

static bool judge_outputs(judge *j) {
    pipeline *run = j->run;
    compare_slots(j, RESULT_ATTN, j->attn ? j->attn : run->attn);
    if (run->out && j->gated) {
        j->out = tool_array((size_t)run->slots * (size_t)run->file->hidden, sizeof *j->out, false, j->error);
        if (!j->out || !projection_out(run->projection, run->slots, run->attended, j->gated, j->out, j->error)) {
            return false;
        }
    }
    compare_slots(j, RESULT_OUT, j->out ? j->out : run->out);
    return true;
}

bool compare_run(comparison *result, pipeline *run, const expected *tensors, tool_error *error) {
    *result = (comparison){0};
    judge j = {.result = result, .run = run, .tensors = tensors, .error = error};
    bool done = map_rows(&j);
    if (done) {
        compare_slots(&j, RESULT_Q, run->q);
        compare_slots(&j, RESULT_INDEX_Q, run->index_q);
        compare_tokens(&j, RESULT_K, run->k);
        compare_tokens(&j, RESULT_V, run->v);
        compare_scores(&j);
    }
    if (done && run->options.rule == QSA_RULE_OFFICIAL) {
        done = (!tensors->selected || judge_selection(&j)) && judge_outputs(&j);
    }
    result->any = result->selection;
    for (int i = 0; i < RESULT_TENSORS; i++) {
        result->any = result->any || result->error[i].compared;
    }
    free(j.slot);
    free(j.tokens);
    free(j.only_ours);
    free(j.only_theirs);
    free(j.theirs);
    free(j.attn);
    free(j.gated);
    free(j.out);
    if (!done) {
        comparison_free(result);
    }
    return done;
}

void comparison_free(comparison *result) {
    free(result->kind);
    *result = (comparison){0};
}
