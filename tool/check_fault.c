// SPDX-License-Identifier: Apache-2.0
//
// The list of faults and what each changes in a variant.

#include "check_fault.h"

#include <string.h>

static bool local(check_kind kind) {
    return kind <= CHECK_FAULT_PHYSICAL;
}

static void add(check_fault *list, int *count, check_kind kind, int place, double number) {
    list[(*count)++] = (check_fault){kind, place, number};
}

int check_faults(const layer_file *file, check_fault list[static CHECK_MAX_FAULTS]) {
    static const double thetas[] = {1e4, 5e5, 1e6, 5e6, 1e7, 1e8};
    const qsa_type formats[] = {QSA_F16, QSA_BF16, QSA_I8};
    static const int places[] = {CHECK_Q, CHECK_INDEX_Q, CHECK_K, CHECK_BLOCK_KEY, CHECK_EVERYWHERE};
    int count = 0;
    for (int p = 0; p < 5; p++) {
        for (int kind = 0; local((check_kind)kind); kind++) {
            if (kind != CHECK_FAULT_THETA) {
                add(list, &count, (check_kind)kind, places[p], 0);
            }
        }
        for (size_t i = 0; i < sizeof thetas / sizeof *thetas; i++) {
            if (thetas[i] != file->geometry.theta) {
                add(list, &count, CHECK_FAULT_THETA, places[p], thetas[i]);
            }
        }
    }
    for (int kind = CHECK_FAULT_PHYSICAL + 1; kind < CHECK_FAULT_NO_BIAS; kind++) {
        if (kind != CHECK_FAULT_KV) {
            add(list, &count, (check_kind)kind, CHECK_EVERYWHERE, 0);
        }
    }
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        add(list, &count, CHECK_FAULT_KV, CHECK_EVERYWHERE, formats[i]);
    }
    for (int w = 0; w < LAYER_WEIGHTS; w++) {
        if (file->bias[w].parts) {
            add(list, &count, CHECK_FAULT_NO_BIAS, CHECK_EVERYWHERE, w);
        }
    }
    return count;
}

static void apply_norm(check_kind kind, check_norm *norm) {
    static const check_norm forms[] = {CHECK_NORM_NO_ONE, CHECK_NORM_TWO, CHECK_NORM_NO_GAIN, CHECK_NORM_NONE};
    *norm = forms[kind - CHECK_FAULT_NO_ONE];
}

static void apply_rope(const check_fault *fault, check_rope *rope) {
    switch (fault->kind) {
    case CHECK_FAULT_NO_ROPE:
        rope->pairs = CHECK_PAIRS_NONE;
        break;
    case CHECK_FAULT_THETA:
        rope->theta = fault->number;
        break;
    case CHECK_FAULT_ONE_ROUNDING:
        rope->rounding = CHECK_FREQ_ONE;
        break;
    case CHECK_FAULT_ANGLES_F64:
        rope->rounding = CHECK_FREQ_F64;
        break;
    case CHECK_FAULT_ANGLES_CHAIN:
        rope->rounding = CHECK_FREQ_CHAIN;
        break;
    case CHECK_FAULT_INTERLEAVED:
        rope->pairs = CHECK_PAIRS_INTERLEAVED;
        break;
    case CHECK_FAULT_WHOLE_HEAD:
        rope->pairs = CHECK_PAIRS_WHOLE;
        break;
    case CHECK_FAULT_TEMPORAL:
        rope->axes = CHECK_AXES_TEMPORAL;
        break;
    case CHECK_FAULT_CONTIGUOUS:
        rope->axes = CHECK_AXES_CONTIGUOUS;
        break;
    case CHECK_FAULT_RANK:
        rope->position = CHECK_POSITION_RANK;
        break;
    case CHECK_FAULT_PHYSICAL:
        rope->position = CHECK_POSITION_PHYSICAL;
        break;
    default:
        break;
    }
}

static void apply_local(const check_fault *fault, check_variant *variant) {
    for (int place = 0; place < CHECK_PLACES; place++) {
        if (fault->place != CHECK_EVERYWHERE && fault->place != place) {
            continue;
        }
        if (fault->kind == CHECK_FAULT_RAW) {
            variant->norm[place] = CHECK_NORM_NONE;
            variant->rope[place].pairs = CHECK_PAIRS_NONE;
        } else if (fault->kind <= CHECK_FAULT_NO_NORM) {
            apply_norm(fault->kind, &variant->norm[place]);
        } else {
            apply_rope(fault, &variant->rope[place]);
        }
    }
}

