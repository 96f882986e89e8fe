// SPDX-License-Identifier: Apache-2.0
//
// How far the oracle is from the official vectors: one pass over a golden file, and the bounds that
// semantics promise (1e-6 in q and index_q, 2e-6 in scores).
#ifndef QSA_TESTS_GOLDEN_MEASURE_H
#define QSA_TESTS_GOLDEN_MEASURE_H

#include "golden.h"

typedef struct {
    int rows;     // rows compared
    int skipped;  // rows of masked tokens, which hold NaN
    int kinds[4]; // rows per oracle_kind
    int widths;   // rows whose official count of cells is not the official rule's
    int causal;   // scores that are finite for a block not complete yet, or not for one that is
    int tables;   // cos or sin values that are not the official bits
    // Largest absolute difference over all rows and values; k stays 0 in real files.
    double table, q, k, index_q, scores;
    // Largest relative l2 of a row: raw projections (v and raw index keys: 0 in real files), attention,
    // attention of one head, the layer's output.
    double gate, v, index_k_raw, attn, head, out;
} golden_figures;

// Runs every stored row of `g` through the oracle with caches that round nothing. Attention of tie
// and near rows is compared on the official selection.
void golden_measure(const golden *g, golden_figures *f);

// The figures, one block of lines.
void golden_print(const char *name, const golden_figures *f);

// What is wrong with the figures: the name of the first that is out of bounds, or NULL. q, k and
// index_q 1e-6, scores 2e-6, attention and output 5e-6 relative, raw projections 1e-6 relative, cos
// and sin one unit of float32 below 1 (2^-24), no wrong selection, width or causality.
const char *golden_objection(const golden_figures *f);

#endif
