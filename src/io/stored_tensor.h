// SPDX-License-Identifier: Apache-2.0
//
// A tensor as some file stores it, whatever the file's format, and its values as float32: one view for safetensors, for
// safetensors with block scales, and for GGUF. It borrows everything from the file.
#ifndef QSA_IO_STORED_TENSOR_H
#define QSA_IO_STORED_TENSOR_H

#include "io/gguf.h"
#include "io/safetensors.h"

typedef enum {
    STORED_F32 = 1,
    STORED_F16 = 2,
    STORED_BF16 = 4,
    STORED_F8_E4M3 = 8, // value = number * scale of its block of 128 x 128
    STORED_Q8_0 = 16,   // value = int8 * half-precision scale, in groups of 32 along a row
    STORED_OTHER = 32,  // a type that is not read
} stored_encoding;

#define STORED_FP8_BLOCK 128

typedef struct {
    const char *name;
    stored_encoding encoding;
    char type[24]; // as the file spells it: "BF16", "F8_E4M3", "Q4_K"
    int n_dims;
    int64_t shape[ST_MAX_DIMS]; // row-major, outermost first
    int64_t count;
    const unsigned char *data;
    const st_tensor *scales; // F8_E4M3: [ceil(rows / 128), ceil(columns / 128)] as F32, F16 or BF16, else NULL
} stored_tensor;

stored_tensor stored_of_st(const st_tensor *tensor);
stored_tensor stored_of_gguf(const gguf_tensor *tensor);

// Gives a matrix of F8_E4M3 its scales. False and a line when they do not have its shape, or a type that is not read.
bool stored_set_scales(stored_tensor *tensor, const st_tensor *scales, io_error err);

// All values, into `count` floats. F16, BF16 and F8_E4M3 are exact but for the one product with a scale, which is rounded
// to float32, as is that of Q8_0. False and a line, `out` untouched: STORED_OTHER, F8_E4M3 without scales, no memory for the scales.
bool stored_to_f32(const stored_tensor *tensor, float *out, io_error err);

// A number of F8_E4M3 (4 exponent bits, 3 of fraction, no infinity, NaN is 0x7f and 0xff).
float stored_f8_value(uint8_t bits);

#endif
