// SPDX-License-Identifier: Apache-2.0
//
// The oracle's scores and selection, and the verdict on a selection that differs. Selection is a
// full sort of all blocks in the total order: slow and obvious.
#include "oracle.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void oracle_scores(const oracle_geometry *g, const double *index_q, const double *keys, int32_t blocks, double *score,
                   float *stored) {
    size_t dim = (size_t)g->index_dim;
    for (int32_t b = 0; b < blocks; b++) {
        const double *key = keys + (size_t)b * dim;
        double sum = 0;
        for (int h = 0; h < g->index_heads; h++) {
            double dot = 0;
            for (size_t i = 0; i < dim; i++) {
                dot += index_q[(size_t)h * dim + i] * key[i];
            }
            sum += dot > 0 || isnan(dot) ? dot : 0;
        }
        if (score) {
            score[b] = sum / sqrt(g->index_dim);
        }
        if (stored) {
            stored[b] = (float)sum / (float)sqrt(g->index_dim);
            if (isnan(stored[b])) {
                const uint32_t quiet = 0x7fc00000;
                memcpy(&stored[b], &quiet, sizeof quiet);
            }
        }
    }
}

bool oracle_before(float sa, int32_t a, float sb, int32_t b) {
    if (isnan(sa) || isnan(sb)) {
        return isnan(sa) && isnan(sb) ? a < b : !isnan(sa);
    }
    return sa == sb ? a < b : sa > sb;
}

typedef struct {
    float score;
    int32_t block;
} scored;

static int compare_scored(const void *x, const void *y) {
    const scored *a = x, *b = y;
    if (a->block == b->block) {
        return 0;
    }
    return oracle_before(a->score, a->block, b->score, b->block) ? -1 : 1;
}

static int compare_ids(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static int32_t budget_blocks(const oracle_geometry *g) {
    assert(g->budget % g->ratio == 0);
    return g->budget / g->ratio;
}

int32_t oracle_max_ids(const oracle_geometry *g, oracle_rule rule) {
    return budget_blocks(g) + (rule == ORACLE_CUT ? 1 : 0);
}

int32_t oracle_max_cells(const oracle_geometry *g) {
    return g->budget + g->ratio - 1;
}

int32_t oracle_width(const oracle_geometry *g, oracle_rule rule, int32_t n) {
    if (n <= oracle_max_cells(g)) {
        return n;
    }
    return rule == ORACLE_CUT ? oracle_max_cells(g) : g->budget + n % g->ratio;
}

oracle_selection oracle_select(const oracle_geometry *g, oracle_rule rule, int32_t n, const float *scores,
                               int32_t *ids) {
    int32_t all = n / g->ratio;
    oracle_selection s = {.n = n, .cut_index = -1, .tail = n % g->ratio};
    s.cells = oracle_width(g, rule, n);
    s.blocks = (s.cells - s.tail) / g->ratio;
    s.cut_cells = (s.cells - s.tail) % g->ratio;
    if (s.blocks == all) {
        for (int32_t b = 0; b < all; b++) {
            ids[b] = b;
        }
        return s;
    }
    scored *order = malloc((size_t)all * sizeof *order);
    if (!order) {
        abort();
    }
    for (int32_t b = 0; b < all; b++) {
        order[b] = (scored){scores[b], b};
    }
    qsort(order, (size_t)all, sizeof *order, compare_scored);
    int32_t cut_block = -1;
    if (s.cut_cells) {
        cut_block = order[s.blocks++].block;
    }
    for (int32_t i = 0; i < s.blocks; i++) {
        ids[i] = order[i].block;
    }
    free(order);
    qsort(ids, (size_t)s.blocks, sizeof *ids, compare_ids);
    for (int32_t i = 0; i < s.blocks; i++) {
        if (ids[i] == cut_block) {
            s.cut_index = i;
        }
    }
    return s;
}

int32_t oracle_cells(const oracle_geometry *g, const oracle_selection *selection, const int32_t *ids, int32_t *cells) {
    int32_t count = 0;
    for (int32_t i = 0; i < selection->blocks; i++) {
        int32_t kept = i == selection->cut_index ? selection->cut_cells : g->ratio;
        for (int32_t c = 0; c < kept; c++) {
            cells[count++] = ids[i] * g->ratio + c;
        }
    }
    for (int32_t c = selection->n - selection->tail; c < selection->n; c++) {
        cells[count++] = c;
    }
    assert(count == selection->cells);
    return count;
}

int32_t oracle_blocks_of(const oracle_geometry *g, int32_t n, const uint8_t *selected, int32_t *ids) {
    int32_t count = 0, whole = n / g->ratio;
    for (int32_t b = 0; b < whole; b++) {
        int taken = 0;
        for (int32_t c = 0; c < g->ratio; c++) {
            taken += selected[b * g->ratio + c] != 0;
        }
        if (taken == g->ratio) {
            ids[count++] = b;
        } else if (taken) {
            return -1;
        }
    }
    for (int32_t c = whole * g->ratio; c < n; c++) {
        if (!selected[c]) {
            return -1;
        }
    }
    return count;
}

const char *oracle_kind_name(oracle_kind kind) {
    static const char *const names[] = {"equal", "tie", "near", "wrong"};
    return names[kind];
}

static bool valid_ids(const int32_t *ids, int32_t count, int32_t blocks) {
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= blocks || (i && ids[i] <= ids[i - 1])) {
            return false;
        }
    }
    return true;
}

static bool holds(const int32_t *ids, int32_t count, int32_t id) {
    return count && bsearch(&id, ids, (size_t)count, sizeof *ids, compare_ids) != NULL;
}

// How one lost and one gained block compare: the pair alone.
static oracle_kind classify_pair(float lost, float gained, double score_error) {
    if (lost == gained || (isnan(lost) && isnan(gained))) {
        return ORACLE_TIE;
    }
    return fabs((double)lost - (double)gained) < 2 * score_error ? ORACLE_NEAR : ORACLE_WRONG;
}

oracle_kind oracle_classify(const float *score, int32_t blocks, const int32_t *want, int32_t want_count,
                            const int32_t *got, int32_t got_count, double score_error) {
    if (want_count != got_count || !valid_ids(want, want_count, blocks) || !valid_ids(got, got_count, blocks)) {
        return ORACLE_WRONG;
    }
    oracle_kind worst = ORACLE_EQUAL;
    for (int32_t i = 0; i < want_count; i++) {
        if (holds(got, got_count, want[i])) {
            continue;
        }
        for (int32_t j = 0; j < got_count; j++) {
            if (!holds(want, want_count, got[j])) {
                oracle_kind pair = classify_pair(score[want[i]], score[got[j]], score_error);
                worst = pair > worst ? pair : worst;
            }
        }
    }
    return worst;
}
