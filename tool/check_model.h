// SPDX-License-Identifier: Apache-2.0
//
// The computation of a layer once more, plainly and in double, with switches: a *variant* says what is done
// differently from what is right. `qsa check` recomputes what a broken port would give and looks which variant
// gives the dump. Nothing here comes from the library; where the definition rounds to float32 (frequencies,
// angles, sines, stored scores), the model does too.
//
// A *unit* of a tensor is what one token has of it: slot b * R + r for most, token b * T + t for k and v.

#ifndef QSA_TOOL_CHECK_MODEL_H
#define QSA_TOOL_CHECK_MODEL_H

#include "pipeline.h"

// Vectors that are normed and rotated.
typedef enum check_place { CHECK_Q, CHECK_INDEX_Q, CHECK_K, CHECK_BLOCK_KEY, CHECK_PLACES } check_place;

typedef enum check_norm {
    CHECK_NORM_RIGHT,   // factor 1 + w
    CHECK_NORM_NO_ONE,  // factor w
    CHECK_NORM_TWO,     // factor 2 + w
    CHECK_NORM_NO_GAIN, // factor 1
    CHECK_NORM_NONE,    // not normed at all
} check_norm;

typedef enum check_rounding {
    CHECK_FREQ_RIGHT, // f32(1 / f32(theta ^ e)), angle in float32
    CHECK_FREQ_ONE,   // f32(theta ^ -e): one rounding
    CHECK_FREQ_F64,   // frequency and angle in double
    CHECK_FREQ_CHAIN, // angle *= theta ^ (-2 / R), in float32, from pair to pair
} check_rounding;

typedef enum check_pairs {
    CHECK_PAIRS_HALVES,      // dim i with dim R/2 + i
    CHECK_PAIRS_INTERLEAVED, // dim 2i with dim 2i + 1
    CHECK_PAIRS_WHOLE,       // halves of the whole vector: R = its dim
    CHECK_PAIRS_NONE,        // not rotated
} check_pairs;

typedef enum check_axes {
    CHECK_AXES_RIGHT,      // interleaved M-RoPE
    CHECK_AXES_TEMPORAL,   // the temporal position for all
    CHECK_AXES_CONTIGUOUS, // sections one after the other
} check_axes;

typedef enum check_position {
    CHECK_POSITION_IDS,
    CHECK_POSITION_RANK,     // the cell's number
    CHECK_POSITION_PHYSICAL, // the token's place in the file, padding counted
    CHECK_POSITION_LAST,     // block keys: ids of the block's last cell
    CHECK_POSITION_BLOCK,    // block keys: the block's number
} check_position;

typedef struct check_rope {
    double theta; // 0: the file's
    check_rounding rounding;
    check_pairs pairs;
    check_axes axes;
    check_position position;
} check_rope;

typedef enum check_pool {
    CHECK_POOL_RIGHT,      // rope(norm(mean))
    CHECK_POOL_AFTER_NORM, // rope(mean(norm))
    CHECK_POOL_AFTER_ROPE, // mean(rope(norm)), each key at its own position
    CHECK_POOL_FIRST,      // the first cell's key alone
} check_pool;

typedef enum check_score {
    CHECK_SCORE_RIGHT,
    CHECK_SCORE_UNSCALED,  // not divided by sqrt(ID)
    CHECK_SCORE_NO_RELU,   // heads added without ReLU
    CHECK_SCORE_LATE_RELU, // ReLU of the sum
    CHECK_SCORE_MEAN,      // mean over the heads
    CHECK_SCORE_UNMASKED,  // right, and blocks that the row has not yet got a score too
} check_score;

typedef enum check_select {
    CHECK_SELECT_RIGHT,
    CHECK_SELECT_CUT,       // min(n, budget + ratio - 1) cells
    CHECK_SELECT_BUDGET,    // min(n, budget) cells, tail first, the last block cut
    CHECK_SELECT_NO_TAIL,   // the blocks without the tail
    CHECK_SELECT_TAIL_LESS, // K - 1 blocks and the tail
    CHECK_SELECT_NOT_SELF,  // without the row's own cell
    CHECK_SELECT_ALL,       // every cell
    CHECK_SELECT_LAST,      // the last K complete blocks, whatever they score
} check_select;

typedef enum check_attend {
    CHECK_ATTEND_RIGHT,
    CHECK_ATTEND_MODULO,   // KV head h % G
    CHECK_ATTEND_UNSCALED, // logits not divided by sqrt(D)
    CHECK_ATTEND_INDEX,    // logits divided by sqrt(ID)
} check_attend;

typedef enum check_gate {
    CHECK_GATE_RIGHT,
    CHECK_GATE_NONE,
    CHECK_GATE_SILU,  // o * g * sigmoid(g)
    CHECK_GATE_EARLY, // attn holds gated rows already; out is right
    CHECK_GATE_TWICE, // the same, and out is gated once more
} check_gate;

typedef struct check_variant {
    check_norm norm[CHECK_PLACES];
    check_rope rope[CHECK_PLACES];
    check_pool pool;
    check_score score;
    check_select select;
    check_attend attend;
    check_gate gate;
    bool no_bias[LAYER_WEIGHTS];
    bool split_q;   // q_proj taken for [all queries | all gates]
    qsa_type kv;    // what keys and values are rounded to before attention
    bool late_mask; // blocks of physical tokens, masked ones counted
} check_variant;

// What is right, with a cache of the format.
check_variant check_variant_right(qsa_type kv);

typedef struct check_model check_model;

// Projects all tokens. `selected` ([slots][T], may be NULL) is what the dump attends: attention then takes these tokens
// instead of the variant's selection. `run` has been run, and is borrowed. NULL and a line when memory is out.
check_model *check_model_create(pipeline *run, const uint8_t *selected, tool_error *error);
void check_model_destroy(check_model *model);

// Sets the variant that everything below computes. Forgets what the last one left.
void check_model_vary(check_model *model, const check_variant *variant);

// The tensor of one unit, result_width numbers (scores: check_model_blocks numbers), not for RESULT_SELECTED. False and
// a line only when memory is out.
bool check_model_unit(check_model *model, result_tensor which, int64_t unit, double *out, tool_error *error);

// Blocks that the slot's row has a score for, at most tokens / ratio.
int32_t check_model_blocks(const check_model *model, int64_t slot);

// What the row of a slot attends, in tokens[T]; scores as check_model_unit gives them. The lowest score among whole
// blocks taken goes to *least (NaN: everything is taken).
void check_model_select(const check_model *model, int64_t slot, const double *scores, uint8_t *tokens, double *least);

#endif
