// SPDX-License-Identifier: Apache-2.0
//
// How faults are said: a word for programs, a cause and a cure for people. docs/check.md lists the same words.

#include "check_fault.h"

#include <stdio.h>

typedef struct entry {
    const char *id;
    const char *cause; // %N: the norm's name, %V: the vectors
    const char *cure;
} entry;

static const entry entries[CHECK_KINDS] = {
    [CHECK_FAULT_NO_ONE] = {"norm-without-one", "the factor of %N is w, without the 1 that belongs to it",
                            "checkpoints hold zero-centred norm weights: the factor is 1 + w, in float32; only GGUF "
                            "files hold the factor itself"},
    [CHECK_FAULT_ONE_TWICE] = {"norm-one-twice", "the 1 is added to %N twice (factor 2 + w)",
                               "add the 1 once: where the file is converted, or where it is loaded, not in both"},
    [CHECK_FAULT_NO_GAIN] = {"norm-without-weight", "%N is not applied: the vectors are normed, but not multiplied",
                             "multiply by 1 + w after the RMS norm"},
    [CHECK_FAULT_NO_NORM] = {"norm-missing", "%V: not normed (%N)",
                             "apply the RMS norm with eps, per head, before RoPE"},
    [CHECK_FAULT_NO_ROPE] = {"rope-missing", "%V: normed, but not rotated",
                             "rotate after the norm; if the engine does, the dump was taken before RoPE"},
    [CHECK_FAULT_RAW] = {"raw", "%V: the raw projection, neither normed nor rotated",
                         "norm, then rotate; if the engine does, the dump was taken too early"},
    [CHECK_FAULT_THETA] = {"rope-theta", "%V: rotated with the wrong theta",
                           "read rope_theta from the model's configuration"},
    [CHECK_FAULT_ONE_ROUNDING] =
        {"rope-one-rounding", "%V: the inverse frequencies are rounded once, where the model rounds twice",
         "take f32(1 / f32(theta^f32(2i/R))): round the power to float32, then its reciprocal"},
    [CHECK_FAULT_ANGLES_F64] = {"rope-angles-f64",
                                "%V: the rotation's frequencies and angles are not rounded to float32",
                                "angle = f32(inv_freq * f32(position)), and cos and sin of that float32"},
    [CHECK_FAULT_ANGLES_CHAIN] = {"rope-angles-chained",
                                  "%V: the angles come from repeated multiplication by theta^(-2/R), which drifts",
                                  "compute each inverse frequency by itself: f32(1 / f32(theta^f32(2i/R)))"},
    [CHECK_FAULT_INTERLEAVED] = {"rope-interleaved",
                                 "%V: RoPE rotates neighbouring dims (2i with 2i + 1) instead of "
                                 "halves",
                                 "pair dim i with dim R/2 + i (NeoX), i < R/2"},
    [CHECK_FAULT_WHOLE_HEAD] = {"rope-whole-head", "%V: RoPE rotates the whole vector",
                                "only the first R = head_dim * partial_rotary_factor dims are rotated, also in the "
                                "index vectors; the rest passes unchanged"},
    [CHECK_FAULT_TEMPORAL] = {"mrope-temporal-only", "%V: all frequencies take the temporal position",
                              "height and width positions belong to their frequencies (interleaved M-RoPE)"},
    [CHECK_FAULT_CONTIGUOUS] = {"mrope-contiguous",
                                "%V: the M-RoPE sections lie one after the other instead of interleaved",
                                "frequency i takes the height if i % 3 is 1 and i < 3 * section[1], the width if "
                                "i % 3 is 2 and i < 3 * section[2], else the temporal position"},
    [CHECK_FAULT_RANK] = {"position-rank", "%V: rotated by the cell's number instead of its position id",
                          "take position_ids; they differ from the count of tokens where images are"},
    [CHECK_FAULT_PHYSICAL] = {"position-physical",
                              "%V: rotated at the physical position, padding counted, instead of the position id",
                              "take position_ids: masked tokens are no cells, and the first visible token of a "
                              "left-padded sequence has position 0"},
    [CHECK_FAULT_LAST_CELL] = {"block-position-last", "the block keys are rotated at their block's last cell",
                               "rotate a block key at the position of the block's FIRST cell"},
    [CHECK_FAULT_BLOCK_NUMBER] = {"block-position-number", "the block keys are rotated at the block's number",
                                  "rotate a block key at the position of the block's first cell, ratio times larger"},
    [CHECK_FAULT_POOL_AFTER_NORM] = {"pool-after-norm", "the index keys are normed before they are pooled",
                                     "take the mean of the block's RAW index keys, then norm the mean, then rotate it"},
    [CHECK_FAULT_POOL_AFTER_ROPE] = {"pool-after-rope", "the index keys are normed and rotated before they are pooled",
                                     "take the mean of the block's RAW index keys, then norm the mean, then rotate it "
                                     "at the block's first cell"},
    [CHECK_FAULT_POOL_FIRST] = {"pool-first-cell", "a block's key is made of its first cell alone",
                                "take the mean of the raw index keys of all cells of the block"},
    [CHECK_FAULT_LATE_MASK] = {"blocks-of-padding", "the blocks are made of physical tokens, masked ones included",
                               "blocks are made of cells: of the visible tokens by rank"},
    [CHECK_FAULT_SCORE_UNSCALED] = {"score-unscaled", "the scores are not divided by sqrt(index_dim)",
                                    "divide the sum over the index heads by sqrt(index_dim), in float32; the selection "
                                    "hardly changes by it"},
    [CHECK_FAULT_SCORE_NO_RELU] = {"score-without-relu", "the scores add the index heads without ReLU",
                                   "apply ReLU to each index head's dot product before adding"},
    [CHECK_FAULT_SCORE_LATE_RELU] = {"score-relu-of-sum", "ReLU is applied to the sum over the index heads",
                                     "apply ReLU to each index head's dot product before adding"},
    [CHECK_FAULT_SCORE_MEAN] = {"score-mean", "the scores are a mean over the index heads", "add the heads up"},
    [CHECK_FAULT_SCORE_UNMASKED] = {"score-unmasked", "blocks that the row has not completed yet have scores",
                                    "a row with n cells has n / ratio blocks; the others are -inf. If only the dump "
                                    "lacks the mask, write -inf there"},
    [CHECK_FAULT_CUT] = {"width-cut",
                         "the 2051 rule: exactly min(n, budget + ratio - 1) cells are attended, the last "
                         "block cut",
                         "take the min(K, n / ratio) best whole blocks and the n % ratio cells of the tail: budget + "
                         "n % ratio cells, not a constant"},
    [CHECK_FAULT_BUDGET] = {"width-budget", "exactly min(n, budget) cells are attended, the tail counted",
                            "the tail comes on top: budget + n % ratio cells, once n is above budget + ratio - 1"},
    [CHECK_FAULT_NO_TAIL] = {"tail-missing", "the tail is missing: the n % ratio cells of the block that is still open",
                             "every row attends its tail, its own cell included, whatever the scores say"},
    [CHECK_FAULT_TAIL_LESS] = {"tail-costs-a-block", "the tail takes a block's place: K - 1 blocks and the tail",
                               "take min(K, n / ratio) blocks; the tail comes on top"},
    [CHECK_FAULT_NOT_SELF] = {"self-missing", "the row's own cell is not attended",
                              "a row with n cells sees cells 0 to n - 1, its own included: append before attending"},
    [CHECK_FAULT_ALL] = {"selection-missing", "every cell is attended: no selection takes place",
                         "above budget + ratio - 1 cells, a row attends its best blocks and its tail only"},
    [CHECK_FAULT_LAST] = {"selection-recent", "the last blocks are attended, whatever they score",
                          "take the blocks of highest score"},
    [CHECK_FAULT_MODULO] = {"kv-head-modulo", "query head h reads KV head h % G",
                            "query head h reads KV head h / (H / G): repeat_interleave, not repeat"},
    [CHECK_FAULT_UNSCALED] = {"logits-unscaled", "the attention logits are not divided by sqrt(head_dim)",
                              "multiply q . k by 1 / sqrt(head_dim) before the softmax"},
    [CHECK_FAULT_INDEX_SCALE] = {"logits-index-scale", "the attention logits are divided by sqrt(index_dim)",
                                 "divide by sqrt(head_dim); sqrt(index_dim) belongs to the scores"},
    [CHECK_FAULT_KV] = {"cache-format", "keys and values were rounded to a cache format first",
                        "nothing may be wrong: say the format with --kv, and the comparison allows for it"},
    [CHECK_FAULT_GATE_EARLY] = {"attn-gated", "attn was dumped after the gate", "dump attn before the gate"},
    [CHECK_FAULT_GATE_TWICE] = {"gate-twice", "attn is gated, and out is gated again", "apply the gate once"},
    [CHECK_FAULT_GATE_NONE] = {"gate-missing", "the gate is missing",
                               "multiply the attention by sigmoid(gate) before o_proj; per head, q_proj gives head_dim "
                               "numbers of the query and then head_dim of the gate"},
    [CHECK_FAULT_GATE_SILU] = {"gate-silu", "the gate is a SiLU: o * g * sigmoid(g)", "multiply by sigmoid(g) alone"},
    [CHECK_FAULT_SPLIT_Q] = {"q-gate-layout", "q_proj is split into all queries and then all gates",
                             "its rows are [query | gate] per head: head h begins at row h * 2 * head_dim"},
    [CHECK_FAULT_NO_BIAS] = {"bias-missing", "%W has a bias that is not added", "add %W.bias"},
};

