// SPDX-License-Identifier: Apache-2.0
//
// The scratch of one wave, and the checks of selections that forward and the stage calls share.

#ifndef QSA_API_FORWARD_H
#define QSA_API_FORWARD_H

#include "api/wave.h"

// Bytes per row of each array of a wave, multiples of 64.
typedef struct qsa_wave_layout {
    int32_t rows; // in flight
    size_t row, q, index_q, scores, lower, screen_codes, screen_scales, ids, list, records;
    size_t per_row; // all of them
} qsa_wave_layout;
void qsa_wave_layout_of(const qsa_context *context, const qsa_cache *cache, int32_t rows, qsa_wave_layout *layout);
// Sets the pointers of row w of a wave whose rows lie at the front of `memory`.
void qsa_wave_place(const qsa_wave *wave, const qsa_wave_layout *layout, unsigned char *memory, int32_t w);

qsa_status qsa_check_rule(const char *call, qsa_rule rule);
// Struct, pointers and stride; `written`: the rule's ids must fit.
qsa_status qsa_check_selection(const char *call, const qsa_geometry *g, qsa_rule rule, const qsa_selection *selection,
                               int written);
// Row i of a given selection for a row of n cells above the budget: ids ascend, are complete blocks, and are at most
// budget + ratio - 1 cells with the tail.
qsa_status qsa_check_selected(const char *call, const qsa_geometry *g, const qsa_selection *selection, int32_t i,
                              int32_t n);
// Row i of a selection, read into a wave's row.
void qsa_use_selection(const qsa_selection *selection, int32_t i, qsa_wave_row *row);

// What forward does before it scores, alone, for measurements and tests: qsa_prep by the fused kernel. q and index_q as in
// qsa_prep_out. Nothing is checked; the workspace is one of QSA_STAGE_PREP for as many rows.
void qsa_prep_fused(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                    const qsa_batch *batch, float *q, float *index_q, void *workspace);

// What forward does between prep and attend, alone, for measurements and tests: scores, screened where the cache is, and the
// selection. candidates (null or [rows]) gets how many blocks were scored after screening, -1 where all were. Nothing is
// checked; the workspace is one of QSA_STAGE_FORWARD for as many rows.
void qsa_choose(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                const float *index_q, qsa_rule rule, qsa_selection *selection, int32_t *candidates, void *workspace);

#endif
