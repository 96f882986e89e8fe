// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel attend.
#include "lab/cases/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The rows `order` of `bytes` bytes between the lowest and the highest of them; others are poison.
static int add_cells(kernel_case *c, const int32_t *order, int32_t count, int32_t low, int32_t high, size_t bytes) {
    const int i = case_add(c, CASE_IN, (size_t)(high - low + 1) * bytes);
    for (int32_t n = 0; n < count; n++)
        case_use(c, i, (size_t)(order[n] - low) * bytes, bytes);
    return i;
}

static void add_kv(kernel_case *c, rng *r, values_kind kind, const int32_t *order, const char *name, void *pointer,
                   void *scales) {
    const qsa_attend_args *args = &c->args.attend;
    int32_t low = order[0], high = order[0];
    for (int32_t n = 1; n < args->count; n++) {
        low = order[n] < low ? order[n] : low;
        high = order[n] > high ? order[n] : high;
    }
    const size_t dim = (size_t)args->dim, bytes = dim * qsa_type_size(args->format);
    const int rows = add_cells(c, order, args->count, low, high, bytes);
    for (int32_t n = 0; n < args->count; n++) {
        unsigned char *row = c->buffer[rows].content + (size_t)(order[n] - low) * bytes;
        if (args->format == QSA_I8)
            rng_fill_bytes(r, bytes, row); // -128 too
        else
            values_fill(r, kind, args->format, dim, row);
    }
    case_point_as(c, pointer, rows, -(int64_t)((size_t)low * bytes), name, CASE_BYTES);
    case_element(c, rows, args->format);
    if (args->format == QSA_I8) {
        const size_t groups = (dim + QSA_GROUP - 1) / QSA_GROUP;
        const int at = add_cells(c, order, args->count, low, high, 2 * groups);
        for (int32_t n = 0; n < args->count; n++)
            values_fill_scales(r, kind != VALUES_NORMAL, groups,
                               c->buffer[at].content + (size_t)(order[n] - low) * 2 * groups);
        case_point_as(c, scales, at, -(int64_t)((size_t)low * 2 * groups), name, CASE_F16);
    }
}

enum { MOST = 200, ROWS = 2 * (MODEL_BUDGET + MODEL_RATIO) };

static void draw_geometry(kernel_case *c, rng *r) {
    static const int32_t counts[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 200};
    qsa_attend_args *args = &c->args.attend;
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->format = (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    args->count = rng_below(r, 2) ? counts[rng_below(r, sizeof counts / sizeof counts[0])] : rng_range(r, 1, MOST);
    const int32_t most = 1 + 120000 / (args->heads * args->dim);
    args->count = args->count < most ? args->count : most;
}

void case_make_attend(kernel_case *c, rng *r) {
    qsa_attend_args *args = &c->args.attend;
    const values_kind k_kind = case_kind(c, r), v_kind = case_kind(c, r);
    const values_kind q_kind = k_kind == VALUES_MINUS ? VALUES_ABOVE : case_kind(c, r);
    if (c->shape) {
        args->heads = MODEL_HEADS / MODEL_KV_HEADS;
        args->dim = MODEL_DIM;
        args->format = QSA_I8;
        args->count = case_attended(c->shape->cells);
    } else {
        draw_geometry(c, r);
    }
    args->scale = 1 / sqrtf((float)args->dim);

    int32_t order[ROWS]; // row numbers of pages in any order
    rng_shuffle(r, 2 * args->count, order);
    const size_t cell_bytes = (size_t)args->count * sizeof(int32_t);
    const int cells = case_add(c, CASE_IN, cell_bytes);
    memcpy(case_use(c, cells, 0, cell_bytes), order, cell_bytes);
    add_kv(c, r, k_kind, order, "k", &args->k, &args->k_scales);
    add_kv(c, r, v_kind, order, "v", &args->v, &args->v_scales);
    const size_t q_count = (size_t)args->heads * (size_t)args->dim;
    const int q = case_add(c, CASE_IN, q_count * sizeof(float));
    values_fill(r, q_kind, QSA_F32, q_count, case_use(c, q, 0, q_count * sizeof(float)));
    const size_t bytes = (size_t)args->heads * (size_t)(2 + args->dim) * sizeof(float);
    const int64_t stride = llabs(case_stride(c, r, bytes, sizeof(float)));
    int64_t first;
    const int records = case_add_rows(c, CASE_OUT, (args->count + QSA_CHUNK - 1) / QSA_CHUNK, bytes, stride, &first);
    args->chunk_stride = stride / (int64_t)sizeof(float);
    case_point(c, &args->q, q, 0);
    case_point(c, &args->cells, cells, 0);
    case_point(c, &args->records, records, first);
    snprintf(c->what, sizeof c->what, "q %s, k %s, v %s, %s, heads %d, dim %d, cells %d", values_name(q_kind),
             values_name(k_kind), values_name(v_kind), values_type_name(args->format), args->heads, args->dim,
             args->count);
}

const case_plan case_plan_attend = {{{"decode at 8192", 8192, true}, {"prompt at 512", 512, false}}, 2, 3, 1};
