// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel screen.
#include "lab/cases/parts.h"

#include <stdio.h>

enum { MOST = 33000 };

// Rows of keys between the lowest and the highest that the blocks name; those of other blocks stay poison.
typedef struct key_rows {
    int32_t order[2 * MOST], page0, low, high;
} key_rows;

static int32_t row_of(const qsa_screen_args *args, const key_rows *rows, int32_t b) {
    return rows->order[b / args->page_blocks - rows->page0] * args->page_blocks + b % args->page_blocks;
}

static void add_keys(kernel_case *c, rng *r, const key_rows *rows, values_kind kind, int32_t dim) {
    qsa_screen_args *args = &c->args.screen;
    const size_t count = (size_t)rows->high - (size_t)rows->low + 1, stride = (size_t)args->stride;
    const int keys = case_add(c, CASE_IN, count * stride), scales = case_add(c, CASE_IN, count * sizeof(float));
    const int residuals = case_add(c, CASE_IN, count * sizeof(float));
    for (int32_t b = args->first; b < args->end; b++) {
        float key[QSA_MAX_HEAD_DIM];
        const size_t at = (size_t)(row_of(args, rows, b) - rows->low), at_float = at * sizeof(float);
        case_fill_far(r, kind, QSA_F32, (size_t)dim, key);
        const qsa_screen_key_args make = {.key = key,
                                          .format = QSA_F32,
                                          .dim = dim,
                                          .codes = (int8_t *)case_use(c, keys, at * stride, stride),
                                          .scale = (float *)(void *)case_use(c, scales, at_float, sizeof(float)),
                                          .residual = (float *)(void *)case_use(c, residuals, at_float, sizeof(float))};
        qsa_screen_key_ref(&make);
    }
    case_point(c, &args->keys, keys, -(int64_t)((size_t)rows->low * stride));
    case_point(c, &args->key_scales, scales, -(int64_t)((size_t)rows->low * sizeof(float)));
    case_point(c, &args->residuals, residuals, -(int64_t)((size_t)rows->low * sizeof(float)));
}

// The queries; drawn again until they are usable.
static void add_query(kernel_case *c, rng *r, values_kind kind, int32_t heads, int32_t dim) {
    static float q[QSA_MAX_HEADS_PER_KV * QSA_MAX_HEAD_DIM];
    qsa_screen_args *args = &c->args.screen;
    const size_t code_bytes = (size_t)args->heads * (size_t)args->stride * sizeof(int16_t);
    const size_t scale_bytes = (size_t)args->heads * sizeof(float);
    const int codes = case_add(c, CASE_IN, code_bytes), scales = case_add(c, CASE_IN, scale_bytes);
    const int bound = case_add(c, CASE_IN, 3 * sizeof(float));
    int32_t usable = 0;
    const qsa_screen_query_args make = {.index_q = q,
                                        .heads = heads,
                                        .dim = dim,
                                        .codes = (int16_t *)(void *)case_use(c, codes, 0, code_bytes),
                                        .scales = (float *)(void *)case_use(c, scales, 0, scale_bytes),
                                        .bound = (float *)(void *)case_use(c, bound, 0, 3 * sizeof(float)),
                                        .usable = &usable};
    for (; !usable; kind = VALUES_WIDE) {
        case_fill_far(r, kind, QSA_F32, (size_t)heads * (size_t)dim, q);
        qsa_screen_query_ref(&make);
    }
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scales, scales, 0);
    case_point(c, &args->bound, bound, 0);
}

void case_make_screen(kernel_case *c, rng *r) {
    qsa_screen_args *args = &c->args.screen;
    const values_kind kind = case_kind(c, r), key_kind = case_kind(c, r);
    const int32_t heads = c->shape ? MODEL_INDEX_HEADS : values_draw_heads(r);
    const int32_t dim = c->shape ? MODEL_INDEX_DIM : values_draw_dim(r);
    args->heads = qsa_screen_heads(heads);
    args->stride = qsa_screen_stride(dim);
    if (c->shape) {
        args->page_blocks = MODEL_PAGE_BLOCKS;
        args->end = case_blocks(c->shape->cells);
    } else {
        const int32_t most = 1 + 120000 / (args->heads * args->stride);
        args->page_blocks = rng_below(r, 4) ? 1 << rng_below(r, 7) : rng_range(r, 1, 20);
        args->first = rng_below(r, 2) ? 0 : rng_range(r, 0, 300);
        args->end = args->first + rng_range(r, 1, most < 150 ? most : 150);
    }
    static key_rows rows;
    rows.page0 = args->first / args->page_blocks;
    rows.low = INT32_MAX;
    rows.high = 0;
    const int32_t pages = (args->end - 1) / args->page_blocks + 1 - rows.page0;
    rng_shuffle(r, c->shape ? pages : 2 * pages, rows.order);
    for (int32_t b = args->first; b < args->end; b++) {
        const int32_t row = row_of(args, &rows, b);
        rows.low = row < rows.low ? row : rows.low;
        rows.high = row > rows.high ? row : rows.high;
    }
    add_keys(c, r, &rows, key_kind, dim);
    add_query(c, r, kind, heads, dim);
    const size_t table_bytes = (size_t)pages * sizeof(int32_t);
    const size_t out_bytes = (size_t)(args->end - args->first) * sizeof(float);
    const int table = case_add(c, CASE_IN, table_bytes);
    memcpy(case_use(c, table, 0, table_bytes), rows.order, table_bytes);
    const int lower = case_add(c, CASE_OUT, out_bytes), upper = case_add(c, CASE_OUT, out_bytes);
    case_use(c, lower, 0, out_bytes);
    case_use(c, upper, 0, out_bytes);
    case_point(c, &args->page_table, table, -(int64_t)((size_t)rows.page0 * sizeof(int32_t)));
    case_point(c, &args->lower, lower, 0);
    case_point(c, &args->upper, upper, 0);
    snprintf(c->what, sizeof c->what, "q %s, keys %s, heads %d, dim %d, page_blocks %d, blocks %d..%d",
             values_name(kind), values_name(key_kind), heads, dim, args->page_blocks, args->first, args->end - 1);
}

const case_plan case_plan_screen = {{{"8192 blocks", 32768, false}}, 1, 3, 1};
