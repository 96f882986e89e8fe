// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel prep_token, which is the other kernels of its stage for one token.
#include "lab/cases/parts.h"

#include <stdio.h>
#include <string.h>

// Queries or keys, raw, with their factors; `heads` of them.
static void add_heads(kernel_case *c, rng *r, values_kind kind, int32_t half, int32_t heads, qsa_norm_rope_args *args) {
    int64_t first;
    args->type = c->shape ? QSA_F32 : values_draw_type(r);
    args->vectors = heads;
    args->half = half;
    args->eps = c->shape ? 1e-6f : case_draw_eps(r);
    const int x = case_add_vectors(c, r, kind, CASE_IN, args->type, heads, args->dim, &args->x_stride, &first);
    case_point(c, &args->x, x, first);
    case_point(c, &args->factor, case_add_floats(c, r, VALUES_NORMAL, args->dim), 0);
}

static void add_outputs(kernel_case *c, rng *r, qsa_norm_rope_args *args) {
    const size_t bytes = (size_t)args->dim * sizeof(float);
    int64_t first;
    const int64_t stride = case_stride(c, r, bytes, sizeof(float));
    const int out = case_add_rows(c, CASE_OUT, args->vectors, bytes, stride, &first);
    args->out_stride = stride / (int64_t)sizeof(float);
    case_point(c, &args->out, out, first);
}

static void add_queries(kernel_case *c, rng *r, values_kind kind, int32_t half, qsa_prep_token_args *args) {
    add_heads(c, r, kind, half, c->shape ? MODEL_HEADS : values_draw_heads(r), &args->q);
    add_outputs(c, r, &args->q);
    add_heads(c, r, kind, half, c->shape ? MODEL_INDEX_HEADS : rng_range(r, 1, 4), &args->index_q);
    add_outputs(c, r, &args->index_q);
}

// Places in a cache for `heads` rows.
static void add_places(kernel_case *c, rng *r, qsa_type format, int32_t dim, int32_t heads, int events,
                       qsa_store_args *args) {
    const size_t element = qsa_type_size(format), groups = ((size_t)dim + QSA_GROUP - 1) / QSA_GROUP;
    int64_t first;
    args->dim = dim;
    args->format = format;
    args->code_stride = case_stride(c, r, (size_t)dim * element, element);
    const int codes = case_add_rows(c, CASE_OUT, heads, (size_t)dim * element, args->code_stride, &first);
    case_element(c, codes, format);
    case_point(c, &args->codes, codes, first);
    if (format == QSA_I8) {
        const int64_t stride = case_stride(c, r, 2 * groups, 2);
        const int scales = case_add_rows(c, CASE_OUT, heads, 2 * groups, stride, &first);
        args->scale_stride = stride / 2;
        case_point(c, &args->scales, scales, first);
    }
    case_point(c, &args->events, events, 0);
}

static void add_cell(kernel_case *c, rng *r, values_kind kind, int32_t half, int events, qsa_prep_token_args *args) {
    const qsa_type format = c->shape ? QSA_I8 : (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    const int32_t heads = c->shape ? MODEL_KV_HEADS : rng_range(r, 1, 4), dim = args->k.dim;
    int64_t first;
    add_heads(c, r, kind, half, heads, &args->k);
    add_places(c, r, format, dim, heads, events, &args->k_store);
    add_places(c, r, format, dim, heads, events, &args->v_store);
    args->v_store.type = c->shape ? QSA_F32 : values_draw_type(r);
    args->v_store.vectors = heads;
    const int x =
        case_add_vectors(c, r, kind, CASE_IN, args->v_store.type, heads, dim, &args->v_store.x_stride, &first);
    case_point(c, &args->v_store.x, x, first);
}

static void add_block(kernel_case *c, rng *r, values_kind kind, int32_t half, int events, qsa_prep_token_args *args) {
    qsa_pool_args *block = &args->block;
    block->dim = args->index_q.dim;
    block->half = half;
    block->ratio = c->shape ? MODEL_RATIO : rng_range(r, 1, 8);
    block->eps = c->shape ? 1e-6f : case_draw_eps(r);
    block->format = c->shape ? QSA_F32 : values_draw_type(r);
    case_add_raw_keys(c, r, kind, c->shape ? QSA_F32 : values_draw_type(r), !c->shape && rng_below(r, 2) == 0, block);
    case_point(c, &block->factor, case_add_floats(c, r, VALUES_NORMAL, block->dim), 0);
    const size_t bytes = (size_t)block->dim * qsa_type_size(block->format);
    const int out = case_add(c, CASE_OUT, bytes), positions = case_add(c, CASE_IN, 3 * sizeof(int32_t));
    case_use(c, out, 0, bytes);
    int32_t position[3];
    for (int i = 0; i < 3; i++)
        position[i] = c->shape ? c->shape->cells / MODEL_RATIO * MODEL_RATIO : values_draw_position(r, 30);
    memcpy(case_use(c, positions, 0, sizeof position), position, sizeof position);
    case_element(c, out, block->format);
    case_point(c, &block->out, out, 0);
    case_point(c, &block->events, events, 0);
    case_point(c, &args->block_positions, positions, 0);
}

// One geometry for all parts; each may be absent, as for a row that does not attend.
void case_make_prep_token(kernel_case *c, rng *r) {
    qsa_prep_token_args *args = &c->args.prep_token;
    const values_kind kind = case_kind(c, r);
    const int32_t dim = c->shape ? MODEL_DIM : values_draw_dim(r);
    const int32_t index_dim = c->shape ? MODEL_INDEX_DIM : values_draw_dim(r);
    const int32_t least = dim < index_dim ? dim : index_dim;
    const int32_t half = c->shape ? MODEL_HALF : rng_below(r, 2) ? rng_range(r, 0, least / 2) : least / 32 * 16;
    const unsigned parts = c->shape || rng_below(r, 4) ? 7 : (unsigned)rng_below(r, 8); // queries, cell, block
    int32_t position[3];
    args->angles.half = half;
    case_add_angles(c, r, &args->angles, position);
    args->q.dim = args->k.dim = dim;
    args->index_q.dim = index_dim;
    const int events = case_add_events(c, r);
    if (parts & 1)
        add_queries(c, r, kind, half, args);
    if (parts & 2)
        add_cell(c, r, kind, half, events, args);
    if (parts & 4)
        add_block(c, r, kind, half, events, args);
    snprintf(c->what, sizeof c->what, "%s, parts %u, dims %d %d, half %d, to %s", values_name(kind), parts, dim,
             index_dim, half, parts & 2 ? values_type_name(args->k_store.format) : "nothing");
}

const case_plan case_plan_prep_token = {{{"all of a row", 8192, false}}, 1, 3, 1};
