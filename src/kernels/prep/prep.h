// SPDX-License-Identifier: Apache-2.0
//
// Stage prep: from raw projections to normed and rotated queries, cache rows and block keys.
// Orders: docs/numerics.md. Every kernel reads exactly the elements it names; raw inputs may be unaligned.

#ifndef QSA_KERNELS_PREP_PREP_H
#define QSA_KERNELS_PREP_PREP_H

#include "qsa/qsa.h"

// angles: cosines and sines of one token. Frequency i takes the position of axis[i] (0 temporal, 1 height, 2 width).
typedef struct qsa_angles_args {
    const float *inv_freq;    // [half]
    const uint8_t *axis;      // [half]
    const int32_t *positions; // [3]
    int32_t half;             // R / 2
    float *cosine;            // [half]
    float *sine;              // [half]
} qsa_angles_args;
typedef void (*qsa_angles_fn)(const qsa_angles_args *args);

// norm_rope: RMS norm by `factor`, then RoPE on the first 2 * half dims, of `vectors` vectors of one token.
typedef struct qsa_norm_rope_args {
    const void *x; // vector v at x + v * x_stride bytes
    qsa_type type; // f32, f16, bf16
    int64_t x_stride;
    int32_t vectors;
    int32_t dim;         // 1..QSA_MAX_HEAD_DIM
    int32_t half;        // 2 * half <= dim
    const float *factor; // [dim]
    const float *cosine; // [half]
    const float *sine;   // [half]
    float eps;
    float *out; // vector v at out + v * out_stride floats; may not overlap x
    int64_t out_stride;
} qsa_norm_rope_args;
typedef void (*qsa_norm_rope_fn)(const qsa_norm_rope_args *args);

// store: encodes vectors in a cache format. Adds to events[0..2] = nan, infinite, saturated.
typedef struct qsa_store_args {
    const void *x; // vector v at x + v * x_stride bytes
    qsa_type type; // f32, f16, bf16
    int64_t x_stride;
    int32_t vectors;
    int32_t dim;
    qsa_type format; // f32, f16, bf16, i8
    void *codes;     // vector v at codes + v * code_stride bytes; aligned to the format's element
    int64_t code_stride;
    uint16_t *scales; // i8: vector v at scales + v * scale_stride, ceil(dim / 64) halves; else unused
    int64_t scale_stride;
    uint64_t *events; // [3]
} qsa_store_args;
typedef void (*qsa_store_fn)(const qsa_store_args *args);

// pool: the block key of `ratio` raw index keys: mean, norm, RoPE, stored as f32, f16 or bf16.
typedef struct qsa_raw_key {
    const void *data; // [dim]
    qsa_type type;
} qsa_raw_key;

typedef struct qsa_pool_args {
    const qsa_raw_key *keys; // [ratio] in cell order
    int32_t ratio;           // 1..QSA_MAX_RATIO
    int32_t dim;
    int32_t half;
    const float *factor; // [dim]
    const float *cosine; // [half] of the block's first cell
    const float *sine;
    float eps;
    qsa_type format;
    void *out;        // [dim], aligned to the format's element
    uint64_t *events; // [3]
} qsa_pool_args;
typedef void (*qsa_pool_fn)(const qsa_pool_args *args);

// prep_token: the kernels above for all that one token brings, in one call and with one set of angles: equal to them, called one
// by one, byte for byte. The parts are their arguments. What is handed from one to the next is not read and may be null: every
// cosine and sine, k.out, and all of k_store about x and its vectors. Every `half` is angles.half. Parts that are not wanted are
// null where marked.
typedef struct qsa_prep_token_args {
    qsa_angles_args angles;        // of the token
    qsa_norm_rope_args q, index_q; // x null: no queries
    qsa_norm_rope_args k;          // x null: nothing is stored
    qsa_store_args k_store, v_store;
    qsa_pool_args block;            // keys null: the token completes no block
    const int32_t *block_positions; // [3] of the block's first cell
} qsa_prep_token_args;
typedef void (*qsa_prep_token_fn)(const qsa_prep_token_args *args);

// screen_key: the screening copy of a stored block key: key = scale * codes + rest with ||rest|| <= residual. A key that is
// not finite, or beyond QSA_SCREEN_MOST, gets codes 0, scale 0 and residual +inf.
typedef struct qsa_screen_key_args {
    const void *key; // [dim] as stored, aligned to the format's element
    qsa_type format; // f32, f16, bf16
    int32_t dim;
    int8_t *codes;   // [qsa_screen_stride(dim)], zeros behind dim
    float *scale;    // largest magnitude / 127, or 0
    float *residual; // rounded up
} qsa_screen_key_args;
typedef void (*qsa_screen_key_fn)(const qsa_screen_key_args *args);

#endif
