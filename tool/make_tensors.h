// SPDX-License-Identifier: Apache-2.0
//
// Random weights of one QSA layer in one form. The float32 values depend on seed, layer and tensor alone, so that all
// forms hold the same layer, each rounded in its way; norm weights are exact in every form.

#ifndef QSA_TOOL_MAKE_TENSORS_H
#define QSA_TOOL_MAKE_TENSORS_H

#include "common.h"
#include "io/stored_tensor.h"

enum { MAKE_HALVES = 2, MAKE_MOST_TENSORS = 12, MAKE_INTERVAL = 4 }; // every 4th layer is a QSA layer

typedef struct make_plan {
    qsa_geometry geometry;
    int32_t hidden;
    int32_t layers;
    uint64_t seed;
    bool gguf;
    stored_encoding encoding; // of matrices
    const char *form;         // its name
} make_plan;

typedef struct make_tensor {
    char name[160];
    stored_encoding encoding;
    int n_dims;
    int64_t shape[2];
    void *data;
} make_tensor;

// A part of a layer's tensors, what one file holds: half 0 is attention's input side, half 1 the rest.
typedef struct make_half {
    int count;
    make_tensor tensors[MAKE_MOST_TENSORS];
} make_half;

// Makes the tensors of a half, named as their format names them. On failure nothing is left allocated.
bool make_layer_half(const make_plan *plan, int32_t layer, int half, make_half *made, tool_error *error);
void make_half_free(make_half *made);

// Tensors of one layer, both halves.
int make_layer_tensors(const make_plan *plan);

// `count` numbers of mean 0 and about that deviation, from a seed and a number of the stream.
void make_normal(uint64_t seed, uint64_t stream, double deviation, size_t count, float *out);

#endif
