// SPDX-License-Identifier: Apache-2.0
//
// All of one token's prep in v16 lanes. The token's angles are made once for queries and keys; a key goes from its raw row
// through one row of floats, which stays in the first cache, to its codes, and a value straight to them.

#ifndef QSA_KERNELS_PREP_PREP_TOKEN_SIMD_H
#define QSA_KERNELS_PREP_PREP_TOKEN_SIMD_H

#include "kernels/prep/angles_simd.h"
#include "kernels/prep/prep_simd.h"

QSA_INLINE void rotate_part(const qsa_norm_rope_args *part, const qsa_angles_args *angles) {
    qsa_norm_rope_args args = *part;
    if (!args.x)
        return;
    args.half = angles->half;
    args.cosine = angles->cosine;
    args.sine = angles->sine;
    norm_rope_simd(&args);
}

QSA_INLINE void store_token(const qsa_prep_token_args *token, const qsa_angles_args *angles) {
    float key[QSA_MAX_HEAD_DIM];
    qsa_norm_rope_args args = token->k;
    const unsigned char *x = args.x;
    args.half = angles->half;
    args.cosine = angles->cosine;
    args.sine = angles->sine;
    for (int32_t v = 0; v < args.vectors; v++) {
        norm_rope_vector(&args, key, x + v * args.x_stride);
        store_vector(&token->k_store, v, key);
    }
    store_simd(&token->v_store);
}

QSA_INLINE void prep_token_simd(const qsa_prep_token_args *args) {
    assert(!args->k.x || (args->k.dim == args->k_store.dim && args->k.half == args->angles.half));
    assert(!args->block.keys || args->block.half == args->angles.half);
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    qsa_angles_args angles = args->angles;
    angles.cosine = cosine;
    angles.sine = sine;
    angles_simd(&angles);
    rotate_part(&args->q, &angles);
    rotate_part(&args->index_q, &angles);
    if (args->k.x)
        store_token(args, &angles);
    if (args->block.keys) {
        angles.positions = args->block_positions;
        angles_simd(&angles);
        qsa_pool_args block = args->block;
        block.half = angles.half;
        block.cosine = cosine;
        block.sine = sine;
        pool_simd(&block);
    }
}

#endif
