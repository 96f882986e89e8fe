// SPDX-License-Identifier: Apache-2.0
//
// The model's scores and selections, as cells and as tokens.

#include "check_model_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t check_cells(const check_model *model, int64_t slot) {
    const pipeline *run = model->run;
    return model->variant.late_mask ? run->rows[slot % run->n_rows] + 1 : run->cells[slot];
}

int32_t check_model_blocks(const check_model *model, int64_t slot) {
    const pipeline *run = model->run;
    if (model->variant.score == CHECK_SCORE_UNMASKED) {
        return run->file->length[slot / run->n_rows] / run->geometry.ratio;
    }
    return check_cells(model, slot) / run->geometry.ratio;
}

void check_scores(check_model *model, int64_t slot, double *out) {
    const qsa_geometry *g = &model->run->geometry;
    const check_score form = model->variant.score;
    const int32_t blocks = check_model_blocks(model, slot);
    const double root = form == CHECK_SCORE_UNSCALED ? 1 : (double)sqrtf((float)g->index_dim);
    check_block_keys(model, (int32_t)(slot / model->run->n_rows));
    for (int32_t b = 0; b < blocks; b++) {
        const double *key = model->keys + (int64_t)b * g->index_dim;
        double sum = 0;
        for (int32_t h = 0; h < g->index_heads; h++) {
            const double *q = model->q + (int64_t)h * g->index_dim;
            double dot = 0;
            for (int32_t i = 0; i < g->index_dim; i++) {
                dot += q[i] * key[i];
            }
            sum += dot < 0 && form != CHECK_SCORE_NO_RELU && form != CHECK_SCORE_LATE_RELU ? 0 : dot;
        }
        sum = sum < 0 && form == CHECK_SCORE_LATE_RELU ? 0 : sum;
        out[b] = (double)(float)((double)(float)sum / root / (form == CHECK_SCORE_MEAN ? g->index_heads : 1));
    }
}

// Higher score first, NaN last, then the lower block.
static int by_rank(const void *left, const void *right) {
    const check_ranked *a = left;
    const check_ranked *b = right;
    if (a->score != b->score && !(isnan(a->score) && isnan(b->score))) {
        return isnan(a->score) || a->score < b->score ? 1 : -1;
    }
    return a->block < b->block ? -1 : a->block > b->block;
}

// Marks `cells` cells from the first, as long as any are *left. A masked token is never attended.
static void take(const check_model *model, int32_t sequence, int32_t first, int32_t cells, int32_t *left,
                 uint8_t *tokens) {
    for (int32_t c = first; c<first + cells && * left> 0; c++, (*left)--) {
        const int64_t token = check_cell_token(model, sequence, c);
        tokens[token % model->file->tokens] = model->file->visible[token];
    }
}

void check_model_select(const check_model *model, int64_t slot, const double *scores, uint8_t *tokens, double *least) {
    const qsa_geometry *g = &model->file->geometry;
    const check_select form = model->variant.select;
    const int32_t n = check_cells(model, slot);
    const int32_t sequence = (int32_t)(slot / model->run->n_rows);
    const int32_t blocks = n / g->ratio;
    const int32_t tail = n % g->ratio;
    int32_t most = g->budget / g->ratio; // whole blocks
    int32_t left = INT32_MAX;            // cells
    *least = NAN;
    memset(tokens, 0, (size_t)model->file->tokens);
    if (form == CHECK_SELECT_ALL || n <= (form == CHECK_SELECT_BUDGET ? g->budget : g->budget + g->ratio - 1)) {
        take(model, sequence, 0, n - (form == CHECK_SELECT_NO_TAIL ? tail : form == CHECK_SELECT_NOT_SELF), &left,
             tokens);
        return;
    }
    if (form == CHECK_SELECT_CUT || form == CHECK_SELECT_BUDGET) {
        left = form == CHECK_SELECT_CUT ? g->budget + g->ratio - 1 : g->budget;
        most = blocks;
    } else if (form == CHECK_SELECT_TAIL_LESS) {
        most -= tail > 0;
    }
    if (form != CHECK_SELECT_NO_TAIL) {
        take(model, sequence, blocks * g->ratio, tail, &left, tokens);
    }
    check_ranked *order = model->order;
    for (int32_t b = 0; b < blocks; b++) {
        order[b] = (check_ranked){form == CHECK_SELECT_LAST ? b : scores[b], b};
    }
    qsort(order, (size_t)blocks, sizeof *order, by_rank);
    for (int32_t i = 0; i < most && i < blocks && left > 0; i++) {
        *least = scores[order[i].block];
        take(model, sequence, order[i].block * g->ratio, g->ratio, &left, tokens);
    }
    if (form == CHECK_SELECT_NOT_SELF) {
        tokens[check_cell_token(model, sequence, n - 1) % model->file->tokens] = 0;
    }
}
