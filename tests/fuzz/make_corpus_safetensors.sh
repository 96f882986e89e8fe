#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the seeds of fuzz_safetensors into corpus/safetensors: whole files (a header's size in
# front, which must stay below 256 here) and bare header text with data after a NUL byte.
set -eu
cd "$(dirname "$0")/corpus/safetensors"

file() { # NAME HEADER DATA
    printf '%b' "\\0$(printf %o "${#2}")\\0\\0\\0\\0\\0\\0\\0" >"$1"
    printf '%s%s' "$2" "$3" >>"$1"
}

text() { # NAME HEADER DATA
    printf '%s\0%s' "$2" "$3" >"$1"
}

f32='"dtype":"F32","shape"'
file valid_empty '{}' ''
file valid_one "{\"q\":{$f32:[2,1],\"data_offsets\":[0,8]}}  " 12345678
file valid_metadata '{"__metadata__":{"config":"{\"a\": 1}","k":""}}' ''
file valid_scalar '{"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}' 12345678
file truncated_header '{"q":{"dtype":"F32","shape":[2,' ''
truncate -s 20 truncated_header
file truncated_data "{\"q\":{$f32:[2],\"data_offsets\":[0,8]}}" 1234
file trailing_data "{\"q\":{$f32:[1],\"data_offsets\":[0,4]}}" 12345678
file not_json 'not json' ''
printf '' >empty
printf '\377\377\377\377\377\377\377\377{}' >header_size_huge
printf '\0\0\0\0\0\0\0\0{}' >header_size_0
printf '# A heading\n\nA text.\n' >readme
text text_two "{\"a\":{$f32:[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]}}" 123456
text text_halves '{"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]},"d":{"dtype":"F64","shape":[0],"data_offsets":[4,4]}}' 1234
text text_escapes '{"\u00e9\n\"\\":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}' 1
text text_overlap "{\"a\":{$f32:[1],\"data_offsets\":[0,4]},\"b\":{$f32:[1],\"data_offsets\":[2,6]}}" 123456
text text_hole "{\"a\":{$f32:[1],\"data_offsets\":[0,4]},\"b\":{$f32:[1],\"data_offsets\":[6,10]}}" 1234567890
text text_duplicate "{\"a\":{$f32:[0],\"data_offsets\":[0,0]},\"a\":{$f32:[0],\"data_offsets\":[0,0]}}" ''
text text_unknown_key "{\"a\":{$f32:[0],\"data_offsets\":[0,0],\"x\":null}}" ''
text text_overflow "{\"a\":{$f32:[4294967296,4294967296],\"data_offsets\":[0,4]}}" 1234
text text_nested '{"a":{"shape":[[[[[[[[1]]]]]]]]}}' ''
text text_metadata_number '{"__metadata__":{"k":1}}' ''
