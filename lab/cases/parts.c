// SPDX-License-Identifier: Apache-2.0
//
// Pieces of several kernels' cases.
#include "lab/cases/parts.h"

#include <stdlib.h>
#include <string.h>

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

void case_add_angles(kernel_case *c, rng *r, qsa_angles_args *args, int32_t position[3]) {
    const size_t half = (size_t)args->half;
    const int frequencies = case_add(c, CASE_IN, half * sizeof(float));
    rng_fill_uniform(r, half, 1e-8, 1, (float *)(void *)case_use(c, frequencies, 0, half * sizeof(float)));
    const int axis = case_add(c, CASE_IN, half), positions = case_add(c, CASE_IN, 3 * sizeof(int32_t));
    unsigned char *axes = case_use(c, axis, 0, half);
    for (size_t i = 0; i < half; i++)
        axes[i] = (unsigned char)rng_below(r, 3);
    for (int i = 0; i < 3; i++)
        position[i] = c->shape ? c->shape->cells - 1 : values_draw_position(r, 30);
    memcpy(case_use(c, positions, 0, 3 * sizeof(int32_t)), position, 3 * sizeof(int32_t));
    case_point(c, &args->inv_freq, frequencies, 0);
    case_point(c, &args->axis, axis, 0);
    case_point(c, &args->positions, positions, 0);
}

void case_add_raw_keys(kernel_case *c, rng *r, values_kind kind, qsa_type common, int mixed, qsa_pool_args *args) {
    const size_t slot = (size_t)args->dim * sizeof(float) + (c->shape ? 0 : rng_below(r, 9)); // the last of them flush
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
