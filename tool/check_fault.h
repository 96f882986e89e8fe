// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong in ports: the list of faults that `qsa check` recomputes, what each changes, where it first shows,
// and how it is said.

#ifndef QSA_TOOL_CHECK_FAULT_H
#define QSA_TOOL_CHECK_FAULT_H

#include "check_model.h"

typedef enum check_kind {
    CHECK_FAULT_NO_ONE, // from here to PHYSICAL: of one place, or of all four
    CHECK_FAULT_ONE_TWICE,
    CHECK_FAULT_NO_GAIN,
    CHECK_FAULT_NO_NORM,
    CHECK_FAULT_NO_ROPE,
    CHECK_FAULT_RAW,
    CHECK_FAULT_THETA,
    CHECK_FAULT_ONE_ROUNDING,
    CHECK_FAULT_ANGLES_F64,
    CHECK_FAULT_ANGLES_CHAIN,
    CHECK_FAULT_INTERLEAVED,
    CHECK_FAULT_WHOLE_HEAD,
    CHECK_FAULT_TEMPORAL,
    CHECK_FAULT_CONTIGUOUS,
    CHECK_FAULT_RANK,
    CHECK_FAULT_PHYSICAL,
    CHECK_FAULT_LAST_CELL, // block keys
    CHECK_FAULT_BLOCK_NUMBER,
    CHECK_FAULT_POOL_AFTER_NORM,
    CHECK_FAULT_POOL_AFTER_ROPE,
    CHECK_FAULT_POOL_FIRST,
    CHECK_FAULT_LATE_MASK,
    CHECK_FAULT_SCORE_UNSCALED, // scores
    CHECK_FAULT_SCORE_NO_RELU,
    CHECK_FAULT_SCORE_LATE_RELU,
    CHECK_FAULT_SCORE_MEAN,
    CHECK_FAULT_SCORE_UNMASKED,
    CHECK_FAULT_CUT, // selection
    CHECK_FAULT_BUDGET,
    CHECK_FAULT_NO_TAIL,
    CHECK_FAULT_TAIL_LESS,
    CHECK_FAULT_NOT_SELF,
    CHECK_FAULT_ALL,
    CHECK_FAULT_LAST,
    CHECK_FAULT_MODULO, // attention
    CHECK_FAULT_UNSCALED,
    CHECK_FAULT_INDEX_SCALE,
    CHECK_FAULT_KV, // number: the qsa_type
    CHECK_FAULT_GATE_EARLY,
    CHECK_FAULT_GATE_TWICE,
    CHECK_FAULT_GATE_NONE, // output
    CHECK_FAULT_GATE_SILU,
    CHECK_FAULT_SPLIT_Q, // projections
    CHECK_FAULT_NO_BIAS, // number: the layer_weight
    CHECK_KINDS
} check_kind;

#define CHECK_EVERYWHERE (-1)

typedef struct check_fault {
    check_kind kind;
    int place;     // a check_place or CHECK_EVERYWHERE; without meaning for the later kinds
    double number; // theta, or as the kind says
} check_fault;

#define CHECK_MAX_FAULTS 160

// Every fault that the file could show, local ones first: of two that give the same, the first is the one to name.
int check_faults(const layer_file *file, check_fault list[static CHECK_MAX_FAULTS]);

// Makes the fault in a variant.
void check_fault_apply(const check_fault *fault, check_variant *variant);

// Bits 1 << result_tensor of the tensors that the fault changes first, without the help of any other.
unsigned check_fault_homes(const check_fault *fault);

// A word for programs ("norm-without-one"), and the place ("q", "index_q", "k", "block_key", "" for none, "all").
const char *check_fault_id(const check_fault *fault);
const char *check_fault_place(const check_fault *fault);

// What is probably wrong, and what to do: two sentences without a final full stop.
typedef struct check_words {
    char cause[512];
    char cure[512];
} check_words;
check_words check_fault_words(const check_fault *fault, const qsa_geometry *geometry);

#endif
