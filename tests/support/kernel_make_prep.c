// SPDX-License-Identifier: Apache-2.0
//
// Random calls of the kernels of stage prep: angles, norm_rope, store, pool, and prep_token, which is all of them.
#include "kernel_case.h"
#include "kernel_values.h"

#include "num/load.h"

#include <stdio.h>

// An input of n floats, aligned.
static int add_floats(kernel_case *c, rng *r, values_kind kind, int32_t n) {
    const int i = case_add(c, CASE_IN, (size_t)n * sizeof(float));
    values_fill(r, kind, QSA_F32, (size_t)n, case_use(c, i, 0, (size_t)n * sizeof(float)));
    return i;
}

// Raw rows: any type, any stride, any alignment.
static int add_raw(kernel_case *c, rng *r, values_kind kind, qsa_type type, int32_t rows, int32_t dim, int64_t *stride,
                   int64_t *first) {
    const size_t bytes = (size_t)dim * qsa_type_size(type);
    *stride = values_draw_stride(r, bytes, 1);
    const int i = case_add_rows(c, CASE_IN, rows, bytes, *stride, first);
    c->buffer[i].shift = rng_below(r, 4) ? 0 : rng_below(r, 8);
    for (int32_t row = 0; row < rows; row++)
        values_fill(r, kind, type, (size_t)dim, c->buffer[i].content + (*first + row * *stride));
    return i;
}

static int add_events(kernel_case *c, rng *r) {
    const int i = case_add(c, CASE_INOUT, 3 * sizeof(uint64_t));
    rng_fill_bytes(r, 3 * sizeof(uint64_t), case_use(c, i, 0, 3 * sizeof(uint64_t)));
    return i;
}

static float draw_eps(rng *r) {
    static const float eps[] = {1e-6f, 1e-5f, 1e-30f, 0.5f};
    return eps[rng_below(r, 4)];
}

// What angles are made of; *position gets the three.
static void add_angles(kernel_case *c, rng *r, qsa_angles_args *args, int32_t position[3]) {
    const size_t half = (size_t)args->half;
    const int frequencies = case_add(c, CASE_IN, half * sizeof(float));
    rng_fill_uniform(r, half, 1e-8, 1, (float *)(void *)case_use(c, frequencies, 0, half * sizeof(float)));
    const int axis = case_add(c, CASE_IN, half), positions = case_add(c, CASE_IN, 3 * sizeof(int32_t));
    unsigned char *axes = case_use(c, axis, 0, half);
    for (size_t i = 0; i < half; i++)
        axes[i] = (unsigned char)rng_below(r, 3);
    for (int i = 0; i < 3; i++)
        position[i] = values_draw_position(r, 30);
    memcpy(case_use(c, positions, 0, 3 * sizeof(int32_t)), position, 3 * sizeof(int32_t));
    case_point(c, &args->inv_freq, frequencies, 0);
    case_point(c, &args->axis, axis, 0);
    case_point(c, &args->positions, positions, 0);
}

void case_make_angles(kernel_case *c, rng *r) {
    qsa_angles_args *args = &c->args.angles;
    int32_t position[3];
    args->half = rng_range(r, 1, rng_below(r, 4) ? 64 : QSA_MAX_HEAD_DIM / 2);
    add_angles(c, r, args, position);
    const size_t half = (size_t)args->half;
    const int cosine = case_add(c, CASE_OUT, half * sizeof(float)), sine = case_add(c, CASE_OUT, half * sizeof(float));
    case_use(c, cosine, 0, half * sizeof(float));
    case_use(c, sine, 0, half * sizeof(float));
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    snprintf(c->what, sizeof c->what, "half %d, positions %d %d %d", args->half, position[0], position[1], position[2]);
}

