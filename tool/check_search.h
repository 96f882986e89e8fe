// SPDX-License-Identifier: Apache-2.0
//
// The search for the fault behind a difference. The faults found so far make up the *base* variant; a further fault is
// named when the base with it gives the dump's tensor within the tolerance, for the worst unit and a sample of others,
// and the base alone is at least four times as far off.

#ifndef QSA_TOOL_CHECK_SEARCH_H
#define QSA_TOOL_CHECK_SEARCH_H

#include "check_measure.h"

typedef struct check_search {
    check_result *result;
    pipeline *run;
    const expected *dump;
    tool_error *error;
    check_model *model; // made at the first difference
    check_variant base;
    double *errors;   // [units] of the tensor at hand; NaN: not compared, negative: its selection is open
    check_worst open; // the worst unit whose selection is open
    double *ours;     // one unit
    uint8_t *tokens;
    int32_t *ids;
    bool patched; // a row's attention was computed again on the dump's selection
} check_search;

// Units of a tensor, visible or not.
int64_t check_units(const check_search *s, result_tensor which);

// A unit of the dump against `ours`; not for selected.
check_worst check_measure(const check_search *s, result_tensor which, int64_t unit, const double *ours, int32_t blocks);

// What check_measure_selected needs of a slot.
check_row check_row_of(const check_search *s, int64_t slot, const double *scores, int32_t blocks, double least);

// Decides the status of a tensor that differs, and its fault. False and a line only when memory is out.
bool check_explain(check_search *s, result_tensor which);

#endif
