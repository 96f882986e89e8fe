// SPDX-License-Identifier: Apache-2.0
//
// Views of stored tensors and their conversion. F32, F16 and BF16 go through st_to_f32, which takes data at any alignment.
#include "io/stored_tensor.h"

#include "num/num.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { Q8_GROUP = 32, Q8_BYTES = 34 }; // a half-precision scale, then the codes

stored_tensor stored_of_st(const st_tensor *t) {
    stored_tensor s = {.name = t->name, .n_dims = t->n_dims, .count = t->count, .data = t->data};
    s.encoding = t->dtype == ST_F32       ? STORED_F32
                 : t->dtype == ST_F16     ? STORED_F16
                 : t->dtype == ST_BF16    ? STORED_BF16
                 : t->dtype == ST_F8_E4M3 ? STORED_F8_E4M3
                                          : STORED_OTHER;
    snprintf(s.type, sizeof s.type, "%s", st_dtype_name(t->dtype));
    memcpy(s.shape, t->shape, sizeof s.shape);
    return s;
}

stored_tensor stored_of_gguf(const gguf_tensor *t) {
    stored_tensor s = {.name = t->name, .n_dims = t->n_dims, .count = t->count, .data = t->data};
    s.encoding = t->type == GGUF_TENSOR_F32    ? STORED_F32
                 : t->type == GGUF_TENSOR_F16  ? STORED_F16
                 : t->type == GGUF_TENSOR_BF16 ? STORED_BF16
                 : t->type == GGUF_TENSOR_Q8_0 ? STORED_Q8_0
                                               : STORED_OTHER;
    snprintf(s.type, sizeof s.type, "%s", gguf_tensor_type(t->type).text);
    memcpy(s.shape, t->shape, sizeof t->shape);
    return s;
}

bool stored_set_scales(stored_tensor *t, const st_tensor *scales, io_error err) {
    const int64_t block = STORED_FP8_BLOCK;
    const io_quoted name = io_quote_string(scales->name);
    if (scales->dtype != ST_F32 && scales->dtype != ST_F16 && scales->dtype != ST_BF16)
        return io_fail(err, "%s has the type %s, expected F32, F16 or BF16", name.text, st_dtype_name(scales->dtype));
    const int64_t rows = (t->shape[0] + block - 1) / block, columns = (t->shape[1] + block - 1) / block;
    if (t->n_dims != 2 || scales->n_dims != 2 || scales->shape[0] != rows || scales->shape[1] != columns)
        return io_fail(err,
                       "%s has %d dimensions, [%" PRId64 ", %" PRId64 "], expected [%" PRId64 ", %" PRId64
                       "]: a scale for each block of 128 x 128",
                       name.text, scales->n_dims, scales->shape[0], scales->shape[1], rows, columns);
    t->scales = scales;
    return true;
}

float stored_f8_value(uint8_t bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    float value = exponent == 15 && fraction == 7 ? NAN
                  : exponent == 0                 ? (float)fraction * 0x1p-9f
                                                  : ldexpf((float)(8 + fraction), exponent - 10);
    return bits & 0x80 ? -value : value;
}

static bool f8_to_f32(const stored_tensor *t, float *out, io_error err) {
    const int64_t rows = t->shape[0], columns = t->shape[1], block = STORED_FP8_BLOCK;
    if (t->scales == NULL)
        return io_fail(err, "%s of F8_E4M3 has no block scales", io_quote_string(t->name).text);
    float values[256];
    float *scales = io_alloc((size_t)t->scales->count * sizeof *scales);
    if (scales == NULL || !st_to_f32(t->scales, scales, NULL, 0)) {
        io_free(scales);
        return io_fail(err, "out of memory");
    }
    for (int i = 0; i < 256; i++)
        values[i] = stored_f8_value((uint8_t)i);
    for (int64_t r = 0; r < rows; r++) {
        const float *scale = scales + r / block * t->scales->shape[1];
        for (int64_t c = 0; c < columns; c++)
            out[r * columns + c] = values[t->data[r * columns + c]] * scale[c / block];
    }
    io_free(scales);
    return true;
}

static void q8_to_f32(const stored_tensor *t, float *out) {
    for (int64_t group = 0; group < t->count / Q8_GROUP; group++) {
        const unsigned char *p = t->data + (size_t)group * Q8_BYTES;
        uint16_t half;
        memcpy(&half, p, sizeof half);
        const float scale = qsa_f32_of_f16(half);
        for (int i = 0; i < Q8_GROUP; i++)
            out[group * Q8_GROUP + i] = (float)(int8_t)p[2 + i] * scale;
    }
}

bool stored_to_f32(const stored_tensor *t, float *out, io_error err) {
    st_tensor plain = {.name = t->name, .n_dims = 1, .shape = {t->count}, .count = t->count, .data = t->data};
    switch (t->encoding) {
    case STORED_F32:
        plain.dtype = ST_F32;
        break;
    case STORED_F16:
        plain.dtype = ST_F16;
        break;
    case STORED_BF16:
        plain.dtype = ST_BF16;
        break;
    case STORED_F8_E4M3:
        return f8_to_f32(t, out, err);
    case STORED_Q8_0:
        q8_to_f32(t, out);
        return true;
    default:
        return io_fail(err, "%s has the type %s, which is not read", io_quote_string(t->name).text, t->type);
    }
    plain.bytes = (size_t)t->count * st_dtype_size(plain.dtype);
    return st_to_f32(&plain, out, err.text, err.size);
}
