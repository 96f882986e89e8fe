// SPDX-License-Identifier: Apache-2.0
//
// Numbers that kernels are fed with: ordinary ones, and everything that breaks them.
#ifndef QSA_TESTS_KERNEL_VALUES_H
#define QSA_TESTS_KERNEL_VALUES_H

#include "qsa/qsa.h"
#include "support/rng.h"

typedef enum {
    VALUES_NORMAL, // mean 0, deviation 1
    VALUES_WIDE,   // any exponent between 2^-40 and 2^40
    VALUES_SOME,   // normal, one in sixteen an edge value
    VALUES_EDGE,   // +-0, subnormals, FLT_MAX, inf, NaN of several payloads, format limits
    VALUES_FINITE, // edge values without inf and NaN
    VALUES_PAIRS,  // x and -x (1 + 2^-23): sums that nearly cancel
    VALUES_FEW,    // -2, -1, -0, +0, 1, 2: ties
    VALUES_SAME,   // one value
    VALUES_MINUS,  // -inf
    VALUES_ABOVE,  // normal, above 0: with -inf keys every score is -inf
    VALUES_BITS,   // random bits
    VALUES_KINDS
} values_kind;

// A kind, the ordinary ones more often.
values_kind values_draw_kind(rng *r);
const char *values_name(values_kind kind);

// n values of a type (f32, f16, bf16) at `out`, any alignment. Halves are rounded from the floats, or random bits.
void values_fill(rng *r, values_kind kind, qsa_type type, size_t n, void *out);

// n positive half scales of ordinary size; `any`: zero, subnormal, infinite and NaN ones too.
void values_fill_scales(rng *r, int any, size_t n, void *out);

// A position: 31 bits, shifted right by 0 to `most` bits.
int32_t values_draw_position(rng *r, int most);

// f32, f16 or bf16; and a name for every type.
qsa_type values_draw_type(rng *r);
const char *values_type_name(qsa_type type);

// A vector length: small ones, multiples of 16 and their neighbours, heads of real models, up to 1024.
int32_t values_draw_dim(rng *r);
// A number of heads: 1..16, now and then 64.
int32_t values_draw_heads(rng *r);
// A row distance in bytes for rows of `bytes`, a multiple of `unit`: none between, some, or backwards.
int64_t values_draw_stride(rng *r, size_t bytes, size_t unit);

#endif
