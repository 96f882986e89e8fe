// SPDX-License-Identifier: Apache-2.0
//
// The oracle put together: one sequence with its keys, values, raw index keys and block keys as
// plain arrays, and everything that one row of it computes. Appending and truncating are exact and
// unlimited: truncate and append equals a fresh run by construction, which the library must match.
// Allocates; aborts when memory is out.
#ifndef QSA_TESTS_ORACLE_SEQUENCE_H
#define QSA_TESTS_ORACLE_SEQUENCE_H

#include "oracle.h"

typedef struct {
    oracle_geometry geometry;
    oracle_norms norms;       // borrowed
    oracle_format kv_format;  // what keys and values went through
    oracle_format key_format; // what block keys went through
    int32_t cells, capacity;
    double *k, *v;      // [cells][G][D], after the trip through kv_format
    float *raw_index_k; // [cells][ID]
    int32_t *positions; // [cells][3]
    double *block_keys; // [cells / ratio][ID], after the trip through key_format
} oracle_sequence;

// An empty sequence. The arrays of `norms` must outlive it.
void oracle_sequence_init(oracle_sequence *s, const oracle_geometry *g, const oracle_norms *norms,
                          oracle_format kv_format, oracle_format key_format);
void oracle_sequence_free(oracle_sequence *s);

// Appends one cell from its raw k and v rows [G][D] and its raw index key [ID], and makes the block
// key when this cell completes a block.
void oracle_sequence_append(oracle_sequence *s, const float *raw_k, const float *raw_v, const float *raw_index_k,
                            const int32_t positions[3]);

// Keeps the first `cells` cells.
void oracle_sequence_truncate(oracle_sequence *s, int32_t cells);

// What one row computes. Allocated by oracle_row_init, reused by every oracle_row_compute.
typedef struct {
    double *q, *gate; // [H][D]
    double *index_q;  // [IH][ID]
    double *score;    // [n / ratio], float64
    float *stored;    // [n / ratio], the float32 quotients that selection ordered
    oracle_selection selection;
    int32_t *ids;   // [selection.blocks]
    int32_t *cells; // [selection.cells]
    double *o;      // [H][D], before the gate
    double *gated;  // [H][D], o * sigmoid(gate)
    double *lse;    // [H]
} oracle_row;

// Room for rows of a sequence of up to `max_cells` cells.
void oracle_row_init(oracle_row *row, const oracle_geometry *g, int32_t max_cells);
void oracle_row_free(oracle_row *row);

// The row whose token is cell n-1 of `s` (n <= s->cells; later cells are not looked at), from its raw
// q_proj row [H][query D | gate D], its raw index_qk_proj row [IH*ID | ID] and its positions.
void oracle_row_compute(oracle_row *row, const oracle_sequence *s, oracle_rule rule, int32_t n, const float *raw_q,
                        const float *raw_index, const int32_t positions[3]);

// o, gated and lse of `row` again, over another list of cells (the row's own cells and ids stay).
void oracle_row_attend(oracle_row *row, const oracle_sequence *s, const int32_t *cells, int32_t count);

#endif
