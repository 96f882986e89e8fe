// SPDX-License-Identifier: Apache-2.0
//
// Safetensors: the element types, names and shapes, and the conversions of whole tensors to float
// and int64_t. Conversions go through memcpy: a tensor's data is aligned for nothing.
#include "io/safetensors_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and is used here as it is"
#endif

static const struct {
    const char *name;
    size_t size;
} dtypes[ST_DTYPES] = {
    [ST_F64] = {"F64", 8},         [ST_F32] = {"F32", 4},         [ST_F16] = {"F16", 2},   [ST_BF16] = {"BF16", 2},
    [ST_F8_E4M3] = {"F8_E4M3", 1}, [ST_F8_E5M2] = {"F8_E5M2", 1}, [ST_I64] = {"I64", 8},   [ST_I32] = {"I32", 4},
    [ST_I16] = {"I16", 2},         [ST_I8] = {"I8", 1},           [ST_U64] = {"U64", 8},   [ST_U32] = {"U32", 4},
    [ST_U16] = {"U16", 2},         [ST_U8] = {"U8", 1},           [ST_BOOL] = {"BOOL", 1},
};

static bool is_dtype(st_dtype dtype) {
    return (unsigned)dtype < ST_DTYPES;
}

const char *st_dtype_name(st_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

size_t st_dtype_size(st_dtype dtype) {
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

bool st_measure(st_dtype dtype, int n_dims, const int64_t *shape, int64_t *count, size_t *bytes) {
    int64_t limit = (uintmax_t)INT64_MAX < SIZE_MAX ? INT64_MAX : (int64_t)(SIZE_MAX / 2);
    limit /= (int64_t)dtypes[dtype].size;
    int64_t product = 1; // of the dimensions that are not 0
    bool empty = false;
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] == 0) {
            empty = true;
            continue;
        }
        if (product > limit / shape[i])
            return false;
        product *= shape[i];
    }
    *count = empty ? 0 : product;
    *bytes = (size_t)*count * dtypes[dtype].size;
    return true;
}

bool st_check_name(const char *name, size_t size, io_error err) {
    if (size == 0)
        return io_fail(err, "a tensor's name is empty");
    if (size > ST_MAX_NAME)
        return io_fail(err, "tensor '%s': its name has %zu bytes, the limit is %d", io_quote(name, size).text, size,
                       ST_MAX_NAME);
    if (io_utf8_prefix(name, size) != size)
        return io_fail(err, "tensor '%s': its name is not valid UTF-8", io_quote(name, size).text);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        bool c1 = c == 0xc2 && (unsigned char)name[i + 1] < 0xa0; // U+0080 to U+009F
        if (c < 0x20 || c == 0x7f || c1)
            return io_fail(err, "tensor '%s': its name holds a control character", io_quote(name, size).text);
    }
    return true;
}

st_shape_text st_show_shape(int n_dims, const int64_t *shape) {
    st_shape_text shown;
    size_t n = 0;
    shown.text[n++] = '[';
    for (int i = 0; i < n_dims; i++)
        n += (size_t)snprintf(shown.text + n, sizeof shown.text - n, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    memcpy(shown.text + n, "]", 2);
    return shown;
}

// Every half is a float: exponent 5 to 8 bits, fraction 10 to 23. A NaN keeps its sign and payload.
static uint32_t half_to_float_bits(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
    if (exponent == 31)
        return sign | 0x7f800000u | fraction << 13;
    if (exponent == 0) {
        if (fraction == 0)
            return sign;
        // A subnormal, fraction * 2^-24: shifted until its leading one is the hidden bit.
        exponent = 1;
        while ((fraction & 0x400u) == 0) {
            fraction <<= 1;
            exponent--; // wraps below 0; the sum below is right modulo 2^32
        }
        fraction &= 0x3ffu;
    }
    return sign | (exponent + 112u) << 23 | fraction << 13;
}

static uint16_t load_u16(const unsigned char *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load_u32(const unsigned char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t load_u64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

bool st_to_f32(const st_tensor *tensor, float *out, char *err, size_t err_size) {
    const unsigned char *p = tensor->data;
    uint32_t bits;
    double wide;
    switch (tensor->dtype) {
    case ST_F32:
        if (tensor->bytes > 0)
            memcpy(out, p, tensor->bytes);
        return true;
    case ST_F16:
        for (int64_t i = 0; i < tensor->count; i++) {
            bits = half_to_float_bits(load_u16(p + 2 * i));
            memcpy(&out[i], &bits, sizeof bits);
        }
        return true;
    case ST_BF16:
        for (int64_t i = 0; i < tensor->count; i++) {
            bits = (uint32_t)load_u16(p + 2 * i) << 16;
            memcpy(&out[i], &bits, sizeof bits);
        }
        return true;
    case ST_F64:
        for (int64_t i = 0; i < tensor->count; i++) {
            memcpy(&wide, p + 8 * i, sizeof wide);
            out[i] = (float)wide;
        }
        return true;
    default:
        return io_fail((io_error){err, err_size}, "tensor '%s': cannot read %s as float (only F64, F32, F16 and BF16)",
                       io_quote_string(tensor->name).text, st_dtype_name(tensor->dtype));
    }
}

// Element i as int64_t by value; false when it has none.
static bool integer_at(const st_tensor *tensor, int64_t i, int64_t *value) {
    const unsigned char *p = tensor->data + (size_t)i * st_dtype_size(tensor->dtype);
    uint64_t u64;
    switch (tensor->dtype) {
    case ST_BOOL:
        *value = *p;
        return *p <= 1;
    case ST_U8:
        *value = *p;
        return true;
    case ST_U16:
        *value = load_u16(p);
        return true;
    case ST_U32:
        *value = load_u32(p);
        return true;
    case ST_U64:
        u64 = load_u64(p);
        *value = (int64_t)(u64 & INT64_MAX);
        return u64 <= INT64_MAX;
    case ST_I8:
        *value = (int8_t)*p;
        return true;
    case ST_I16:
        *value = (int16_t)load_u16(p);
        return true;
    case ST_I32:
        *value = (int32_t)load_u32(p);
        return true;
    default: // ST_I64: st_to_i64 lets no other type come here
        *value = (int64_t)load_u64(p);
        return true;
    }
}

bool st_to_i64(const st_tensor *tensor, int64_t *out, char *err, size_t err_size) {
    io_error e = {err, err_size};
    if (!is_dtype(tensor->dtype) || tensor->dtype < ST_I64)
        return io_fail(e, "tensor '%s': cannot read %s as integers", io_quote_string(tensor->name).text,
                       st_dtype_name(tensor->dtype));
    for (int64_t i = 0; i < tensor->count; i++) {
        if (integer_at(tensor, i, &out[i]))
            continue;
        if (tensor->dtype == ST_BOOL)
            return io_fail(e, "tensor '%s': element %" PRId64 " of BOOL is %u, neither 0 nor 1",
                           io_quote_string(tensor->name).text, i, tensor->data[i]);
        return io_fail(e, "tensor '%s': element %" PRId64 " of U64 is %" PRIu64 ", above %" PRId64,
                       io_quote_string(tensor->name).text, i, load_u64(tensor->data + 8 * i), INT64_MAX);
    }
    return true;
}
