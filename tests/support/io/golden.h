// SPDX-License-Identifier: Apache-2.0
//
// The official vectors of tests/golden as plain arrays: geometry, inputs, weights and what the
// official module made of them. Projections (hidden states by weights) are done here too, in double
// and rounded once to float32, row by row: the real files have 12,288 query outputs of which only a
// few rows are ever wanted. Refuses, with a line in `err`, a file whose tensors do not fit its
// configuration. Needs src/io and jansson.
#ifndef QSA_TESTS_GOLDEN_H
#define QSA_TESTS_GOLDEN_H

#include "io/safetensors.h"
#include "support/oracle.h"
#include "support/oracle_sequence.h"

typedef enum {
    GOLDEN_Q,     // hidden -> [H][query D | gate D]
    GOLDEN_K,     // hidden -> [G][D]
    GOLDEN_V,     // hidden -> [G][D]
    GOLDEN_INDEX, // hidden -> [IH*ID | ID]
    GOLDEN_O,     // [H][D] -> hidden
    GOLDEN_PROJECTIONS
} golden_projection;

typedef struct {
    size_t inputs, outputs;
    float *weight; // [outputs][inputs]
    float *bias;   // [outputs], NULL without
} golden_linear;

typedef struct {
    st_file *file; // for whatever else a test wants to look up
    oracle_geometry geometry;
    oracle_norms norms; // factors: the 1 is added; they point into `factor`
    float *factor[4];
    int32_t hidden_size, batch, tokens, rows;
    int32_t blocks; // columns of `scores`
    int32_t *row;   // [R]: token of each stored row
    float *hidden;  // [B][T][hidden_size]
    golden_linear linear[GOLDEN_PROJECTIONS];
    int32_t *positions;     // [B][T][3]: temporal, height, width
    uint8_t *mask;          // [B][T]: 0 for a token that is no cell
    int32_t *cells;         // [B]: cells of the sequence
    int32_t *token_of_cell; // [B][T]: token of cell c, for c < cells[b]
    int32_t *cell_of_token; // [B][T]: cell of token t, -1 when masked
    // What the official module gave. Rows of masked tokens hold NaN.
    float *q, *gate, *attn;       // [B][R][H][D]
    float *index_q;               // [B][R][IH][ID]
    float *scores;                // [B][R][blocks], -inf where the block is not complete
    uint8_t *selected;            // [B][R][T], by token
    float *out;                   // [B][R][hidden_size]
    float *cos_table, *sin_table; // [B][table_rows][rotary]
    int32_t table_rows;           // T, or R where only the stored rows have tables
    float *k, *v;                 // [B][T][G][D], NULL in the real files
    float *index_k_raw;           // [B][T][ID], NULL in the real files
} golden;

// Loads QSA_GOLDEN_DIR/<name>.safetensors, everything validated. NULL and one line in `err` (of
// err_size bytes, ST_ERR_SIZE is enough) on failure.
golden *golden_open(const char *name, char *err, size_t err_size);
void golden_close(golden *g); // NULL is allowed

// out[linear[p].outputs] of input x[linear[p].inputs]: x W^T + bias in double, rounded once.
void golden_apply(const golden *g, golden_projection p, const float *x, float *out);
void golden_apply_f64(const golden *g, golden_projection p, const double *x, double *out);

// The raw row of token t of sequence b, not for GOLDEN_O.
void golden_project(const golden *g, golden_projection p, int b, int32_t t, float *out);

// Outputs first .. first+count-1 of all cells of sequence b in order of rank (masked tokens left
// out): [cells[b]][count], to be freed. Aborts when memory is out.
float *golden_project_cells(const golden *g, golden_projection p, int b, size_t first, size_t count);

// The sequence b as the oracle holds it, filled with all its cells. `s` borrows from `g`.
void golden_sequence(const golden *g, int b, oracle_format kv_format, oracle_format key_format, oracle_sequence *s);

// selected of row r of sequence b by cell rather than by token: by_cell[n] for the row's n cells.
// Returns n, 0 for a masked token, and -1 if a masked or later token is selected.
int32_t golden_selected_cells(const golden *g, int b, int32_t r, uint8_t *by_cell);

#endif
