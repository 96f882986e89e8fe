// SPDX-License-Identifier: Apache-2.0
//
// Pieces of several kernels' cases.
#include "lab/cases/parts.h"

#include <stdlib.h>

const case_plan *case_plan_of(qsa_kernel_number number) {
    switch (number) {
#define CASE_PLAN(stage, kernel)                                                                                       \
    case QSA_K_##kernel:                                                                                               \
        return &case_plan_##kernel;
        QSA_KERNELS(CASE_PLAN)
#undef CASE_PLAN
    case QSA_K_COUNT:
        break;
    }
    abort();
}

values_kind case_kind(const kernel_case *c, rng *r) {
    if (!c->shape)
        return values_draw_kind(r);
    switch (c->shape->edge) {
    case CASE_ZEROS:
        return VALUES_FEW;
    case CASE_CANCEL:
        return VALUES_PAIRS;
    case CASE_ORDINARY:
        break;
    }
    return VALUES_NORMAL;
}

int64_t case_stride(const kernel_case *c, rng *r, size_t bytes, size_t unit) {
    return c->shape ? (int64_t)bytes : values_draw_stride(r, bytes, unit);
}

int32_t case_attended(int32_t cells) {
    return cells < MODEL_BUDGET + MODEL_RATIO ? cells : MODEL_BUDGET + cells % MODEL_RATIO;
}

int32_t case_blocks(int32_t cells) {
    return cells < MODEL_RATIO ? 1 : cells / MODEL_RATIO;
}

int case_add_floats(kernel_case *c, rng *r, values_kind kind, int32_t n) {
    const int i = case_add(c, CASE_IN, (size_t)n * sizeof(float));
    values_fill(r, kind, QSA_F32, (size_t)n, case_use(c, i, 0, (size_t)n * sizeof(float)));
    return i;
}

int case_add_vectors(kernel_case *c, rng *r, values_kind kind, case_role role, qsa_type type, int32_t vectors,
                     int32_t dim, int64_t *stride, int64_t *first) {
    const size_t bytes = (size_t)dim * qsa_type_size(type);
    *stride = case_stride(c, r, bytes, 1);
    const int i = case_add_rows(c, role, vectors, bytes, *stride, first);
    case_element(c, i, type);
    c->buffer[i].shift = c->shape || rng_below(r, 4) ? 0 : rng_below(r, 8);
    for (int32_t v = 0; role != CASE_OUT && v < vectors; v++)
        values_fill(r, kind, type, (size_t)dim, c->buffer[i].content + (*first + v * *stride));
    return i;
}

int case_add_events(kernel_case *c, rng *r) {
    const int i = case_add(c, CASE_INOUT, 3 * sizeof(uint64_t));
    rng_fill_bytes(r, 3 * sizeof(uint64_t), case_use(c, i, 0, 3 * sizeof(uint64_t)));
    return i;
}

float case_draw_eps(rng *r) {
    static const float eps[] = {1e-6f, 1e-5f, 1e-30f, 0.5f};
    return eps[rng_below(r, 4)];
}

void case_fill_far(rng *r, values_kind kind, qsa_type type, size_t n, void *out) {
    static const float factors[] = {0x1p-60f, 0x1p-50f, 0x1p-140f, 0x1p49f, 0x1p50f, 0x1p60f};
    values_fill(r, kind, type, n, out);
    if (type != QSA_F32 || kind != VALUES_NORMAL || rng_below(r, 4))
        return;
    const float factor = factors[rng_below(r, 6)];
    for (size_t i = 0; i < n; i++)
        qsa_put(out, QSA_F32, (int32_t)i, qsa_load(out, QSA_F32, (int32_t)i) * factor);
}
