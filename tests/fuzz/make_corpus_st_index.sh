#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the seeds of fuzz_st_index into corpus/st_index.
set -eu
mkdir -p "$(dirname "$0")/corpus/st_index"
cd "$(dirname "$0")/corpus/st_index"

seed() { # NAME TEXT
    printf '%s' "$2" >"$1"
}

one=model-00001-of-00002.safetensors
two=model-00002-of-00002.safetensors
seed valid "{\"metadata\": {\"total_size\": 12}, \"weight_map\": {\"a.weight\": \"$one\", \"b.weight\": \"$two\"}}"
seed valid_empty '{"weight_map":{}}'
seed valid_escapes "{\"weight_map\":{\"\\u00e9\\\"\\\\\":\"$one\"},\"other\":[1,{\"a\":[]},\"}\"]}"
seed no_map '{"metadata":{}}'
seed two_maps '{"weight_map":{},"weight_map":{}}'
seed duplicate "{\"weight_map\":{\"a\":\"$one\",\"a\":\"$two\"}}"
seed parent '{"weight_map":{"a":"../model.safetensors"}}'
seed parent_escaped '{"weight_map":{"a":"\u002e\u002e\u002fx"}}'
seed absolute '{"weight_map":{"a":"/etc/passwd"}}'
seed below '{"weight_map":{"a":"b/c.safetensors"}}'
seed hidden '{"weight_map":{"a":".x"}}'
seed empty_name '{"weight_map":{"a":""}}'
seed number '{"weight_map":{"a":1}}'
seed truncated '{"weight_map":{"a":"x.safetens'
seed deep '{"m":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],"weight_map":{}}'
seed not_json 'weight_map'
seed trailing '{"weight_map":{}} x'
