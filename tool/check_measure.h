// SPDX-License-Identifier: Apache-2.0
//
// Measures of `qsa check`: how far one unit of a dump is from what it should be.
//
// q, index_q, k, v: largest |difference| of a head's vector over the vector's root mean square. scores: largest
// |difference| over the row's largest score. attn, out: l2 of a vector's difference over the vector's l2. selected:
// share of cells that differ, without blocks whose scores are too close to call.

#ifndef QSA_TOOL_CHECK_MEASURE_H
#define QSA_TOOL_CHECK_MEASURE_H

#include "check_stage.h"

// Heads of a unit and dims of a head; not for scores and selected.
int32_t check_heads(const layer_file *file, result_tensor which);

// heads vectors of `dim` numbers. Fills all of the worst but the unit.
check_worst check_measure_vectors(result_tensor which, int32_t heads, int32_t dim, const float *theirs,
                                  const double *ours);

// One row of scores: `wide` of theirs, `blocks` of ours; the others of theirs must be no numbers, or far below.
check_worst check_measure_scores(const float *theirs, int32_t wide, const double *ours, int32_t blocks);

// A row's selection. Cells of a block whose score is within `slack` of `least` may be swapped for as many others.
typedef struct check_row {
    const layer_file *file;
    int32_t sequence;
    int32_t n; // cells of the row
    const double *scores;
    double least;
    double slack;
    bool cut; // a block may be attended in part
} check_row;
check_worst check_measure_selected(const check_row *row, const uint8_t *theirs, const uint8_t *ours);

// Largest absolute score; 1 if all are 0.
double check_score_scale(const double *scores, int32_t blocks);

// f32 if the tensor is, unless every number in it is exact in bf16 or f16.
qsa_type check_precision(const st_tensor *tensor, const float *values);

#endif
