// SPDX-License-Identifier: Apache-2.0
//
// GGUF: reading metadata values, and the table of element types. Every value was validated when the file was opened, so
// that its bytes are there.
#include "io/gguf_internal.h"

#include <stdio.h>

// Element types by their number: name, elements that are stored together, bytes of those. NULL: no such type (any more).
static const struct {
    const char *name;
    uint16_t block, bytes;
} types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
};

#define TYPES (sizeof types / sizeof *types)

bool gguf_type_layout(uint32_t type, int64_t *block, size_t *bytes) {
    if (type >= TYPES || types[type].name == NULL)
        return false;
    *block = types[type].block;
    *bytes = types[type].bytes;
    return true;
}

gguf_type_name gguf_tensor_type(uint32_t type) {
    gguf_type_name name;
    if (type < TYPES && types[type].name != NULL)
        snprintf(name.text, sizeof name.text, "%s", types[type].name);
    else
        snprintf(name.text, sizeof name.text, "%u (unknown)", (unsigned)type);
    return name;
}

size_t gguf_value_size(gguf_value_type type) {
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL:
        return 1;
    case GGUF_U16:
    case GGUF_I16:
        return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32:
        return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64:
        return 8;
    default:
        return 0;
    }
}

bool gguf_integer(const gguf_value *value, uint64_t i, int64_t *out) {
    const size_t size = gguf_value_size(value->type);
    if (i >= value->count || size == 0)
        return false;
    uint64_t bits = 0;
    memcpy(&bits, value->data + i * size, size); // little-endian: the low bytes
    switch (value->type) {
    case GGUF_I8:
        *out = (int8_t)bits;
        return true;
    case GGUF_I16:
        *out = (int16_t)bits;
        return true;
    case GGUF_I32:
        *out = (int32_t)bits;
        return true;
    case GGUF_I64:
        *out = (int64_t)bits;
        return true;
    case GGUF_U64:
        *out = (int64_t)(bits & INT64_MAX);
        return bits <= INT64_MAX;
    case GGUF_F32:
    case GGUF_F64:
        return false;
    default:
        *out = (int64_t)bits;
        return true;
    }
}

bool gguf_real(const gguf_value *value, uint64_t i, double *out) {
    float narrow;
    if (i >= value->count)
        return false;
    if (value->type == GGUF_F64) {
        memcpy(out, value->data + i * sizeof *out, sizeof *out);
        return true;
    }
    if (value->type != GGUF_F32)
        return false;
    memcpy(&narrow, value->data + i * sizeof narrow, sizeof narrow);
    *out = narrow;
    return true;
}

bool gguf_string(const gguf_value *value, gguf_text *out) {
    if (value->type != GGUF_STRING || value->array)
        return false;
    *out = (gguf_text){(const char *)value->data + 8, (size_t)gguf_u64(value->data)};
    return true;
}

bool gguf_text_is(gguf_text text, const char *string) {
    return text.size == strlen(string) && memcmp(text.bytes, string, text.size) == 0;
}
