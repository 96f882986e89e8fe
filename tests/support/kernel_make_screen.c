// SPDX-License-Identifier: Apache-2.0
//
// Random calls of the kernels of screened scoring: screen_key, screen_query, screen and candidates. What screen reads is made
// by the references of the first two, whose promises its own rest on; candidates learn from theirs how many there are.
#include "kernel_case.h"
#include "kernel_values.h"

#include "num/load.h"

#include <stdio.h>

// Values of a kind, now and then all of them far from 1.
static void fill(rng *r, values_kind kind, qsa_type type, size_t n, void *out) {
    static const float factors[] = {0x1p-60f, 0x1p-50f, 0x1p-140f, 0x1p49f, 0x1p50f, 0x1p60f};
    values_fill(r, kind, type, n, out);
    if (type != QSA_F32 || kind != VALUES_NORMAL || rng_below(r, 4))
        return;
    const float factor = factors[rng_below(r, 6)];
    for (size_t i = 0; i < n; i++)
        qsa_put(out, QSA_F32, (int32_t)i, qsa_load(out, QSA_F32, (int32_t)i) * factor);
}

void case_make_screen_key(kernel_case *c, rng *r) {
    qsa_screen_key_args *args = &c->args.screen_key;
    const values_kind kind = values_draw_kind(r);
    args->format = values_draw_type(r);
    args->dim = values_draw_dim(r);
    const size_t bytes = (size_t)args->dim * qsa_type_size(args->format), stride = (size_t)qsa_screen_stride(args->dim);
    const int key = case_add(c, CASE_IN, bytes), codes = case_add(c, CASE_OUT, stride);
    const int scale = case_add(c, CASE_OUT, sizeof(float)), residual = case_add(c, CASE_OUT, sizeof(float));
    fill(r, kind, args->format, (size_t)args->dim, case_use(c, key, 0, bytes));
    case_use(c, codes, 0, stride);
    case_use(c, scale, 0, sizeof(float));
    case_use(c, residual, 0, sizeof(float));
    case_point(c, &args->key, key, 0);
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scale, scale, 0);
    case_point(c, &args->residual, residual, 0);
    snprintf(c->what, sizeof c->what, "%s %s, dim %d", values_type_name(args->format), values_name(kind), args->dim);
}

void case_make_screen_query(kernel_case *c, rng *r) {
    qsa_screen_query_args *args = &c->args.screen_query;
    const values_kind kind = values_draw_kind(r);
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    const size_t heads = (size_t)qsa_screen_heads(args->heads), stride = (size_t)qsa_screen_stride(args->dim);
    const size_t values = (size_t)args->heads * (size_t)args->dim, bytes = values * sizeof(float);
    const int q = case_add(c, CASE_IN, bytes), codes = case_add(c, CASE_OUT, heads * stride * sizeof(int16_t));
    const int scales = case_add(c, CASE_OUT, heads * sizeof(float)), bound = case_add(c, CASE_OUT, 3 * sizeof(float));
    const int usable = case_add(c, CASE_OUT, sizeof(int32_t));
    unsigned char *content = case_use(c, q, 0, bytes);
    fill(r, kind, QSA_F32, values, content);
    if (qsa_screen_largest((const float *)(void *)content, (int32_t)values) <= QSA_SCREEN_MOST) {
        case_use(c, codes, 0, heads * stride * sizeof(int16_t));
        case_use(c, scales, 0, heads * sizeof(float));
        case_use(c, bound, 0, 3 * sizeof(float));
    }
    case_use(c, usable, 0, sizeof(int32_t));
    case_point(c, &args->index_q, q, 0);
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scales, scales, 0);
    case_point(c, &args->bound, bound, 0);
    case_point(c, &args->usable, usable, 0);
    snprintf(c->what, sizeof c->what, "%s, heads %d, dim %d", values_name(kind), args->heads, args->dim);
}

// Rows of keys between the lowest and the highest that the blocks name; those of other blocks stay poison.
typedef struct key_rows {
    int32_t order[2 * 460 + 2], page0, low, high;
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
        fill(r, kind, QSA_F32, (size_t)dim, key);
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
        fill(r, kind, QSA_F32, (size_t)heads * (size_t)dim, q);
        qsa_screen_query_ref(&make);
    }
    case_point(c, &args->codes, codes, 0);
    case_point(c, &args->scales, scales, 0);
    case_point(c, &args->bound, bound, 0);
}

