// SPDX-License-Identifier: Apache-2.0
//
// Encoders of the forms. They are the inverses of stored_to_f32 up to the form's rounding.

#include "make_form.h"

#include "num/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32, GROUP_BYTES = 34 };

static void put_halves(bool f16, const float *values, size_t count, uint16_t *out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = f16 ? qsa_f16_of_f32(values[i]) : qsa_bf16_of_f32(values[i]);
    }
}

// The scale is rounded first, and the codes are made with what was stored.
static void put_q8(const float *values, size_t count, unsigned char *out) {
    for (size_t g = 0; g < count / GROUP; g++) {
        const float *x = values + g * GROUP;
        float most = 0;
        for (int i = 0; i < GROUP; i++) {
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        const uint16_t half = qsa_f16_of_f32(most / 127);
        const float scale = qsa_f32_of_f16(half);
        memcpy(out + g * GROUP_BYTES, &half, sizeof half);
        for (int i = 0; i < GROUP; i++) {
            const float code = scale > 0 ? rintf(x[i] / scale) : 0;
            const int8_t clamped = (int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
            memcpy(out + g * GROUP_BYTES + 2 + i, &clamped, 1);
        }
    }
}

void *make_form(stored_encoding encoding, const float *values, size_t count, tool_error *error) {
    const bool q8 = encoding == STORED_Q8_0;
    const size_t bytes = encoding == STORED_F32 ? count * sizeof *values : q8 ? count / GROUP * GROUP_BYTES : 2 * count;
    void *out = tool_array(bytes, 1, false, error);
    if (!out) {
        return NULL;
    }
    if (encoding == STORED_F32) {
        memcpy(out, values, bytes);
    } else if (q8) {
        put_q8(values, count, out);
    } else {
        put_halves(encoding == STORED_F16, values, count, out);
    }
    return out;
}

uint8_t make_f8(float x) {
    const uint8_t sign = signbit(x) ? 0x80 : 0;
    const float size = fabsf(x);
    if (isnan(x)) {
        return sign | 0x7f;
    }
    if (size >= 448) {
        return sign | 0x7e;
    }
    // Numbers of one exponent are a step apart; below 2^-6 the step is that of the subnormals, 2^-9.
    int exponent = 0;
    frexpf(size, &exponent); // size = fraction in [1/2, 1) * 2^exponent
    exponent = size < 0x1p-6F ? -6 : exponent - 1;
    const int steps = (int)rintf(ldexpf(size, 3 - exponent)); // 8 to 16 for normal ones
    return sign | (uint8_t)((exponent + 6) * 8 + steps);
}

// One block: its scale, and the codes of its rows.
static float put_fp8(const float *values, int64_t columns, int64_t rows, int64_t width, unsigned char *out) {
    float most = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < width; c++) {
            const float size = fabsf(values[r * columns + c]);
            most = size > most ? size : most;
        }
    }
    const float scale = most > 0 ? most / 448 : 1;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < width; c++) {
            out[r * columns + c] = make_f8(values[r * columns + c] / scale);
        }
    }
    return scale;
}

void *make_form_fp8(const float *values, int64_t rows, int64_t columns, float **scales, tool_error *error) {
    const int64_t block = STORED_FP8_BLOCK;
    const int64_t across = (columns + block - 1) / block;
    unsigned char *out = tool_array((size_t)(rows * columns), 1, false, error);
    *scales = out ? tool_array((size_t)((rows + block - 1) / block * across), sizeof **scales, false, error) : NULL;
    if (!*scales) {
        free(out);
        return NULL;
    }
    for (int64_t r = 0; r < rows; r += block) {
        for (int64_t c = 0; c < columns; c += block) {
            const int64_t height = rows - r < block ? rows - r : block;
            const int64_t width = columns - c < block ? columns - c : block;
            (*scales)[r / block * across + c / block] =
                put_fp8(values + r * columns + c, columns, height, width, out + r * columns + c);
        }
    }
    return out;
}
