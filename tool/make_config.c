// SPDX-License-Identifier: Apache-2.0
//
// config.json of a made-up checkpoint. It has the fields that the official configuration class checks, so that this class
// takes it; what describes parts that are not there (experts, linear attention) is as small as it may be.

#include "layer_config.h"
#include "make_checkpoint.h"

#include <jansson.h>

static json_t *layer_types(const make_plan *plan) {
    json_t *types = json_array();
    for (int32_t i = 0; i < plan->layers; i++) {
        // The name that the shipped checkpoints have for a QSA layer.
        json_array_append_new(types, json_string((i + 1) % MAKE_INTERVAL ? "linear_attention" : "full_attention"));
    }
    return types;
}

static const char *dtype(const make_plan *plan) {
    return plan->encoding == STORED_F32 ? "float32" : plan->encoding == STORED_F16 ? "float16" : "bfloat16";
}

char *make_config(const make_plan *plan, tool_error *error) {
    json_t *text = layer_config_make(&plan->geometry, plan->hidden);
    json_t *rest = json_pack(
        "{s:s, s:i, s:o, s:i, s:b, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
        "model_type", "qwen4_exp_text", "num_hidden_layers", (int)plan->layers, "layer_types", layer_types(plan),
        "full_attention_interval", MAKE_INTERVAL, "attention_bias", 0, "hidden_act", "silu", "output_gate_type",
        "sigmoid", "dtype", dtype(plan), "vocab_size", 256, "max_position_embeddings", 262144, "num_experts", 2,
        "num_experts_per_tok", 1, "moe_intermediate_size", 32, "shared_expert_intermediate_size", 32, "hc_count", 4,
        "hc_lowrank", 8, "linear_num_key_heads", 1, "linear_num_value_heads", 1, "linear_key_head_dim", 32,
        "linear_value_head_dim", 32);
    json_object_update(text, rest);
    json_decref(rest);
    json_t *root = json_pack("{s:s, s:[s], s:s, s:b, s:o}", "model_type", "qwen4_exp", "architectures",
                             "Qwen4ExpForConditionalGeneration", "dtype", dtype(plan), "tie_word_embeddings", 0,
                             "text_config", text);
    if (root && plan->encoding == STORED_F8_E4M3) {
        json_object_set_new(root, "quantization_config",
                            json_pack("{s:s, s:s, s:[i, i], s:s}", "quant_method", "fp8", "fmt", "e4m3",
                                      "weight_block_size", STORED_FP8_BLOCK, STORED_FP8_BLOCK, "activation_scheme",
                                      "dynamic"));
    }
    char *out = root ? json_dumps(root, JSON_INDENT(2) | LAYER_CONFIG_DUMP) : NULL;
    json_decref(root);
    if (!out) {
        tool_fail(error, "no memory for config.json");
    }
    return out;
}