void case_make_screen(kernel_case *c, rng *r) {
    qsa_screen_args *args = &c->args.screen;
    const values_kind kind = values_draw_kind(r), key_kind = values_draw_kind(r);
    const int32_t heads = values_draw_heads(r), dim = values_draw_dim(r);
    args->heads = qsa_screen_heads(heads);
    args->stride = qsa_screen_stride(dim);
    args->page_blocks = rng_below(r, 4) ? 1 << rng_below(r, 7) : rng_range(r, 1, 20);
    const int32_t most = 1 + 120000 / (args->heads * args->stride);
    args->first = rng_below(r, 2) ? 0 : rng_range(r, 0, 300);
    args->end = args->first + rng_range(r, 1, most < 150 ? most : 150);
    static key_rows rows;
    rows.page0 = args->first / args->page_blocks;
    rows.low = INT32_MAX;
    rows.high = 0;
    const int32_t pages = (args->end - 1) / args->page_blocks + 1 - rows.page0;
    rng_shuffle(r, 2 * pages, rows.order);
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

// Bounds as screen writes them: no NaN, lower at most upper, no -0.
static void fill_bounds(rng *r, values_kind kind, int32_t blocks, float *lower, float *upper) {
    values_fill(r, kind, QSA_F32, (size_t)blocks, lower);
    const float width = rng_below(r, 4) ? (float)rng_uniform(r) : 0.0f;
    for (int32_t b = 0; b < blocks; b++) {
        lower[b] = lower[b] == lower[b] && lower[b] < qsa_infinity() ? lower[b] + 0.0f : -qsa_infinity();
        upper[b] = lower[b] > -qsa_infinity() ? lower[b] + width * fabsf(lower[b]) : qsa_infinity();
    }
}

void case_make_candidates(kernel_case *c, rng *r) {
    enum { MOST = 9000 };
    static float lower[MOST];
    static int32_t chosen[MOST], ids[MOST];
    qsa_candidates_args *args = &c->args.candidates;
    const values_kind kind = values_draw_kind(r);
    args->blocks = rng_below(r, 4) ? rng_range(r, 1, 700) : rng_range(r, 1, MOST);
    args->groups = rng_below(r, 3) ? rng_range(r, 1, args->blocks) : args->blocks;
    args->take = rng_below(r, 2) ? rng_range(r, 1, args->groups) : 1 + args->groups / 8;
    args->take = args->take < args->groups ? args->take : args->groups;
    const size_t bytes = (size_t)args->blocks * sizeof(float);
    const int low = case_add(c, CASE_INOUT, bytes), high = case_add(c, CASE_IN, bytes);
    const int chosen_at = case_add(c, CASE_OUT, (size_t)args->take * sizeof(int32_t));
    const int ids_at = case_add(c, CASE_OUT, bytes), count_at = case_add(c, CASE_OUT, sizeof(int32_t));
    float *content = (float *)(void *)case_use(c, low, 0, bytes);
    float *upper = (float *)(void *)case_use(c, high, 0, bytes);
    fill_bounds(r, kind, args->blocks, content, upper);
    memcpy(lower, content, bytes);
    int32_t count = 0;
    const qsa_candidates_args try = {lower, upper, args->blocks, args->groups, args->take, chosen, ids, &count};
    qsa_candidates_ref(&try);
    case_use(c, chosen_at, 0, (size_t)args->take * sizeof(int32_t));
    case_use(c, ids_at, 0, (size_t)count * sizeof(int32_t));
    case_use(c, count_at, 0, sizeof(int32_t));
    case_point(c, &args->lower, low, 0);
    case_point(c, &args->upper, high, 0);
    case_point(c, &args->chosen, chosen_at, 0);
    case_point(c, &args->ids, ids_at, 0);
    case_point(c, &args->count, count_at, 0);
    snprintf(c->what, sizeof c->what, "%s, blocks %d, groups %d, take %d, candidates %d", values_name(kind),
             args->blocks, args->groups, args->take, count);
}
