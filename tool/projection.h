// SPDX-License-Identifier: Apache-2.0
//
// The layer's matrix products, by CBLAS in float32 with one thread. Tokens are projected in fixed blocks of 512 counted
// from the file's start, and results in fixed blocks of 512 counted from their first, so that the bits depend on the
// file and the machine's BLAS alone, never on how the rows are cut into calls. At most `blocks` blocks are kept.

#ifndef QSA_TOOL_PROJECTION_H
#define QSA_TOOL_PROJECTION_H

#include "layer_file.h"

#define PROJECTION_BLOCK 512

typedef struct projection projection;

// Raw projected rows of one token, float32, contiguous. Valid until the next projection_token of another block.
typedef struct projected {
    const float *q;     // [heads][2][head_dim]: query, gate; NULL unless it was asked for
    const float *k;     // [kv_heads][head_dim]
    const float *v;     // [kv_heads][head_dim]
    const float *index; // [index_heads + 1][index_dim]: queries, raw key
} projected;

// Converts the weights and keeps up to `blocks` blocks of projected tokens. NULL and a line when memory is out.
projection *projection_create(const layer_file *file, int32_t blocks, tool_error *error);
void projection_destroy(projection *projection);

// The rows of a token (number b * T + t). `with_q` computes the queries and gates of its block too.
projected projection_token(projection *projection, int64_t token, bool with_q);

// out[rows][hidden] = x[rows][heads * head_dim] * o_proj^T + bias, in blocks of 512 rows. Rows of x that hold no value
// (used[i] = 0; NULL: all hold one) count as zeros, and give NaN. False when memory is out.
bool projection_out(projection *projection, int64_t rows, const uint8_t *used, const float *x, float *out,
                    tool_error *error);

// Milliseconds spent in the calls so far.
double projection_ms(const projection *projection);

// Name of the kernels that the BLAS picked, e.g. "SkylakeX".
const char *projection_core(void);

#endif