const char *check_fault_id(const check_fault *fault) {
    return entries[fault->kind].id;
}

// The words for %N, %V and %W.
static const char *word_for(char letter, const check_fault *fault) {
    static const char *const norms[] = {"q_norm", "indexer.q_layernorm", "k_norm", "indexer.k_layernorm"};
    static const char *const vectors[] = {"the queries", "the indexer's queries", "the keys", "the block keys"};
    const bool all = fault->place == CHECK_EVERYWHERE;
    switch (letter) {
    case 'N':
        return all ? "all four norms" : norms[fault->place];
    case 'V':
        return all ? "queries, keys, indexer's queries and block keys" : vectors[fault->place];
    case 'W':
        return layer_weight_name((layer_weight)fault->number);
    default:
        return NULL;
    }
}

static void expand(const char *text, const check_fault *fault, char *to, size_t size) {
    size_t used = 0;
    for (; *text && used + 1 < size; text++) {
        const char *word = *text == '%' ? word_for(text[1], fault) : NULL;
        if (word) {
            used += (size_t)snprintf(to + used, size - used, "%s", word);
            used = used < size ? used : size - 1;
            text++;
        } else {
            to[used++] = *text;
        }
    }
    to[used] = 0;
}

check_words check_fault_words(const check_fault *fault, const qsa_geometry *geometry) {
    check_words words = {0};
    char more[192] = "";
    char text[512];
    if (fault->kind == CHECK_FAULT_THETA) {
        snprintf(more, sizeof more, " (%g, the model has %g)", fault->number, geometry->theta);
    } else if (fault->kind == CHECK_FAULT_KV) {
        snprintf(more, sizeof more, " (%s)", tool_type_name((qsa_type)fault->number));
    } else if (fault->kind == CHECK_FAULT_CUT) {
        snprintf(more, sizeof more, " (here %d)", geometry->budget + geometry->ratio - 1);
    }
    snprintf(text, sizeof text, "%s%s", entries[fault->kind].cause, more);
    expand(text, fault, words.cause, sizeof words.cause);
    expand(entries[fault->kind].cure, fault, words.cure, sizeof words.cure);
    return words;
}
