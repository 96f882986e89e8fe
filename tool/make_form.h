// SPDX-License-Identifier: Apache-2.0
//
// Float32 values in the forms that checkpoints store: each function rounds to nearest even and gives memory that the
// caller frees, or NULL and a line.

#ifndef QSA_TOOL_MAKE_FORM_H
#define QSA_TOOL_MAKE_FORM_H

#include "common.h"
#include "io/stored_tensor.h"

// F32, F16, BF16, or Q8_0 in groups of 32 along the rows (`count` is a multiple of 32, and so are the rows).
void *make_form(stored_encoding encoding, const float *values, size_t count, tool_error *error);

// F8_E4M3 and a scale for each block of 128 x 128: its largest number over 448, so that this becomes the format's largest.
// *scales: [ceil(rows / 128)][ceil(columns / 128)], freed by the caller too.
void *make_form_fp8(const float *values, int64_t rows, int64_t columns, float **scales, tool_error *error);

// Nearest number of F8_E4M3; what is beyond 448 becomes 448.
uint8_t make_f8(float x);

#endif
