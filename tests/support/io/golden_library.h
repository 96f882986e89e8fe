// SPDX-License-Identifier: Apache-2.0
//
// How far the library is from the official vectors: the cells of one golden file appended through the
// public API in chunks, its stored rows attending.
#ifndef QSA_TESTS_GOLDEN_LIBRARY_H
#define QSA_TESTS_GOLDEN_LIBRARY_H

#include "golden.h"
#include "qsa/qsa.h"

typedef struct {
    qsa_type kv_type, block_key_type;
    int32_t chunk, threads;
    int32_t first_row, row_count; // stored rows compared; row_count 0: all
} golden_library_options;

typedef struct {
    int rows, skipped; // compared, and those of masked tokens
    int kinds[4];      // rows per oracle_kind; near is judged by the row's own score error
    int widths;        // rows that select another number of cells than the official one
    // Largest absolute difference over all rows and values; k and v stay 0 in real files.
    double q, k, v, index_q, scores;
    // Largest relative l2 of a row: attention before the gate and the layer's output, of tie and near rows
    // on the official selection; and the attention against float64 over the stored cache, on the
    // library's own queries and selection.
    double attn, out, stored;
} golden_library_figures;

void golden_library_measure(const golden *g, const golden_library_options *options, golden_library_figures *f);
void golden_library_print(const char *name, const golden_library_options *options, const golden_library_figures *f);

// What is wrong, or NULL. q, k, v and index_q 4e-6 absolute; no wrong row or width; attention over the
// stored cache 2e-6 relative; attn by the cache format: 5e-6 (f32), 1e-3 (f16), 5e-3 (bf16), 1.2e-2 (i8).
// With f32 block keys: scores 8e-6. With an f32 cache: out 5e-6.
const char *golden_library_objection(const golden_library_options *options, const golden_library_figures *f);

#endif
