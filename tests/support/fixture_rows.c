// SPDX-License-Identifier: Apache-2.0
//
// Arrays of rows in every type and layout, and the encoding of floats that are exact in it.
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t fx_element(qsa_type type) {
    return type == QSA_F32 ? 4 : 2;
}

// NaN and infinity have codes of their own; numbers are multiples of 2^-24 below 2^16 here.
static uint16_t exact_half(float x) {
    if (isnan(x))
        return 0x7e00;
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isinf(x))
        return (uint16_t)(sign | 0x7c00);
    if (x == 0)
        return sign;
    int exponent;
    const float fraction = frexpf(fabsf(x), &exponent); // 0.5..1
    const float mantissa = fraction * 2048;             // 11 bits
    if (exponent < -13 || exponent > 16 || mantissa != (float)(int)mantissa)
        fx_die(__FILE__, __LINE__, "a number that is not exact in f16");
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)mantissa - 1024));
}

void fx_encode(float x, qsa_type type, void *to) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == QSA_F32) {
        memcpy(to, &x, sizeof x);
        return;
    }
    uint16_t code = type == QSA_F16 ? exact_half(x) : (uint16_t)(bits >> 16);
    if (type == QSA_BF16 && (bits & 0xffff))
        fx_die(__FILE__, __LINE__, "a number that is not exact in bf16");
    memcpy(to, &code, sizeof code);
}

fx_rows fx_rows_make(int32_t rows, int32_t heads, int32_t dim, qsa_type type, fx_layout layout) {
    fx_rows r = {.type = type, .rows = rows, .heads = heads, .dim = dim};
    const int64_t vector = (int64_t)dim * (int64_t)fx_element(type);
    r.head_stride = layout == FX_PACKED ? vector : vector + 3;
    r.row_stride = heads * r.head_stride + (layout == FX_PACKED ? 0 : 4);
    const int64_t last = (rows - 1) * r.row_stride + (heads - 1) * r.head_stride;
    const int64_t start = layout == FX_PACKED ? 0 : 1;
    r.bytes = rows ? (size_t)(start + last + vector) : 1;
    r.memory = fx_alloc(r.bytes);
    r.data = r.memory + start;
    if (layout == FX_BACKWARDS) {
        r.data += rows ? last : 0;
        r.head_stride = -r.head_stride;
        r.row_stride = -r.row_stride;
    }
    return r;
}

static unsigned char *element_at(const fx_rows *rows, int32_t row, int32_t head, int32_t d) {
    return rows->data + row * rows->row_stride + head * rows->head_stride +
           (int64_t)d * (int64_t)fx_element(rows->type);
}

void fx_rows_fill(fx_rows *rows, const float *values, const int32_t *tokens) {
    for (int32_t i = 0; i < rows->rows; i++)
        for (int32_t head = 0; head < rows->heads; head++)
            for (int32_t d = 0; d < rows->dim; d++) {
                const size_t at = ((size_t)tokens[i] * (size_t)rows->heads + (size_t)head) * (size_t)rows->dim;
                fx_encode(values[at + (size_t)d], rows->type, element_at(rows, i, head, d));
            }
}

qsa_rows fx_rows_in(const fx_rows *rows) {
    return (qsa_rows){rows->data, rows->type, rows->row_stride, rows->head_stride};
}

qsa_rows_out fx_rows_out(const fx_rows *rows) {
    return (qsa_rows_out){rows->data, rows->type, rows->row_stride, rows->head_stride};
}

void fx_rows_take(fx_rows *rows, int32_t row, unsigned char *to) {
    const size_t vector = (size_t)rows->dim * fx_element(rows->type);
    for (int32_t head = 0; head < rows->heads; head++) {
        memcpy(to + (size_t)head * vector, element_at(rows, row, head, 0), vector);
        memset(element_at(rows, row, head, 0), FX_PATTERN, vector);
    }
}

void fx_rows_check_and_free(fx_rows *rows) {
    for (size_t i = 0; i < rows->bytes; i++)
        if (rows->memory[i] != FX_PATTERN)
            fx_die(__FILE__, __LINE__, "bytes beside the output rows were written");
    free(rows->memory);
}
