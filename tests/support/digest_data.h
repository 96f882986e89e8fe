// SPDX-License-Identifier: Apache-2.0
//
// The inputs of a digest scenario, made of integers.
#ifndef QSA_TESTS_DIGEST_DATA_H
#define QSA_TESTS_DIGEST_DATA_H

#include "digest.h"

typedef struct {
    qsa_geometry geometry;
    int32_t *sequences, *positions; // [rows], [rows][3]
    void *q, *k, *v, *index_q, *index_k, *gate;
    uint16_t *norms[4]; // bf16, zero-centred
} digest_data;

void digest_data_open(digest_data *d, const digest_scenario *scenario, digest_change change);
void digest_data_close(digest_data *d);
void digest_data_batch(const digest_data *d, const digest_scenario *scenario, qsa_batch *batch);

// Cells in stored form that are written into the cache. index_keys and positions stay null.
void digest_cells_open(qsa_cells *cells, const qsa_geometry *g, qsa_type kv, qsa_type keys, int32_t count);
void digest_cells_fill(qsa_cells *cells, const qsa_geometry *g, qsa_type kv, qsa_type keys, int32_t count);
void digest_cells_close(qsa_cells *cells);

// Zeroed memory, at least one element; ends the program when there is none.
void *digest_memory(size_t count, size_t size);

#endif