void check_fault_apply(const check_fault *fault, check_variant *variant) {
    const check_kind kind = fault->kind;
    if (local(kind)) {
        apply_local(fault, variant);
    } else if (kind == CHECK_FAULT_LAST_CELL) {
        variant->rope[CHECK_BLOCK_KEY].position = CHECK_POSITION_LAST;
    } else if (kind == CHECK_FAULT_BLOCK_NUMBER) {
        variant->rope[CHECK_BLOCK_KEY].position = CHECK_POSITION_BLOCK;
    } else if (kind <= CHECK_FAULT_POOL_FIRST) {
        variant->pool = (check_pool)(CHECK_POOL_AFTER_NORM + (kind - CHECK_FAULT_POOL_AFTER_NORM));
    } else if (kind == CHECK_FAULT_LATE_MASK) {
        variant->late_mask = true;
    } else if (kind <= CHECK_FAULT_SCORE_UNMASKED) {
        variant->score = (check_score)(CHECK_SCORE_UNSCALED + (kind - CHECK_FAULT_SCORE_UNSCALED));
    } else if (kind <= CHECK_FAULT_LAST) {
        variant->select = (check_select)(CHECK_SELECT_CUT + (kind - CHECK_FAULT_CUT));
    } else if (kind <= CHECK_FAULT_INDEX_SCALE) {
        variant->attend = (check_attend)(CHECK_ATTEND_MODULO + (kind - CHECK_FAULT_MODULO));
    } else if (kind == CHECK_FAULT_KV) {
        variant->kv = (qsa_type)fault->number;
    } else if (kind == CHECK_FAULT_GATE_EARLY) {
        variant->gate = CHECK_GATE_EARLY;
    } else if (kind == CHECK_FAULT_GATE_TWICE) {
        variant->gate = CHECK_GATE_TWICE;
    } else if (kind == CHECK_FAULT_GATE_NONE) {
        variant->gate = CHECK_GATE_NONE;
    } else if (kind == CHECK_FAULT_GATE_SILU) {
        variant->gate = CHECK_GATE_SILU;
    } else if (kind == CHECK_FAULT_SPLIT_Q) {
        variant->split_q = true;
    } else if (kind == CHECK_FAULT_NO_BIAS) {
        variant->no_bias[(int)fault->number] = true;
    }
}

unsigned check_fault_homes(const check_fault *fault) {
    static const result_tensor of_place[CHECK_PLACES] = {RESULT_Q, RESULT_INDEX_Q, RESULT_K, RESULT_SCORES};
    static const unsigned of_weight[LAYER_WEIGHTS] = {
        1U << RESULT_Q, 1U << RESULT_K, 1U << RESULT_V, 1U << RESULT_INDEX_Q | 1U << RESULT_SCORES, 1U << RESULT_OUT,
    };
    const check_kind kind = fault->kind;
    if (local(kind)) {
        return fault->place == CHECK_EVERYWHERE
                   ? 1U << RESULT_Q | 1U << RESULT_INDEX_Q | 1U << RESULT_K | 1U << RESULT_SCORES
                   : 1U << of_place[fault->place];
    }
    if (kind <= CHECK_FAULT_SCORE_UNMASKED) {
        return 1U << RESULT_SCORES;
    }
    if (kind <= CHECK_FAULT_LAST) {
        return 1U << RESULT_SELECTED;
    }
    if (kind <= CHECK_FAULT_GATE_TWICE) {
        return 1U << RESULT_ATTN;
    }
    if (kind <= CHECK_FAULT_GATE_SILU) {
        return 1U << RESULT_OUT;
    }
    return kind == CHECK_FAULT_SPLIT_Q ? 1U << RESULT_Q : of_weight[(int)fault->number];
}

const char *check_fault_place(const check_fault *fault) {
    static const char *const names[CHECK_PLACES] = {"q", "index_q", "k", "block_key"};
    return !local(fault->kind) ? "" : fault->place == CHECK_EVERYWHERE ? "all" : names[fault->place];
}
