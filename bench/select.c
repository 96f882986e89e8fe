// SPDX-License-Identifier: Apache-2.0
//
// Selections of the attention cases. The library's own top-k takes the best of random scores: fresh ones for every row
// (random), or ones that drift from row to row (walk: s = 0.995 s + 0.0999 N(0,1), which keeps variance 1; neighbours then
// share a Jaccard index of 0.86 at position 30000).

#include "bench/world.h"

#include "host/host_call.h"

#include <stdlib.h>
#include <string.h>

static bool above_budget(const bench_world *w, int32_t row) {
    return w->cells[row] > w->geometry.budget + w->geometry.ratio - 1;
}

static int32_t blocks_of(const bench_world *w, int32_t row) {
    return w->cells[row] / w->geometry.ratio;
}

// Row's ids as the best of `scores`.
static bool take_best(bench_world *w, int32_t row, const float *scores, bench_error *error) {
    qsa_selection one = w->selection;
    one.ids += row * one.stride;
    one.count += row;
    return host_topk(w->context, &w->geometry, QSA_RULE_OFFICIAL, 1, &w->cells[row], scores, blocks_of(w, row), &one) ==
               QSA_OK ||
           bench_fail_library(error);
}

static void take_recent(bench_world *w, int32_t row) {
    const int32_t take = w->geometry.budget / w->geometry.ratio, first = blocks_of(w, row) - take;
    for (int32_t k = 0; k < take; k++)
        w->selection.ids[row * w->selection.stride + k] = first + k;
    w->selection.count[row] = take;
}

static bool draw(bench_world *w, bench_selection kind, float *scores, bench_error *error) {
    int32_t drawn = 0; // blocks that have a score of this sequence's walk
    for (int32_t i = 0; i < w->rows; i++) {
        if (i % w->tokens == 0)
            drawn = 0;
        if (!above_budget(w, i))
            continue;
        const int32_t blocks = blocks_of(w, i);
        for (int32_t b = 0; kind == BENCH_RANDOM && b < blocks; b++)
            scores[b] = bench_uniform(&w->random);
        if (kind == BENCH_WALK) {
            for (int32_t b = 0; b < drawn; b++)
                scores[b] = 0.995f * scores[b] + 0.0999f * bench_normal(&w->random);
            for (; drawn < blocks; drawn++)
                scores[drawn] = bench_normal(&w->random);
        }
        if (kind == BENCH_RECENT)
            take_recent(w, i);
        else if (!take_best(w, i, scores, error))
            return false;
    }
    return true;
}

// What the library itself selects.
static bool score_and_take(bench_world *w, bench_error *error) {
    const qsa_row_set rows = {.size = sizeof rows, .rows = w->rows, .sequences = w->sequences, .cells = w->cells};
    const qsa_geometry *g = &w->geometry;
    const qsa_prep_out out = {.size = sizeof out, .q = w->q, .index_q = w->index_q};
    qsa_status status = host_prep(w->context, g, w->layer, w->cache, 0, &w->batch, &out);
    if (status == QSA_OK)
        status = host_score(w->context, g, w->cache, 0, &rows, w->index_q, w->scores, w->score_stride);
    if (status == QSA_OK)
        status = host_topk(w->context, &w->geometry, QSA_RULE_OFFICIAL, w->rows, w->cells, w->scores, w->score_stride,
                           &w->selection);
    if (status != QSA_OK)
        return bench_fail_library(error);
    return world_discard(w) == QSA_OK || bench_fail_library(error);
}

// Marks the cells of a row; how many were not marked by `stamp` yet.
static int32_t mark(const bench_world *w, int32_t row, int32_t *stamps, int32_t stamp) {
    const int32_t n = w->cells[row], ratio = w->geometry.ratio, *ids = w->selection.ids + row * w->selection.stride;
    const bool all = !above_budget(w, row);
    const int32_t whole = all ? n / ratio : w->selection.count[row];
    int32_t fresh = 0;
    for (int32_t k = 0; k < whole; k++)
        for (int32_t c = 0; c < ratio; c++) {
            int32_t *at = &stamps[(all ? k : ids[k]) * ratio + c];
            fresh += *at != stamp;
            *at = stamp;
        }
    for (int32_t c = n - n % ratio; c < n; c++) {
        fresh += stamps[c] != stamp;
        stamps[c] = stamp;
    }
    return fresh;
}

// Cells in the union of groups of `size` neighbouring rows over the cells of one row: mean over whole groups.
static double union_factor(const bench_world *w, int32_t size, int32_t *stamps, int32_t *stamp) {
    double sum = 0;
    int32_t groups = 0;
    for (int32_t first = 0; first + size <= w->tokens; first += size, groups++) {
        double cells = 0, of_rows = 0;
        const int32_t own = ++*stamp;
        for (int32_t i = first; i < first + size; i++) {
            cells += mark(w, i, stamps, own);
            of_rows += qsa_selected_cells(&w->geometry, QSA_RULE_OFFICIAL, w->cells[i]);
        }
        sum += cells / (of_rows / size);
    }
    return groups ? sum / groups : 0;
}

static double mean_jaccard(const bench_world *w, int32_t *stamps, int32_t *stamp) {
    double sum = 0;
    for (int32_t i = 1; i < w->tokens; i++) {
        const int32_t own = ++*stamp;
        const int32_t first = mark(w, i - 1, stamps, own), more = mark(w, i, stamps, own);
        const int32_t second = qsa_selected_cells(&w->geometry, QSA_RULE_OFFICIAL, w->cells[i]);
        sum += (double)(second - more) / (first + more);
    }
    return w->tokens > 1 ? sum / (w->tokens - 1) : 0;
}

// The measures over neighbours are those of the first sequence.
static void measure(bench_world *w, int32_t *stamps) {
    int32_t stamp = 0;
    w->unique_cells = 0;
    for (int32_t i = 0; i < w->rows; i++) {
        stamp += i % w->tokens == 0;
        w->unique_cells += mark(w, i, stamps, stamp);
    }
    w->union8 = union_factor(w, 8, stamps, &stamp);
    w->union16 = union_factor(w, 16, stamps, &stamp);
    w->jaccard = mean_jaccard(w, stamps, &stamp);
}

bool world_select(bench_world *w, bench_selection kind, bench_error *error) {
    const size_t cells = (size_t)w->pos + (size_t)w->tokens;
    float *scores = calloc(cells / (size_t)w->geometry.ratio + 1, sizeof *scores);
    int32_t *stamps = calloc(cells, sizeof *stamps);
    bool made = scores && stamps;
    if (!made)
        bench_say(error, "no memory for the selections of %zu cells", cells);
    made = made && (kind == BENCH_SCORED ? score_and_take(w, error) : draw(w, kind, scores, error));
    if (made)
        measure(w, stamps);
    free(scores);
    free(stamps);
    return made;
}
