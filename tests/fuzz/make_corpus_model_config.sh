#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the seeds of fuzz_model_config into corpus/model_config.
set -eu
mkdir -p "$(dirname "$0")/corpus/model_config"
cd "$(dirname "$0")/corpus/model_config"

seed() { # NAME TEXT
    printf '%s' "$2" >"$1"
}

rope='"rope_parameters":{"rope_type":"default","rope_theta":1e7,"partial_rotary_factor":0.25,"mrope_section":[2,1,1],"mrope_interleaved":true}'
heads='"num_attention_heads":6,"num_key_value_heads":2,"head_dim":32'
indexer='"indexer_n_heads":2,"indexer_kv_heads":1,"indexer_head_dim":16,"indexer_budget":16,"indexer_compress_ratio":4'
text="\"hidden_size\":64,$heads,$indexer,\"rms_norm_eps\":1e-6,$rope"
fp8='"quantization_config":{"quant_method":"fp8","fmt":"e4m3","weight_block_size":[128,128]}'
types='"layer_types":["linear_attention","full_attention","qwen_sparse_attention","linear_attention"]'
nested() { # INSIDE OUTSIDE
    printf '{"model_type":"qwen4_exp","text_config":{"model_type":"qwen4_exp_text",%s},"dtype":"bfloat16"%s}' "$1" "$2"
}

seed valid "$(nested "$text,\"num_hidden_layers\":4" '')"
seed valid_types "$(nested "$text,\"num_hidden_layers\":4,$types" '')"
seed valid_fp8 "$(nested "$text,\"num_hidden_layers\":48,\"full_attention_interval\":3" ",$fp8")"
seed valid_flat "{\"model_type\":\"qwen4_exp_text\",$text,\"num_hidden_layers\":8,\"torch_dtype\":\"float32\"}"
seed no_indexer "$(nested "\"hidden_size\":64,$heads,\"rms_norm_eps\":1e-6,$rope,\"num_hidden_layers\":4" '')"
seed types_short "$(nested "$text,\"num_hidden_layers\":5,$types" '')"
seed types_other "$(nested "$text,\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]" '')"
seed other_model "{\"model_type\":\"llama\",$text,\"num_hidden_layers\":4}"
seed other_quantization "$(nested "$text,\"num_hidden_layers\":4" ',"quantization_config":{"quant_method":"gptq"}')"
seed other_block "$(nested "$text,\"num_hidden_layers\":4" ',"quantization_config":{"quant_method":"fp8","weight_block_size":[64,64]}')"
seed many_layers "$(nested "$text,\"num_hidden_layers\":1000000000" '')"
seed text_number '{"model_type":"qwen4_exp","text_config":3}'
seed duplicate '{"model_type":"qwen4_exp","model_type":"qwen4_exp"}'
seed deep '[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[['
seed not_json 'qwen4_exp'
