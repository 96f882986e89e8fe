// SPDX-License-Identifier: Apache-2.0
//
// Results against expected tensors: relative l2, largest difference, and the selection row by row as the golden files'
// README defines it. Only rows of visible tokens are compared.

#ifndef QSA_TOOL_COMPARE_H
#define QSA_TOOL_COMPARE_H

#include "expected.h"
#include "pipeline.h"

typedef struct compare_error {
    bool compared;
    double rel_l2;  // sqrt(sum (x - e)^2 / sum e^2); 0 for 0 / 0
    double max_abs; // infinite where one is NaN or infinite and the other is not equal to it
} compare_error;

typedef enum compare_kind {
    COMPARE_NONE,  // masked, or no `selected`
    COMPARE_EQUAL, // the same tokens
    COMPARE_TIE,   // differs only in blocks of exactly equal expected score
    COMPARE_NEAR,  // every swapped pair differs by less than twice the measured score error
    COMPARE_WRONG,
    COMPARE_KINDS
} compare_kind;

typedef struct comparison {
    compare_error error[RESULT_TENSORS]; // RESULT_SELECTED: never compared as numbers
    compare_kind *kind;                  // [B][R of expected]; NULL until selections were compared
    int64_t rows[COMPARE_KINDS];         // how many of each kind
    bool selection;                      // selections were compared
    bool any;                            // anything was
} comparison;

// Adds one pair of arrays to a sum. NaN against NaN and equal infinities count as equal.
typedef struct compare_sum {
    double difference, expected, max_abs;
    int64_t count;
} compare_sum;
void compare_add(compare_sum *sum, const float *x, const float *e, size_t count);
compare_error compare_finish(const compare_sum *sum);

// Compares what the pipeline kept with what is expected. Rows of kind tie and near have attn and out compared on the
// expected selection. Under QSA_RULE_CUT selected, attn and out are left out.
bool compare_run(comparison *result, pipeline *run, const expected *tensors, tool_error *error);
void comparison_free(comparison *result);

// Kind of one row. `blocks` are the blocks that differ: ours and theirs, n_ours and n_theirs of them; scores: the
// expected scores of the row, or NULL; score_error: max_abs of all scores.
compare_kind compare_blocks(const int32_t *ours, int32_t n_ours, const int32_t *theirs, int32_t n_theirs,
                            const float *scores, int32_t n_scores, double score_error);

// Default tolerance of the relative l2 of attn and out for a cache format.
double compare_tolerance(qsa_type kv);

// 0 wrong, 0 near with f32 block keys, attn and out within the tolerance; true when nothing was compared.
bool compare_ok(const comparison *result, qsa_type block_keys, double tolerance);

#endif
