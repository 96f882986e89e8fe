// SPDX-License-Identifier: Apache-2.0
//
// Recomputes a sample of a tensor's units under each fault that could show in it, the worst unit first, and drops a
// fault at the first unit that it does not explain.

#include "check_search.h"

#include <math.h>

#define SAMPLE_MOST 64 // attention of a row costs some 50 ms at the real geometry: few of these
#define SAMPLE_ROWS 12
#define CLEARLY     4.0 // times as far off as with the fault

typedef struct sample {
    int64_t unit[SAMPLE_MOST];
    int n;
} sample;

// The worst unit, then others at equal distances.
static sample choose(const check_search *s, result_tensor which) {
    const bool costly = which == RESULT_SCORES || which == RESULT_ATTN || which == RESULT_OUT;
    const int most = costly ? SAMPLE_ROWS : SAMPLE_MOST;
    const int64_t units = check_units(s, which);
    sample chosen = {.n = 1};
    chosen.unit[0] = s->result->stage[which].worst.unit;
    const int64_t compared = s->result->stage[which].units;
    const bool with_open = s->result->stage[which].open == 0;
    int64_t seen = 0;
    for (int64_t unit = 0; unit < units && chosen.n < most; unit++) {
        if (isnan(s->errors[unit]) || (s->errors[unit] < 0 && !with_open)) {
            continue;
        }
        const bool turn = seen * (most - 1) / compared != (seen + 1) * (most - 1) / compared;
        seen++;
        if (turn && unit != chosen.unit[0]) {
            chosen.unit[chosen.n++] = unit;
        }
    }
    return chosen;
}

// Error of one unit under the model's variant.
static bool unit_error(check_search *s, result_tensor which, int64_t unit, const check_variant *variant,
                       double *error) {
    const int32_t blocks = check_model_blocks(s->model, which == RESULT_K || which == RESULT_V ? 0 : unit);
    if (which != RESULT_SELECTED) {
        if (!check_model_unit(s->model, which, unit, s->ours, s->error)) {
            return false;
        }
        *error = check_measure(s, which, unit, s->ours, blocks).error;
        return true;
    }
    double least = 0;
    if (!check_model_unit(s->model, RESULT_SCORES, unit, s->ours, s->error)) {
        return false;
    }
    check_model_select(s->model, unit, s->ours, s->tokens, &least);
    check_row row = check_row_of(s, unit, s->ours, blocks, least);
    row.cut = variant->select == CHECK_SELECT_CUT || variant->select == CHECK_SELECT_BUDGET;
    *error = check_measure_selected(&row, s->dump->selected + unit * s->run->file->tokens, s->tokens).error;
    return true;
}

// Largest error over the sample, or that of the first unit out of the tolerance.
static bool sample_error(check_search *s, result_tensor which, const sample *chosen, const check_variant *variant,
                         double *error) {
    check_model_vary(s->model, variant);
    *error = 0;
    for (int i = 0; i < chosen->n && *error <= s->result->stage[which].tolerance; i++) {
        double here = 0;
        if (!unit_error(s, which, chosen->unit[i], variant, &here)) {
            return false;
        }
        *error = here > *error ? here : *error;
    }
    return true;
}

// Tensors that go into one, as far as the dump does not cut it off: attention is computed on the dump's selection.
static unsigned inputs(const check_search *s, result_tensor which) {
    const unsigned selection = 1U << RESULT_INDEX_Q | 1U << RESULT_SCORES | 1U << RESULT_SELECTED;
    unsigned attention = 1U << RESULT_Q | 1U << RESULT_K | 1U << RESULT_V;
    attention |= s->dump->selected ? 0 : selection;
    switch (which) {
    case RESULT_SCORES:
        return 1U << RESULT_INDEX_Q;
    case RESULT_SELECTED:
        return 1U << RESULT_INDEX_Q | 1U << RESULT_SCORES;
    case RESULT_ATTN:
        return attention;
    case RESULT_OUT:
        return attention | 1U << RESULT_ATTN;
    default:
        return 0;
    }
}

// Tensors of one of these states.
static unsigned with_status(const check_search *s, bool ok, bool unknown) {
    unsigned set = 0;
    for (int i = 0; i < RESULT_TENSORS; i++) {
        const check_stage *stage = &s->result->stage[i];
        const bool lost = stage->status == CHECK_UNTOLD || (stage->status == CHECK_DIFFERS && !stage->explained);
        const bool differs = lost || stage->status == CHECK_DIFFERS || stage->status == CHECK_FOLLOWS;
        const bool in = ok ? stage->status == CHECK_OK : unknown ? lost : differs;
        set |= in ? 1U << i : 0;
    }
    return set;
}

// Tries every fault that could show here and not in a tensor that is right.
static bool try_faults(check_search *s, result_tensor which, const sample *chosen, double base_error) {
    check_stage *stage = &s->result->stage[which];
    const unsigned shows = inputs(s, which) | 1U << which;
    const unsigned right = with_status(s, true, false);
    check_fault list[CHECK_MAX_FAULTS];
    const int n = check_faults(s->run->file, list);
    stage->left = INFINITY;
    for (int i = 0; i < n; i++) {
        const unsigned homes = check_fault_homes(&list[i]);
        check_variant variant = s->base;
        double error = 0;
        if (!(homes & shows) || (homes & right)) {
            continue;
        }
        check_fault_apply(&list[i], &variant);
        if (!sample_error(s, which, chosen, &variant, &error)) {
            return false;
        }
        if (error <= stage->tolerance && error * CLEARLY < base_error && error < stage->left / 2) {
            stage->explained = true;
            stage->fault = list[i];
            stage->left = error;
            stage->tried = chosen->n;
        }
    }
    if (stage->explained) {
        check_fault_apply(&stage->fault, &s->base);
    }
    return true;
}

bool check_explain(check_search *s, result_tensor which) {
    check_stage *stage = &s->result->stage[which];
    const unsigned before =
        inputs(s, which) | (which == RESULT_ATTN || which == RESULT_OUT ? 1U << RESULT_SELECTED : 0);
    // This tensor is marked as different already: leave it out.
    const unsigned differing = with_status(s, false, false) & before & ~(1U << which);
    const unsigned unknown = with_status(s, false, true) & inputs(s, which) & ~(1U << which);
    double base_error = 0;
    if (!s->model && !(s->model = check_model_create(s->run, s->dump->selected, s->error))) {
        return false;
    }
    const sample chosen = choose(s, which);
    if (!sample_error(s, which, &chosen, &s->base, &base_error)) {
        return false;
    }
    if (differing && base_error <= stage->tolerance) {
        stage->status = CHECK_FOLLOWS;
        return true;
    }
    if (unknown) {
        stage->status = CHECK_UNTOLD;
        return true;
    }
    return try_faults(s, which, &chosen, base_error);
}