void case_make_norm_rope(kernel_case *c, rng *r) {
    qsa_norm_rope_args *args = &c->args.norm_rope;
    const values_kind kind = values_draw_kind(r), other = values_draw_kind(r);
    args->type = values_draw_type(r);
    args->vectors = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->half = rng_below(r, 8) ? rng_range(r, 0, args->dim / 2) : args->dim / 2;
    args->eps = draw_eps(r);
    int64_t first, out_first;
    const int x = add_raw(c, r, kind, args->type, args->vectors, args->dim, &args->x_stride, &first);
    const int factor = add_floats(c, r, other, args->dim);
    const int cosine = add_floats(c, r, VALUES_NORMAL, args->half), sine = add_floats(c, r, other, args->half);
    const size_t bytes = (size_t)args->dim * sizeof(float);
    const int64_t stride = values_draw_stride(r, bytes, sizeof(float));
    const int out = case_add_rows(c, CASE_OUT, args->vectors, bytes, stride, &out_first);
    args->out_stride = stride / (int64_t)sizeof(float);
    case_point(c, &args->x, x, first);
    case_point(c, &args->factor, factor, 0);
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    case_point(c, &args->out, out, out_first);
    snprintf(c->what, sizeof c->what, "%s %s, vectors %d, dim %d, half %d, x_stride %lld, factors %s",
             values_type_name(args->type), values_name(kind), args->vectors, args->dim, args->half,
             (long long)args->x_stride, values_name(other));
}

