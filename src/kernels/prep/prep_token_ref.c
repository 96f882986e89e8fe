// SPDX-License-Identifier: Apache-2.0
//
// All of one token's prep: the separate kernels, one after another.

#include "kernels/kernels.h"

#include <assert.h>

static void rotate(const qsa_norm_rope_args *part, const float *cosine, const float *sine) {
    qsa_norm_rope_args args = *part;
    if (!args.x)
        return;
    args.cosine = cosine;
    args.sine = sine;
    qsa_norm_rope_ref(&args);
}

static void store_key(const qsa_prep_token_args *token, int32_t v, const float *cosine, const float *sine) {
    float key[QSA_MAX_HEAD_DIM];
    qsa_norm_rope_args part = token->k;
    part.x = (const unsigned char *)part.x + v * part.x_stride;
    part.vectors = 1;
    part.out = key;
    rotate(&part, cosine, sine);
    qsa_store_args store = token->k_store;
    store.x = key;
    store.type = QSA_F32;
    store.vectors = 1;
    store.codes = (unsigned char *)store.codes + v * store.code_stride;
    if (store.format == QSA_I8)
        store.scales += v * store.scale_stride;
    qsa_store_ref(&store);
}

void qsa_prep_token_ref(const qsa_prep_token_args *args) {
    assert(!args->k.x || (args->k.dim == args->k_store.dim && args->k.half == args->angles.half));
    assert(!args->block.keys || args->block.half == args->angles.half);
    float cosine[QSA_MAX_HEAD_DIM / 2], sine[QSA_MAX_HEAD_DIM / 2];
    qsa_angles_args angles = args->angles;
    angles.cosine = cosine;
    angles.sine = sine;
    qsa_angles_ref(&angles);
    rotate(&args->q, cosine, sine);
    rotate(&args->index_q, cosine, sine);
    if (args->k.x) {
        for (int32_t v = 0; v < args->k.vectors; v++)
            store_key(args, v, cosine, sine);
        qsa_store_ref(&args->v_store);
    }
    if (args->block.keys) {
        angles.positions = args->block_positions;
        qsa_angles_ref(&angles);
        qsa_pool_args block = args->block;
        block.cosine = cosine;
        block.sine = sine;
        qsa_pool_ref(&block);
    }
}
