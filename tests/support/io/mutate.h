// SPDX-License-Identifier: Apache-2.0
//
// Breaks a layer in one way that ports of this attention were seen broken in, and writes what such a port would dump:
// every tensor in float64 by the oracle's parts with the fault put in by hand, rounded once. Shares no code with the
// tool that has to find the fault.
#ifndef QSA_TESTS_MUTATE_H
#define QSA_TESTS_MUTATE_H

#include "golden.h"

typedef enum {
    MUTATE_NONE,
    MUTATE_WIDTH,           // always min(n, budget + ratio - 1) cells
    MUTATE_POOL_AFTER_NORM, // block key = rope(mean(norm(keys)))
    MUTATE_Q_NO_ONE,        // norm factor w
    MUTATE_K_NO_ONE,
    MUTATE_INDEX_Q_NO_ONE,
    MUTATE_INDEX_K_NO_ONE,
    MUTATE_Q_TWICE, // norm factor 2 + w
    MUTATE_K_TWICE,
    MUTATE_INDEX_Q_TWICE,
    MUTATE_INDEX_K_TWICE,
    MUTATE_BLOCK_LAST,     // block keys rotated at the last cell's position
    MUTATE_BLOCK_PHYSICAL, // ... at the first cell's place in the padded sequence
    MUTATE_BLOCK_NUMBER,   // ... at the block's number
    MUTATE_NO_TAIL,
    MUTATE_NO_GATE,
    MUTATE_KV_MODULO, // query head h reads KV head h % G
    MUTATE_THETA_1E4,
    MUTATE_THETA_1E6,
    MUTATE_THETA_INDEX,     // theta 1e4, of block keys only
    MUTATE_ONE_ROUNDING,    // frequencies
    MUTATE_INTERLEAVED,     // RoPE pairs 2i, 2i + 1
    MUTATE_SCORES_UNSCALED, // no 1 / sqrt(ID)
    MUTATE_LOGITS_UNSCALED, // no 1 / sqrt(D)
    MUTATE_Q_AND_GATE,      // MUTATE_Q_NO_ONE and MUTATE_NO_GATE
    MUTATE_ODD,             // something that nobody would guess, in the attention
    MUTATIONS
} mutation;

// Tensors to write, as bits.
enum {
    DUMP_Q = 1,
    DUMP_INDEX_Q = 2,
    DUMP_K = 4,
    DUMP_V = 8,
    DUMP_SCORES = 16,
    DUMP_SELECTED = 32,
    DUMP_ATTN = 64,
    DUMP_OUT = 128,
    DUMP_ALL = 255
};

typedef struct mutator mutator;

// Opens a golden file and projects it, once for all mutations. Aborts when that fails.
mutator *mutator_open(const char *name);
void mutator_close(mutator *m); // NULL is allowed

// Computes the layer with the fault and saves the tensors; with every_other, of every other row only (and `rows`
// says which). `type`: ST_F32, ST_F16 or ST_BF16. Aborts when that fails.
void mutate_save(const mutator *m, mutation fault, unsigned tensors, st_dtype type, bool every_other, const char *path);

#endif
