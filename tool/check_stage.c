// SPDX-License-Identifier: Apache-2.0
//
// Tensor by tensor: compares all units with the library's; when some are out of the tolerance, asks the search
// (check_search.c) whether the faults found so far explain it, or which further one does.

#include "check_measure.h"
#include "check_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t check_unit_token(const pipeline *run, result_tensor which, int64_t unit) {
    const bool token = which == RESULT_K || which == RESULT_V;
    return token ? (int32_t)(unit % run->file->tokens) : run->rows[unit % run->n_rows];
}

int32_t check_unit_sequence(const pipeline *run, result_tensor which, int64_t unit) {
    const bool token = which == RESULT_K || which == RESULT_V;
    return (int32_t)(unit / (token ? run->file->tokens : run->n_rows));
}

// Room for what formats lose, by the largest measure of a tensor (docs/check.md).
double check_tolerance(result_tensor which, qsa_type precision, qsa_type kv, qsa_type block_keys) {
    const double narrow = precision == QSA_BF16 ? 3e-2 : precision == QSA_F16 ? 4e-3 : 0;
    const bool averaged = which == RESULT_ATTN || which == RESULT_OUT;
    double least = averaged ? 1e-4 : 2e-5;
    if (which == RESULT_SELECTED) {
        return 0;
    }
    if (averaged) {
        least = kv == QSA_I8 ? 4e-2 : kv == QSA_BF16 ? 1.5e-2 : kv == QSA_F16 ? 3e-3 : least;
    } else if (which == RESULT_SCORES) {
        least = block_keys == QSA_BF16 ? 1.6e-2 : block_keys == QSA_F16 ? 2e-3 : least;
    }
    return narrow > least ? narrow : least;
}

static const float *library(const pipeline *run, result_tensor which) {
    switch (which) {
    case RESULT_Q:
        return run->q;
    case RESULT_INDEX_Q:
        return run->index_q;
    case RESULT_K:
        return run->k;
    case RESULT_V:
        return run->v;
    case RESULT_ATTN:
        return run->attn;
    case RESULT_OUT:
        return run->out;
    default:
        return NULL;
    }
}

int64_t check_units(const check_search *s, result_tensor which) {
    const layer_file *file = s->run->file;
    return which == RESULT_K || which == RESULT_V ? (int64_t)file->batch * file->tokens : s->run->slots;
}

static bool visible(const check_search *s, result_tensor which, int64_t unit) {
    return which == RESULT_K || which == RESULT_V ? s->run->file->visible[unit] : s->run->attended[unit];
}

check_worst check_measure(const check_search *s, result_tensor which, int64_t unit, const double *ours,
                          int32_t blocks) {
    const layer_file *file = s->run->file;
    if (which == RESULT_SCORES) {
        const int32_t wide = s->dump->blocks;
        return check_measure_scores(s->dump->values[which] + unit * wide, wide, ours, blocks);
    }
    const size_t width = result_width(file, which);
    const int32_t heads = check_heads(file, which);
    return check_measure_vectors(which, heads, (int32_t)(width / (size_t)heads),
                                 s->dump->values[which] + (size_t)unit * width, ours);
}

// Lowest score among the library's blocks of a slot.
static double least_taken(const pipeline *run, int64_t slot) {
    const qsa_selection *selection = &run->selection;
    double least = INFINITY;
    for (int32_t i = 0; i < selection->count[slot]; i++) {
        const double score = (double)run->scores[slot * run->blocks + selection->ids[slot * selection->stride + i]];
        least = score < least ? score : least;
    }
    return least;
}

static bool sparse(const pipeline *run, int64_t slot) {
    return run->cells[slot] > run->geometry.budget + run->geometry.ratio - 1;
}

// The library's scores of a slot into s->ours. Returns how many.
static int32_t library_scores(check_search *s, int64_t slot) {
    const pipeline *run = s->run;
    const int32_t blocks = run->cells[slot] / run->geometry.ratio;
    for (int32_t b = 0; b < blocks; b++) {
        s->ours[b] = (double)run->scores[slot * run->blocks + b];
    }
    return blocks;
}

