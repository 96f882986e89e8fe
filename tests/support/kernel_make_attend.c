// SPDX-License-Identifier: Apache-2.0
//
// Random calls of the kernels attend, merge and gate.
#include "kernel_case.h"
#include "kernel_values.h"

#include "num/load.h"

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

static void add_kv(kernel_case *c, rng *r, values_kind kind, const int32_t *order, const void *pointer,
                   const uint16_t *const *scales) {
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
    case_point(c, (void *)(uintptr_t)pointer, rows, -(int64_t)((size_t)low * bytes));
    if (args->format == QSA_I8) {
        const size_t groups = (dim + QSA_GROUP - 1) / QSA_GROUP;
        const int at = add_cells(c, order, args->count, low, high, 2 * groups);
        for (int32_t n = 0; n < args->count; n++)
            values_fill_scales(r, kind != VALUES_NORMAL, groups,
                               c->buffer[at].content + (size_t)(order[n] - low) * 2 * groups);
        case_point(c, (void *)(uintptr_t)scales, at, -(int64_t)((size_t)low * 2 * groups));
    }
}

void case_make_attend(kernel_case *c, rng *r) {
    static const int32_t counts[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 200};
    enum { MOST = 200, ROWS = 2 * MOST };
    qsa_attend_args *args = &c->args.attend;
    const values_kind k_kind = values_draw_kind(r), v_kind = values_draw_kind(r);
    const values_kind q_kind = k_kind == VALUES_MINUS ? VALUES_ABOVE : values_draw_kind(r);
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->scale = 1 / sqrtf((float)args->dim);
    args->format = (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    args->count = rng_below(r, 2) ? counts[rng_below(r, sizeof counts / sizeof counts[0])] : rng_range(r, 1, MOST);
    const int32_t most = 1 + 120000 / (args->heads * args->dim);
    args->count = args->count < most ? args->count : most;

    int32_t order[ROWS]; // row numbers of pages in any order
    rng_shuffle(r, 2 * args->count, order);
    const size_t cell_bytes = (size_t)args->count * sizeof(int32_t);
    const int cells = case_add(c, CASE_IN, cell_bytes);
    memcpy(case_use(c, cells, 0, cell_bytes), order, cell_bytes);
    add_kv(c, r, k_kind, order, &args->k, &args->k_scales);
    add_kv(c, r, v_kind, order, &args->v, &args->v_scales);
    const size_t q_count = (size_t)args->heads * (size_t)args->dim;
    const int q = case_add(c, CASE_IN, q_count * sizeof(float));
    values_fill(r, q_kind, QSA_F32, q_count, case_use(c, q, 0, q_count * sizeof(float)));
    const size_t bytes = (size_t)args->heads * (size_t)(2 + args->dim) * sizeof(float);
    const int64_t stride = llabs(values_draw_stride(r, bytes, sizeof(float)));
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

// Gates or inputs of `heads` vectors; the role of x in place is INOUT.
static int add_vectors(kernel_case *c, rng *r, values_kind kind, case_role role, qsa_type type, int32_t heads,
                       int32_t dim, int64_t *stride, int64_t *first) {
    const size_t bytes = (size_t)dim * qsa_type_size(type);
    *stride = values_draw_stride(r, bytes, 1);
    const int i = case_add_rows(c, role, heads, bytes, *stride, first);
    c->buffer[i].shift = rng_below(r, 4) ? 0 : rng_below(r, 8);
    for (int32_t h = 0; role != CASE_OUT && h < heads; h++)
        values_fill(r, kind, type, (size_t)dim, c->buffer[i].content + (*first + h * *stride));
    return i;
}

// A record whose l is 0 holds nothing: its other numbers are poison.
static void fill_record(kernel_case *c, rng *r, values_kind kind, int buffer, size_t at, int32_t dim) {
    const double spread = rng_below(r, 4) ? 4 : 60;
    const float m = (float)(rng_normal(r) * spread), l = (float)(1 + 63 * rng_uniform(r));
    const bool empty = rng_below(r, 8) == 0;
    const float stored = empty ? (rng_below(r, 2) ? 0.0f : -0.0f) : l;
    memcpy(case_use(c, buffer, at + sizeof(float), sizeof l), &stored, sizeof l);
    if (empty)
        return;
    memcpy(case_use(c, buffer, at, sizeof m), &m, sizeof m);
    values_fill(r, kind, QSA_F32, (size_t)dim, case_use(c, buffer, at + 8, (size_t)dim * sizeof(float)));
    if (kind != VALUES_NORMAL && rng_below(r, 8) == 0)
        values_fill(r, kind, QSA_F32, 1, c->buffer[buffer].content + at);
    if (kind != VALUES_NORMAL && rng_below(r, 8) == 0)
        values_fill(r, kind, QSA_F32, 1, c->buffer[buffer].content + at + sizeof(float));
}

void case_make_merge(kernel_case *c, rng *r) {
    qsa_merge_args *args = &c->args.merge;
    const values_kind kind = values_draw_kind(r), gate_kind = values_draw_kind(r);
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->chunks = rng_below(r, 8) ? rng_range(r, 1, 8) : rng_below(r, 2) ? 0 : 33;
    const int32_t most = 1 + 60000 / (args->heads * args->dim);
    args->chunks = args->chunks < most ? args->chunks : most;
    const size_t record = (size_t)(2 + args->dim) * sizeof(float), bytes = (size_t)args->heads * record;
    args->chunk_stride = (int64_t)(bytes / sizeof(float)) + (rng_below(r, 2) ? 0 : rng_range(r, 1, 40));
    const size_t stride = (size_t)args->chunk_stride * sizeof(float);
    const int records = case_add(c, CASE_IN, args->chunks ? (size_t)(args->chunks - 1) * stride + bytes : 0);
    for (int32_t k = 0; k < args->chunks; k++)
        for (int32_t h = 0; h < args->heads; h++)
            fill_record(c, r, kind, records, (size_t)k * stride + (size_t)h * record, args->dim);
    case_point(c, &args->records, records, 0);
    int64_t first;
    if (rng_below(r, 2)) {
        args->gate_type = values_draw_type(r);
        const int gate =
            add_vectors(c, r, gate_kind, CASE_IN, args->gate_type, args->heads, args->dim, &args->gate_stride, &first);
        case_point(c, &args->gate, gate, first);
    }
    args->out_type = values_draw_type(r);
    const int out =
        add_vectors(c, r, kind, CASE_OUT, args->out_type, args->heads, args->dim, &args->out_stride, &first);
    case_point(c, &args->out, out, first);
    if (rng_below(r, 2)) {
        const int lse = case_add(c, CASE_OUT, (size_t)args->heads * sizeof(float));
        case_use(c, lse, 0, (size_t)args->heads * sizeof(float));
        case_point(c, &args->lse, lse, 0);
    }
    snprintf(c->what, sizeof c->what, "%s, chunks %d, heads %d, dim %d, gate %s %s, out %s", values_name(kind),
             args->chunks, args->heads, args->dim, args->gate_type ? values_type_name(args->gate_type) : "none",
             values_name(gate_kind), values_type_name(args->out_type));
}

void case_make_gate(kernel_case *c, rng *r) {
    qsa_gate_args *args = &c->args.gate;
    const values_kind kind = values_draw_kind(r), gate_kind = values_draw_kind(r);
    const bool in_place = rng_below(r, 4) == 0;
    args->heads = values_draw_heads(r);
    args->dim = values_draw_dim(r);
    args->x_type = values_draw_type(r);
    args->gate_type = values_draw_type(r);
    args->out_type = in_place ? args->x_type : values_draw_type(r);
    int64_t first, gate_first, out_first;
    const int x = add_vectors(c, r, kind, in_place ? CASE_INOUT : CASE_IN, args->x_type, args->heads, args->dim,
                              &args->x_stride, &first);
    const int gate =
        add_vectors(c, r, gate_kind, CASE_IN, args->gate_type, args->heads, args->dim, &args->gate_stride, &gate_first);
    int out = x;
    args->out_stride = args->x_stride;
    out_first = first;
    if (!in_place)
        out = add_vectors(c, r, kind, CASE_OUT, args->out_type, args->heads, args->dim, &args->out_stride, &out_first);
    case_point(c, &args->x, x, first);
    case_point(c, &args->gate, gate, gate_first);
    case_point(c, &args->out, out, out_first);
    snprintf(c->what, sizeof c->what, "x %s %s%s, gate %s %s, out %s, heads %d, dim %d", values_type_name(args->x_type),
             values_name(kind), in_place ? " in place" : "", values_type_name(args->gate_type), values_name(gate_kind),
             values_type_name(args->out_type), args->heads, args->dim);
}
