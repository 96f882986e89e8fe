// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel score.
#include "lab/cases/parts.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { MOST_FIRST = 300, MOST = 9000 };

static void draw_geometry(qsa_score_args *args, const case_shape *shape, rng *r) {
    if (shape) {
        args->heads = MODEL_INDEX_HEADS;
        args->dim = MODEL_INDEX_DIM;
        args->format = QSA_F32;
        args->page_blocks = MODEL_PAGE_BLOCKS;
        args->first = 0;
        args->end = case_blocks(shape->cells);
        return;
    }
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->format = values_draw_type(r);
    args->page_blocks = rng_below(r, 4) ? 1 << rng_below(r, 6) : rng_range(r, 1, 20);
    const int32_t most = 1 + 60000 / (args->heads * args->dim);
    args->first = rng_below(r, 2) ? 0 : rng_range(r, 0, MOST_FIRST);
    args->end = args->first + rng_range(r, 1, most < 150 ? most : 150);
}

void case_make_score(kernel_case *c, rng *r) {
    qsa_score_args *args = &c->args.score;
    const values_kind kind = case_kind(c, r), key_kind = case_kind(c, r);
    draw_geometry(args, c->shape, r);
    args->divisor = sqrtf((float)args->dim);

    // All blocks first..end-1, or as many from a list that leaves some out.
    static int32_t blocks[MOST_FIRST + MOST], order[2 * MOST];
    int32_t block = args->first;
    const bool listed = !c->shape && rng_below(r, 2);
    for (int32_t b = args->first; b < args->end; b++, block++) {
        block += listed ? (int32_t)rng_below(r, 4) : 0;
        blocks[b] = block;
    }
    // Pages lie anywhere among twice as many; keys of other pages and blocks are poison.
    const int32_t page0 = blocks[args->first] / args->page_blocks, pages = (block - 1) / args->page_blocks + 1 - page0;
    int32_t low = INT32_MAX, high = 0;
    rng_shuffle(r, c->shape ? pages : 2 * pages, order);
    for (int32_t b = args->first; b < args->end; b++) {
        const int32_t row =
            order[blocks[b] / args->page_blocks - page0] * args->page_blocks + blocks[b] % args->page_blocks;
        low = row < low ? row : low;
        high = row > high ? row : high;
    }
    const size_t bytes = (size_t)args->dim * qsa_type_size(args->format);
    const int keys = case_add(c, CASE_IN, (size_t)(high - low + 1) * bytes);
    for (int32_t b = args->first; b < args->end; b++) {
        const int32_t row =
            order[blocks[b] / args->page_blocks - page0] * args->page_blocks + blocks[b] % args->page_blocks;
        values_fill(r, key_kind, args->format, (size_t)args->dim,
                    case_use(c, keys, (size_t)(row - low) * bytes, bytes));
    }
    const size_t table_bytes = (size_t)pages * sizeof(int32_t);
    const int table = case_add(c, CASE_IN, table_bytes);
    memcpy(case_use(c, table, 0, table_bytes), order, table_bytes);
    const size_t q_count = (size_t)args->heads * (size_t)args->dim;
    const int q = case_add(c, CASE_IN, q_count * sizeof(float));
    values_fill(r, kind, QSA_F32, q_count, case_use(c, q, 0, q_count * sizeof(float)));
    const size_t score_bytes = (size_t)(args->end - args->first) * sizeof(float);
    const int scores = case_add(c, CASE_OUT, score_bytes);
    case_use(c, scores, 0, score_bytes);
    case_point(c, &args->index_q, q, 0);
    case_element(c, keys, args->format);
    case_point(c, &args->block_keys, keys, -(int64_t)((size_t)low * bytes));
    case_point(c, &args->page_table, table, -(int64_t)((size_t)page0 * sizeof(int32_t)));
    case_point(c, &args->scores, scores, 0);
    if (listed) {
        const size_t list_bytes = (size_t)(args->end - args->first) * sizeof(int32_t);
        const int list = case_add(c, CASE_IN, list_bytes);
        memcpy(case_use(c, list, 0, list_bytes), blocks + args->first, list_bytes);
        case_point(c, &args->blocks, list, -(int64_t)((size_t)args->first * sizeof(int32_t)));
    }
    snprintf(c->what, sizeof c->what, "q %s, keys %s %s, heads %d, dim %d, page_blocks %d, blocks %d..%d%s",
             values_name(kind), values_type_name(args->format), values_name(key_kind), args->heads, args->dim,
             args->page_blocks, args->first, args->end - 1, listed ? " of a list" : "");
}

const case_plan case_plan_score = {{{"2048 blocks", 8192, true}}, 1, 3, 1};
