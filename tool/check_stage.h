// SPDX-License-Identifier: Apache-2.0
//
// The comparison of `qsa check`: every tensor of a dump against what the library computes, in the order in which the
// tensors depend on each other, and for each that differs the fault that explains it.

#ifndef QSA_TOOL_CHECK_STAGE_H
#define QSA_TOOL_CHECK_STAGE_H

#include "check_fault.h"

typedef enum check_status {
    CHECK_ABSENT,  // not in the dump
    CHECK_OK,      // within the tolerance
    CHECK_DIFFERS, // out of it, and first to be so, or by a fault of its own
    CHECK_FOLLOWS, // out of it, and just as the faults found before make it
    CHECK_UNTOLD,  // out of it, after a difference whose reason is not known
    CHECK_UNSURE,  // nothing could be compared: every row's selection is open (ties) and the dump has no `selected`
} check_status;

// Where a tensor is worst. For selected, `theirs` and `ours` are counts of cells and dim is the first token that
// differs.
typedef struct check_worst {
    double error;
    int64_t unit;
    int32_t head, dim;
    double theirs, ours;
} check_worst;

typedef struct check_stage {
    check_status status;
    qsa_type precision; // of the dump's numbers: their type, or what they are exact in
    double tolerance;
    int64_t units; // compared
    int64_t bad;   // of them, out of the tolerance
    int64_t open;  // not compared
    check_worst worst;
    bool explained;
    check_fault fault;
    double left; // error that remains when the fault is recomputed
    int tried;   // units that it was recomputed for
} check_stage;

typedef struct check_result {
    check_stage stage[RESULT_TENSORS];
    int first; // result_tensor of the first stage that differs, -1: none
} check_result;

// Compares. `run` has been run with the dump's rows and keeps everything; its attn, gated and out are recomputed here on
// the dump's selection where that is as good as the library's. tolerance: of every tensor; negative: their own.
bool check_compare(check_result *result, pipeline *run, const expected *dump, const st_file *dump_file,
                   double tolerance, tool_error *error);

// Tolerance of a tensor (docs/check.md).
double check_tolerance(result_tensor which, qsa_type precision, qsa_type kv, qsa_type block_keys);

// Tokens of the rows: the physical token, and the sequence, of a unit.
int32_t check_unit_token(const pipeline *run, result_tensor which, int64_t unit);
int32_t check_unit_sequence(const pipeline *run, result_tensor which, int64_t unit);

#endif