check_row check_row_of(const check_search *s, int64_t slot, const double *scores, int32_t blocks, double least) {
    return (check_row){
        .file = s->run->file,
        .sequence = (int32_t)(slot / s->run->n_rows),
        .n = s->run->cells[slot],
        .scores = scores,
        .least = least,
        .slack = 2 * s->result->stage[RESULT_SCORES].tolerance * check_score_scale(scores, blocks),
    };
}

// Attention of a row whose selection is as good as the library's, over the dump's.
static bool attend_as_dumped(check_search *s, int64_t slot, const uint8_t *tokens) {
    pipeline *run = s->run;
    const layer_file *file = run->file;
    const size_t heads = result_width(file, RESULT_ATTN);
    const int32_t *token = file->cell_token + slot / run->n_rows * file->tokens;
    int32_t count = 0;
    for (int32_t b = 0; b < run->cells[slot] / run->geometry.ratio; b++) {
        if (tokens[token[b * run->geometry.ratio]]) {
            s->ids[count++] = b;
        }
    }
    s->patched = true;
    return pipeline_attend(run, slot, s->ids, count, run->attn + (size_t)slot * heads,
                           run->gated + (size_t)slot * heads, s->error);
}

static bool compare_selected(check_search *s, int64_t slot, check_worst *worst) {
    const pipeline *run = s->run;
    const uint8_t *theirs = s->dump->selected + slot * run->file->tokens;
    const int32_t blocks = library_scores(s, slot);
    const check_row row = check_row_of(s, slot, s->ours, blocks, sparse(run, slot) ? least_taken(run, slot) : NAN);
    pipeline_selected(run, slot, s->tokens);
    *worst = check_measure_selected(&row, theirs, s->tokens);
    const bool other = memcmp(theirs, s->tokens, (size_t)run->file->tokens) != 0;
    return worst->error > 0 || !other || attend_as_dumped(s, slot, theirs);
}

// True if another selection of the row would be as good as the library's, and the dump does not say which it took.
static bool open_row(check_search *s, result_tensor which, int64_t slot) {
    const pipeline *run = s->run;
    if ((which != RESULT_ATTN && which != RESULT_OUT) || s->dump->selected || !sparse(run, slot)) {
        return false;
    }
    const int32_t blocks = library_scores(s, slot);
    const check_row row = check_row_of(s, slot, s->ours, blocks, least_taken(run, slot));
    int32_t close = 0;
    int32_t above = 0;
    for (int32_t b = 0; b < blocks; b++) {
        close += fabs(s->ours[b] - row.least) <= row.slack;
        above += s->ours[b] > row.least + row.slack;
    }
    return above + close > run->selection.count[slot];
}

// Compares a unit with the library's. False when memory is out.
static bool compare_unit(check_search *s, result_tensor which, int64_t unit, check_worst *worst) {
    const size_t width = result_width(s->run->file, which);
    const float *values = library(s->run, which);
    if (which == RESULT_SELECTED) {
        return compare_selected(s, unit, worst);
    }
    if (which == RESULT_SCORES) {
        const int32_t blocks = library_scores(s, unit);
        *worst = check_measure(s, which, unit, s->ours, blocks);
        return true;
    }
    for (size_t i = 0; i < width; i++) {
        s->ours[i] = (double)values[(size_t)unit * width + i];
    }
    *worst = check_measure(s, which, unit, s->ours, 0);
    return true;
}

