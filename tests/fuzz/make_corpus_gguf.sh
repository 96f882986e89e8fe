#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the seeds of fuzz_gguf into corpus/gguf: files of a few hundred bytes, put together from the pieces below.
set -eu
mkdir -p "$(dirname "$0")/corpus/gguf"
cd "$(dirname "$0")/corpus/gguf"

# Little-endian numbers below 2^16, as text for printf %b.
u16() { printf '\\0%03o\\0%03o' $(($1 % 256)) $(($1 / 256)); }
u32() { printf '%s\\0000\\0000' "$(u16 "$1")"; }
u64() { printf '%s\\0000\\0000\\0000\\0000' "$(u32 "$1")"; }
text() { printf '%s%s' "$(u64 ${#1})" "$1"; }
head_of() { printf 'GGUF%s%s%s' "$(u32 3)" "$(u64 "$1")" "$(u64 "$2")"; } # TENSORS VALUES
value_u32() { printf '%s%s%s' "$(text "$1")" "$(u32 4)" "$(u32 "$2")"; }
value_f32() { printf '%s%s%s' "$(text "$1")" "$(u32 6)" "$2"; } # KEY BYTES
value_text() { printf '%s%s%s' "$(text "$1")" "$(u32 8)" "$(text "$2")"; }
array() { printf '%s%s%s%s' "$(text "$1")" "$(u32 9)" "$(u32 "$2")" "$(u64 "$3")"; } # KEY TYPE COUNT, elements follow
tensor1() { printf '%s%s%s%s%s' "$(text "$1")" "$(u32 1)" "$(u64 "$2")" "$(u32 "$3")" "$(u64 "$4")"; } # NAME DIM TYPE OFFSET
seed() { # NAME BYTES: padded to a multiple of 32, and 128 bytes of data behind
    printf '%b' "$2" >"$1"
    size=$(wc -c <"$1")
    truncate -s $(((size + 31) / 32 * 32)) "$1"
    for _ in 1 2 3 4; do
        printf '0123456789abcdef0123456789abcdef' >>"$1"
    done
}
huge='\0377\0377\0377\0377\0377\0377\0377\0017'

seed empty_model "$(head_of 0 0)"
seed values "$(head_of 0 4)$(value_u32 general.alignment 64)$(value_text a b)$(array c 8 2)$(text x)$(text yz)$(array d 5 2)$(u32 1)$(u32 2)"
seed tensor_f32 "$(head_of 1 0)$(tensor1 t 4 0 0)"
seed tensor_q8 "$(head_of 2 1)$(value_u32 k 1)$(tensor1 q 32 8 0)$(tensor1 h 4 30 64)"
seed tensors_two "$(head_of 2 0)$(tensor1 q 8 1 0)$(tensor1 h 4 0 32)"
seed type_unknown "$(head_of 1 0)$(tensor1 t 4 99 0)"
seed overlap "$(head_of 2 0)$(tensor1 a 16 0 0)$(tensor1 b 4 0 32)"
seed duplicate_tensor "$(head_of 2 0)$(tensor1 a 1 0 0)$(tensor1 a 1 0 32)"
seed duplicate_key "$(head_of 0 2)$(value_u32 a 1)$(value_u32 a 2)"
seed behind_the_end "$(head_of 1 0)$(tensor1 t 64 0 0)"
seed offset_odd "$(head_of 1 0)$(tensor1 t 1 0 4)"
seed alignment_0 "$(head_of 0 1)$(value_u32 general.alignment 0)"
seed array_of_arrays "$(head_of 0 1)$(array a 9 1)$(u32 4)$(u64 1)$(u32 0)"
seed many_tensors "GGUF$(u32 3)$huge$(u64 0)"
seed many_values "GGUF$(u32 3)$(u64 0)$huge"
seed long_key "$(head_of 0 1)$huge"
seed long_array "$(head_of 0 1)$(text a)$(u32 9)$(u32 4)$huge"
seed long_strings "$(head_of 0 1)$(text a)$(u32 9)$(u32 8)$huge"
seed big_dims "$(head_of 1 0)$(text t)$(u32 2)$huge$huge$(u32 0)$(u64 0)"
seed five_dims "$(head_of 1 0)$(text t)$(u32 5)"
seed version_1 "GGUF$(u32 1)$(u64 0)$(u64 0)"
seed big_endian 'GGUF\0000\0000\0000\0003\0000\0000\0000\0000\0000\0000\0000\0000'
a=qwen4exp
eps='\0275\0067\0206\0065' # 1e-6
theta='\0200\0226\0030\0113' # 1e7
seed model "$(head_of 0 15)$(value_text general.architecture $a)$(value_u32 $a.block_count 4)$(value_u32 $a.embedding_length 64)$(value_u32 $a.attention.head_count 6)$(array $a.attention.head_count_kv 5 4)$(u32 0)$(u32 0)$(u32 0)$(u32 2)$(value_u32 $a.attention.key_length 32)$(value_u32 $a.attention.value_length 32)$(value_f32 $a.attention.layer_norm_rms_epsilon "$eps")$(value_u32 $a.attention.indexer.head_count 2)$(value_u32 $a.attention.indexer.key_length 16)$(value_u32 $a.attention.indexer.top_k 16)$(array $a.attention.compress_ratios 5 4)$(u32 0)$(u32 0)$(u32 0)$(u32 4)$(value_u32 $a.rope.dimension_count 8)$(value_f32 $a.rope.freq_base "$theta")$(array $a.rope.dimension_sections 5 4)$(u32 2)$(u32 1)$(u32 1)$(u32 0)"
printf 'GGUF' >magic
printf '# A heading\n' >readme