void case_make_store(kernel_case *c, rng *r) {
    qsa_store_args *args = &c->args.store;
    const values_kind kind = values_draw_kind(r);
    args->type = values_draw_type(r);
    args->format = (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    args->vectors = rng_range(r, 1, 8);
    args->dim = values_draw_dim(r);
    int64_t first, code_first, scale_first;
    const int x = add_raw(c, r, kind, args->type, args->vectors, args->dim, &args->x_stride, &first);
    // Tiny and huge groups: scales that are subnormal, zero or saturated.
    if (args->type == QSA_F32 && kind == VALUES_NORMAL && rng_below(r, 2)) {
        static const float factors[] = {1e-5f, 1e-6f, 4e-7f, 3e6f, 1e7f, 1e30f, 1e-42f};
        const float factor = factors[rng_below(r, 7)];
        for (int32_t v = 0; v < args->vectors; v++)
            for (int32_t d = 0; d < args->dim; d++) {
                unsigned char *row = c->buffer[x].content + (first + v * args->x_stride);
                qsa_put(row, QSA_F32, d, qsa_load(row, QSA_F32, d) * factor);
            }
    }
    const size_t element = qsa_type_size(args->format), bytes = (size_t)args->dim * element;
    args->code_stride = values_draw_stride(r, bytes, element);
    const int codes = case_add_rows(c, CASE_OUT, args->vectors, bytes, args->code_stride, &code_first);
    case_point(c, &args->x, x, first);
    case_point(c, &args->codes, codes, code_first);
    if (args->format == QSA_I8) {
        const size_t groups = ((size_t)args->dim + QSA_GROUP - 1) / QSA_GROUP;
        const int64_t stride = values_draw_stride(r, 2 * groups, 2);
        const int scales = case_add_rows(c, CASE_OUT, args->vectors, 2 * groups, stride, &scale_first);
        args->scale_stride = stride / 2;
        case_point(c, &args->scales, scales, scale_first);
    }
    case_point(c, &args->events, add_events(c, r), 0);
    snprintf(c->what, sizeof c->what, "%s %s to %s, vectors %d, dim %d, x_stride %lld", values_type_name(args->type),
             values_name(kind), values_type_name(args->format), args->vectors, args->dim, (long long)args->x_stride);
}

// The raw keys of a block: in any order in memory, each of its own type if `mixed`, the last of them flush.
static void add_raw_keys(kernel_case *c, rng *r, values_kind kind, qsa_type common, bool mixed, qsa_pool_args *args) {
    const size_t slot = (size_t)args->dim * sizeof(float) + rng_below(r, 9);
    int32_t place[QSA_MAX_RATIO];
    qsa_type types[QSA_MAX_RATIO] = {common};
    size_t end = 0;
    rng_shuffle(r, args->ratio, place);
    for (int32_t i = 0; i < args->ratio; i++) {
        types[i] = mixed ? values_draw_type(r) : common;
        const size_t key_end = (size_t)place[i] * slot + (size_t)args->dim * qsa_type_size(types[i]);
        end = key_end > end ? key_end : end;
    }
    const int raw = case_add(c, CASE_IN, end);
    const int keys = case_add(c, CASE_IN, (size_t)args->ratio * sizeof(qsa_raw_key));
    for (int32_t i = 0; i < args->ratio; i++) {
        const size_t at = (size_t)place[i] * slot, bytes = (size_t)args->dim * qsa_type_size(types[i]);
        values_fill(r, kind, types[i], (size_t)args->dim, case_use(c, raw, at, bytes));
        qsa_raw_key key = {NULL, types[i]};
        memcpy(case_use(c, keys, (size_t)i * sizeof key, sizeof key), &key, sizeof key);
        case_point_in(c, keys, (size_t)i * sizeof key + offsetof(qsa_raw_key, data), raw, (int64_t)at);
    }
    case_point(c, &args->keys, keys, 0);
}

void case_make_pool(kernel_case *c, rng *r) {
    qsa_pool_args *args = &c->args.pool;
    const values_kind kind = values_draw_kind(r);
    args->dim = values_draw_dim(r);
    args->half = rng_range(r, 0, args->dim / 2);
    args->ratio = rng_below(r, 32) ? rng_range(r, 1, 8) : rng_range(r, 9, QSA_MAX_RATIO);
    args->eps = draw_eps(r);
    args->format = values_draw_type(r);
    const qsa_type common = values_draw_type(r);
    const bool mixed = rng_below(r, 4) == 0;
    add_raw_keys(c, r, kind, common, mixed, args);
    const int factor = add_floats(c, r, values_draw_kind(r), args->dim);
    const int cosine = add_floats(c, r, VALUES_NORMAL, args->half), sine = add_floats(c, r, VALUES_NORMAL, args->half);
    const size_t bytes = (size_t)args->dim * qsa_type_size(args->format);
    const int out = case_add(c, CASE_OUT, bytes);
    case_use(c, out, 0, bytes);
    case_point(c, &args->factor, factor, 0);
    case_point(c, &args->cosine, cosine, 0);
    case_point(c, &args->sine, sine, 0);
    case_point(c, &args->out, out, 0);
    case_point(c, &args->events, add_events(c, r), 0);
    snprintf(c->what, sizeof c->what, "%s%s %s, ratio %d, dim %d, half %d, to %s", values_type_name(common),
             mixed ? " and others" : "", values_name(kind), args->ratio, args->dim, args->half,
             values_type_name(args->format));
}

// ---- All of a token ------------------------------------------------------------------------------

// Queries or keys, raw, with their factors; `heads` of them.
static void add_heads(kernel_case *c, rng *r, values_kind kind, int32_t half, int32_t heads, qsa_norm_rope_args *args) {
    int64_t first;
    args->type = values_draw_type(r);
    args->vectors = heads;
    args->half = half;
    args->eps = draw_eps(r);
    const int x = add_raw(c, r, kind, args->type, heads, args->dim, &args->x_stride, &first);
    case_point(c, &args->x, x, first);
    case_point(c, &args->factor, add_floats(c, r, VALUES_NORMAL, args->dim), 0);
}

static void add_outputs(kernel_case *c, rng *r, qsa_norm_rope_args *args) {
    const size_t bytes = (size_t)args->dim * sizeof(float);
    int64_t first;
    const int64_t stride = values_draw_stride(r, bytes, sizeof(float));
    const int out = case_add_rows(c, CASE_OUT, args->vectors, bytes, stride, &first);
    args->out_stride = stride / (int64_t)sizeof(float);
    case_point(c, &args->out, out, first);
}

// Places in a cache for `heads` rows.
static void add_places(kernel_case *c, rng *r, qsa_type format, int32_t dim, int32_t heads, int events,
                       qsa_store_args *args) {
    const size_t element = qsa_type_size(format), groups = ((size_t)dim + QSA_GROUP - 1) / QSA_GROUP;
    int64_t first;
    args->dim = dim;
    args->format = format;
    args->code_stride = values_draw_stride(r, (size_t)dim * element, element);
    const int codes = case_add_rows(c, CASE_OUT, heads, (size_t)dim * element, args->code_stride, &first);
    case_point(c, &args->codes, codes, first);
    if (format == QSA_I8) {
        const int64_t stride = values_draw_stride(r, 2 * groups, 2);
        const int scales = case_add_rows(c, CASE_OUT, heads, 2 * groups, stride, &first);
        args->scale_stride = stride / 2;
        case_point(c, &args->scales, scales, first);
    }
    case_point(c, &args->events, events, 0);
}

static void add_block(kernel_case *c, rng *r, values_kind kind, int32_t half, int events, qsa_prep_token_args *args) {
    qsa_pool_args *block = &args->block;
    block->dim = args->index_q.dim;
    block->half = half;
    block->ratio = rng_range(r, 1, 8);
    block->eps = draw_eps(r);
    block->format = values_draw_type(r);
    add_raw_keys(c, r, kind, values_draw_type(r), rng_below(r, 2) == 0, block);
    case_point(c, &block->factor, add_floats(c, r, VALUES_NORMAL, block->dim), 0);
    const size_t bytes = (size_t)block->dim * qsa_type_size(block->format);
    const int out = case_add(c, CASE_OUT, bytes), positions = case_add(c, CASE_IN, 3 * sizeof(int32_t));
    case_use(c, out, 0, bytes);
    int32_t position[3];
    for (int i = 0; i < 3; i++)
        position[i] = values_draw_position(r, 30);
    memcpy(case_use(c, positions, 0, sizeof position), position, sizeof position);
    case_point(c, &block->out, out, 0);
    case_point(c, &block->events, events, 0);
    case_point(c, &args->block_positions, positions, 0);
}

// One geometry for all parts; each may be absent, as for a row that does not attend.
void case_make_prep_token(kernel_case *c, rng *r) {
    qsa_prep_token_args *args = &c->args.prep_token;
    const values_kind kind = values_draw_kind(r);
    const qsa_type format = (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    const int32_t dim = values_draw_dim(r), index_dim = values_draw_dim(r), least = dim < index_dim ? dim : index_dim;
    const int32_t half = rng_below(r, 2) ? rng_range(r, 0, least / 2) : least / 32 * 16, kv_heads = rng_range(r, 1, 4);
    const unsigned parts = rng_below(r, 4) ? 7 : (unsigned)rng_below(r, 8); // queries, keys and values, block
    int32_t position[3];
    args->angles.half = half;
    add_angles(c, r, &args->angles, position);
    args->q.dim = args->k.dim = dim;
    args->index_q.dim = index_dim;
    const int events = add_events(c, r);
    if (parts & 1) {
        add_heads(c, r, kind, half, values_draw_heads(r), &args->q);
        add_outputs(c, r, &args->q);
        add_heads(c, r, kind, half, rng_range(r, 1, 4), &args->index_q);
        add_outputs(c, r, &args->index_q);
    }
    if (parts & 2) {
        int64_t first;
        add_heads(c, r, kind, half, kv_heads, &args->k);
        add_places(c, r, format, dim, kv_heads, events, &args->k_store);
        add_places(c, r, format, dim, kv_heads, events, &args->v_store);
        args->v_store.type = values_draw_type(r);
        args->v_store.vectors = kv_heads;
        const int x = add_raw(c, r, kind, args->v_store.type, kv_heads, dim, &args->v_store.x_stride, &first);
        case_point(c, &args->v_store.x, x, first);
    }
    if (parts & 4)
        add_block(c, r, kind, half, events, args);
    snprintf(c->what, sizeof c->what, "%s, parts %u, dims %d %d, half %d, to %s", values_name(kind), parts, dim,
             index_dim, half, values_type_name(format));
}