static bool compare_units(check_search *s, result_tensor which) {
    check_stage *stage = &s->result->stage[which];
    const int64_t units = check_units(s, which);
    stage->worst.error = -1;
    for (int64_t unit = 0; unit < units; unit++) {
        check_worst worst = {0};
        s->errors[unit] = NAN;
        if (!visible(s, which, unit)) {
            continue;
        }
        if (!compare_unit(s, which, unit, &worst)) {
            return false;
        }
        const bool bad = !(worst.error <= stage->tolerance);
        if (bad && open_row(s, which, unit)) {
            s->errors[unit] = -worst.error;
            stage->open++;
            if (stage->open == 1 || worst.error > s->open.error) {
                s->open = worst;
                s->open.unit = unit;
            }
            continue;
        }
        s->errors[unit] = worst.error;
        stage->units++;
        stage->bad += bad;
        if (worst.error > stage->worst.error) {
            stage->worst = worst;
            stage->worst.unit = unit;
        }
    }
    if (s->patched && which == RESULT_SELECTED) {
        return projection_out(s->run->projection, s->run->slots, s->run->attended, s->run->gated, s->run->out,
                              s->error);
    }
    return true;
}

static bool present(const expected *dump, int which) {
    return which == RESULT_SELECTED ? dump->selected != NULL : dump->values[which] != NULL;
}

// All rows that differ have an open selection. They differ for a reason if one explains them, else nothing is known.
static bool explain_open(check_search *s, result_tensor which) {
    check_stage *stage = &s->result->stage[which];
    const check_stage before = *stage;
    stage->status = CHECK_DIFFERS;
    stage->worst = s->open;
    stage->bad = stage->open;
    stage->units += stage->open;
    stage->open = 0;
    if (!check_explain(s, which)) {
        return false;
    }
    if (stage->status != CHECK_FOLLOWS && !stage->explained) {
        *stage = before;
    }
    return true;
}

static bool compare_stage(check_search *s, result_tensor which) {
    check_stage *stage = &s->result->stage[which];
    if (!compare_units(s, which)) {
        return false;
    }
    stage->status = stage->bad ? CHECK_DIFFERS : stage->units || !stage->open ? CHECK_OK : CHECK_UNSURE;
    if (stage->bad ? !check_explain(s, which) : stage->open && !explain_open(s, which)) {
        return false;
    }
    if (s->result->first < 0 && stage->status == CHECK_DIFFERS) {
        s->result->first = (int)which;
    }
    return true;
}

static bool open_search(check_search *s) {
    const layer_file *file = s->run->file;
    const int64_t tokens = (int64_t)file->batch * file->tokens;
    size_t widest = (size_t)file->tokens;
    for (int i = 0; i < RESULT_TENSORS; i++) {
        const size_t width = result_width(file, (result_tensor)i);
        widest = width > widest ? width : widest;
    }
    s->errors = tool_array((size_t)(tokens > s->run->slots ? tokens : s->run->slots), sizeof(double), true, s->error);
    s->ours = tool_array(widest, sizeof(double), true, s->error);
    s->tokens = tool_array((size_t)file->tokens, 1, true, s->error);
    s->ids = tool_array((size_t)file->tokens, sizeof(int32_t), true, s->error);
    return s->errors && s->ours && s->tokens && s->ids;
}

bool check_compare(check_result *result, pipeline *run, const expected *dump, const st_file *dump_file,
                   double tolerance, tool_error *error) {
    *result = (check_result){.first = -1};
    check_search s = {.result = result, .run = run, .dump = dump, .error = error};
    s.base = check_variant_right(run->options.kv);
    for (int i = 0; i < RESULT_TENSORS; i++) {
        const result_tensor which = (result_tensor)i;
        check_stage *stage = &result->stage[i];
        stage->precision = present(dump, i) && which != RESULT_SELECTED
                               ? check_precision(st_find(dump_file, result_name(which)), dump->values[i])
                               : QSA_F32;
        stage->tolerance = check_tolerance(which, stage->precision, run->options.kv, run->options.block_keys);
        if (tolerance >= 0 && which != RESULT_SELECTED) {
            stage->tolerance = tolerance;
        }
    }
    bool done = open_search(&s);
    for (int i = 0; done && i < RESULT_TENSORS; i++) {
        done = !present(dump, i) || compare_stage(&s, (result_tensor)i);
    }
    check_model_destroy(s.model);
    free(s.errors);
    free(s.ours);
    free(s.tokens);
    free(s.ids);
    return done;
}
