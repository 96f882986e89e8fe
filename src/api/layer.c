// SPDX-License-Identifier: Apache-2.0
//
// A layer: the norm factors in float32 and the rotary frequencies with their M-RoPE axes, in one allocation.

#include "api/device.h"
#include "num/load.h"
#include "num/num64.h"

#include <string.h>

// Frequency i turns with the height position if i % 3 == 1 and i < 3 * sections[1], with the width position if
// i % 3 == 2 and i < 3 * sections[2], else with the temporal one (the model's interleaved M-RoPE).
static uint8_t axis_of(const qsa_geometry *g, int32_t i) {
    if (i % 3 == 1 && i < 3 * (int64_t)g->sections[1])
        return 1;
    if (i % 3 == 2 && i < 3 * (int64_t)g->sections[2])
        return 2;
    return 0;
}

static const float *load_factor(float *out, const void *weights, const qsa_layer_config *config, int32_t dim) {
    qsa_load_row(out, weights, config->norm_type, dim);
    if (config->norm_form == QSA_NORM_ZERO_CENTRED)
        for (int32_t d = 0; d < dim; d++)
            out[d] = 1.0f + out[d];
    return out;
}

// The arrays behind the struct, as they lie.
static qsa_status copy_to_device(qsa_device *device, qsa_layer *layer, size_t bytes) {
    void *memory;
    QSA_TRY(qsa_device_check("qsa_layer_create", device, device->ops->alloc(device->handle, bytes, &memory)));
    layer->device = device;
    layer->on_device = memory;
    const int number = device->ops->copy(device->handle, memory, layer + 1, bytes, device->stream);
    return qsa_device_check("qsa_layer_create", device,
                            number ? number : device->ops->wait(device->handle, device->stream));
}

qsa_status qsa_layer_create(qsa_context *context, const qsa_layer_config *config, qsa_layer **layer) {
    QSA_REQUIRE_ARG(context, "qsa_layer_create: context is null");
    QSA_REQUIRE_STRUCT("qsa_layer_create", config, "config");
    QSA_REQUIRE_ARG(layer, "qsa_layer_create: layer is null");
    QSA_TRY(qsa_check_geometry("qsa_layer_create", &config->geometry));
    QSA_REQUIRE_ARG(config->norm_form == QSA_NORM_ZERO_CENTRED || config->norm_form == QSA_NORM_FACTOR,
                    "qsa_layer_create: config->norm_form is %d, must be 0 (zero-centred) or 1 (factor)",
                    (int)config->norm_form);
    QSA_REQUIRE_ARG(qsa_is_float_type(config->norm_type),
                    "qsa_layer_create: config->norm_type is %d, must be f32 (1), f16 (2) or bf16 (3)",
                    (int)config->norm_type);
    QSA_REQUIRE_ARG(config->q_norm, "qsa_layer_create: config->q_norm is null");
    QSA_REQUIRE_ARG(config->k_norm, "qsa_layer_create: config->k_norm is null");
    QSA_REQUIRE_ARG(config->index_q_norm, "qsa_layer_create: config->index_q_norm is null");
    QSA_REQUIRE_ARG(config->index_k_norm, "qsa_layer_create: config->index_k_norm is null");
    const qsa_geometry *g = &config->geometry;
    const int32_t half = g->rotary_dim / 2;
    const size_t floats = 2 * (size_t)g->head_dim + 2 * (size_t)g->index_dim + (size_t)half;
    const size_t bytes = sizeof(qsa_layer) + floats * sizeof(float) + (size_t)half;
    qsa_layer *made = context->allocator.alloc(context->allocator.user, bytes, 64);
    QSA_REQUIRE(made, QSA_ERR_MEMORY, "qsa_layer_create: no memory for a layer of %zu bytes", bytes);
    float *at = (float *)(made + 1), *frequencies = at + 2 * g->head_dim + 2 * g->index_dim;
    uint8_t *axes = (uint8_t *)(frequencies + half);
    for (int32_t i = 0; i < half; i++) {
        frequencies[i] = qsa_inv_freq(g->theta, i, g->rotary_dim);
        axes[i] = axis_of(g, i);
    }
    *made = (qsa_layer){
        .allocator = context->allocator,
        .bytes = bytes,
        .geometry = *g,
        .attend_scale = qsa_attend_scale(g->head_dim),
        .score_divisor = sqrtf((float)g->index_dim),
        .q_factor = load_factor(at, config->q_norm, config, g->head_dim),
        .k_factor = load_factor(at + g->head_dim, config->k_norm, config, g->head_dim),
        .iq_factor = load_factor(at + 2 * g->head_dim, config->index_q_norm, config, g->index_dim),
        .ik_factor = load_factor(at + 2 * g->head_dim + g->index_dim, config->index_k_norm, config, g->index_dim),
        .inv_freq = frequencies,
        .axis = axes,
    };
    if (context->device) {
        const qsa_status status = copy_to_device(context->device, made, floats * sizeof(float) + (size_t)half);
        if (status != QSA_OK) {
            qsa_layer_destroy(made);
            return status;
        }
    }
    *layer = made;
    return QSA_OK;
}

void qsa_layer_destroy(qsa_layer *layer) {
    if (!layer)
        return;
    if (layer->device)
        layer->device->ops->free(layer->device->handle, layer->on_device);
    qsa_allocator allocator = layer->allocator;
    allocator.free(allocator.user, layer, layer->bytes);
}
