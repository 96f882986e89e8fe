// SPDX-License-Identifier: Apache-2.0
//
// Calls of the kernel store.
#include "lab/cases/parts.h"

#include <stdbool.h>
#include <stdio.h>

// A row whose quotients lie at, just below and just above k + 1/2, where a code that is not made by one division is another one.
static void fill_near_ties(rng *r, int32_t dim, unsigned char *row) {
    float scale = 1;
    for (int32_t d = 0; d < dim; d++) {
        if (d % QSA_GROUP == 0)
            scale = qsa_f32_of_f16((uint16_t)rng_range(r, 0x1800, 0x2c00));
        const float half = (float)rng_range(r, -127, 126) + 0.5f;
        const uint32_t bits = qsa_bits_of_f32(half * scale) + (uint32_t)rng_range(r, -1, 1);
        // The largest is 127 x scale, so that the scale is stored as it is.
        qsa_put(row, QSA_F32, d, d % QSA_GROUP == 0 ? 127 * scale : qsa_f32_of_bits(bits));
    }
}

void case_make_store(kernel_case *c, rng *r) {
    qsa_store_args *args = &c->args.store;
    const values_kind kind = case_kind(c, r);
    args->type = c->shape ? QSA_F32 : values_draw_type(r);
    args->format = c->shape ? QSA_I8 : (qsa_type)rng_range(r, QSA_F32, QSA_I8);
    args->vectors = c->shape ? MODEL_KV_HEADS : rng_range(r, 1, 8);
    args->dim = c->shape ? MODEL_DIM : values_draw_dim(r);
    int64_t first, code_first, scale_first;
    const int x = case_add_vectors(c, r, kind, CASE_IN, args->type, args->vectors, args->dim, &args->x_stride, &first);
    // Tiny and huge groups: scales that are subnormal, zero or saturated.
    if (args->type == QSA_F32 && kind == VALUES_NORMAL && !c->shape && rng_below(r, 2)) {
        static const float factors[] = {1e-5f, 1e-6f, 4e-7f, 3e6f, 1e7f, 1e30f, 1e-42f};
        const float factor = factors[rng_below(r, 7)];
        for (int32_t v = 0; v < args->vectors; v++)
            for (int32_t d = 0; d < args->dim; d++) {
                unsigned char *row = c->buffer[x].content + (first + v * args->x_stride);
                qsa_put(row, QSA_F32, d, qsa_load(row, QSA_F32, d) * factor);
            }
    }
    const bool ties = args->type == QSA_F32 && args->format == QSA_I8 &&
                      (c->shape ? c->shape->edge != CASE_ORDINARY : rng_below(r, 4) == 0);
    for (int32_t v = 0; ties && v < args->vectors; v++)
        fill_near_ties(r, args->dim, c->buffer[x].content + (first + v * args->x_stride));
    const size_t element = qsa_type_size(args->format), bytes = (size_t)args->dim * element;
    args->code_stride = case_stride(c, r, bytes, element);
    const int codes = case_add_rows(c, CASE_OUT, args->vectors, bytes, args->code_stride, &code_first);
    case_point(c, &args->x, x, first);
    case_element(c, codes, args->format);
    case_point(c, &args->codes, codes, code_first);
    if (args->format == QSA_I8) {
        const size_t groups = ((size_t)args->dim + QSA_GROUP - 1) / QSA_GROUP;
        const int64_t stride = case_stride(c, r, 2 * groups, 2);
        const int scales = case_add_rows(c, CASE_OUT, args->vectors, 2 * groups, stride, &scale_first);
        args->scale_stride = stride / 2;
        case_point(c, &args->scales, scales, scale_first);
    }
    case_point(c, &args->events, case_add_events(c, r), 0);
    snprintf(c->what, sizeof c->what, "%s %s to %s, vectors %d, dim %d, x_stride %lld", values_type_name(args->type),
             ties ? "near ties" : values_name(kind), values_type_name(args->format), args->vectors, args->dim,
             (long long)args->x_stride);
}

const case_plan case_plan_store = {{{"keys of a row", 1, false}}, 1, 3, 1};
