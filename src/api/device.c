// SPDX-License-Identifier: Apache-2.0
//
// The device of a context: opening it, its memory, its stream, and the plan of the rows in flight.

#include "api/device.h"

#include <stdio.h>
#include <string.h>

qsa_status qsa_device_check(const char *call, const qsa_device *device, int number) {
    if (number == 0)
        return QSA_OK;
    return qsa_fail(number == QSA_DEVICE_OUT_OF_MEMORY ? QSA_ERR_MEMORY : QSA_ERR_DEVICE, "%s: %s reports: %s", call,
                    device->ops->name(device->handle), device->ops->error(number));
}

qsa_status qsa_check_devices(const char *call, const qsa_context *context, const qsa_layer *layer,
                             const qsa_cache *cache) {
    const int32_t number = context->device ? context->device->number : -1;
    const int32_t of_layer = layer && layer->device ? layer->device->number : -1;
    const int32_t of_cache = cache && cache->device ? cache->device->number : -1;
    QSA_REQUIRE_ARG(!layer || number == of_layer, "%s: the context is of device %d, the layer of %d (-1: cpu)", call,
                    (int)number, (int)of_layer);
    QSA_REQUIRE_ARG(!cache || number == of_cache, "%s: the context is of device %d, the cache of %d (-1: cpu)", call,
                    (int)number, (int)of_cache);
    return QSA_OK;
}

// Host and device memory of a device's plan.
static qsa_status make_plan(qsa_context *context) {
    qsa_device *device = context->device;
    const size_t rows = QSA_DEVICE_ROWS * sizeof(qsa_cuda_row), numbers = 3 * QSA_DEVICE_ROWS * sizeof(int32_t);
    void *plan;
    QSA_TRY(qsa_device_check("qsa_context_create", device, device->ops->alloc(device->handle, rows, &plan)));
    device->plan = plan;
    device->known = context->allocator.alloc(context->allocator.user, rows, 64);
    device->numbers = context->allocator.alloc(context->allocator.user, numbers, 64);
    QSA_REQUIRE(device->known && device->numbers, QSA_ERR_MEMORY,
                "qsa_context_create: no memory for a plan of %zu bytes", rows + numbers);
    return QSA_OK;
}

qsa_status qsa_device_open(qsa_context *context, const qsa_context_config *config) {
    char why[512];
    const qsa_device_ops *ops = qsa_device_load(config->plugin, why, sizeof why);
    QSA_REQUIRE(ops, QSA_ERR_UNSUPPORTED, "qsa_context_create: no backend cuda: %s", why);
    void *handle;
    QSA_REQUIRE(ops->open(config->device, &handle, why, sizeof why) == 0, QSA_ERR_UNSUPPORTED,
                "qsa_context_create: no backend cuda: %s", why);
    qsa_device *device = context->allocator.alloc(context->allocator.user, sizeof *device, 64);
    if (!device) {
        ops->close(handle);
        return qsa_fail(QSA_ERR_MEMORY, "qsa_context_create: no memory for a device of %zu bytes", sizeof *device);
    }
    *device = (qsa_device){.ops = ops, .handle = handle, .number = config->device};
    context->device = device;
    const qsa_status status = make_plan(context);
    if (status != QSA_OK)
        qsa_device_close(context);
    return status;
}

void qsa_device_close(qsa_context *context) {
    qsa_device *device = context->device;
    if (!device)
        return;
    const qsa_allocator *a = &context->allocator;
    if (device->plan)
        device->ops->free(device->handle, device->plan);
    if (device->known)
        a->free(a->user, device->known, QSA_DEVICE_ROWS * sizeof(qsa_cuda_row));
    if (device->numbers)
        a->free(a->user, device->numbers, 3 * QSA_DEVICE_ROWS * sizeof(int32_t));
    device->ops->close(device->handle);
    a->free(a->user, device, sizeof *device);
    context->device = NULL;
}

qsa_status qsa_context_set_stream(qsa_context *context, void *stream) {
    QSA_REQUIRE_ARG(context, "qsa_context_set_stream: context is null");
    QSA_REQUIRE(context->device, QSA_ERR_UNSUPPORTED, "qsa_context_set_stream: the context is of the cpu");
    context->device->stream = stream;
    context->device->known_rows = 0; // the plan went over on another stream
    return QSA_OK;
}

qsa_status qsa_context_wait(qsa_context *context) {
    QSA_REQUIRE_ARG(context, "qsa_context_wait: context is null");
    const qsa_device *device = context->device;
    if (!device)
        return QSA_OK;
    return qsa_device_check("qsa_context_wait", device, device->ops->wait(device->handle, device->stream));
}

const char *qsa_context_device(const qsa_context *context) {
    return context && context->device ? context->device->ops->name(context->device->handle) : "cpu";
}

qsa_status qsa_memory_alloc(qsa_context *context, size_t bytes, void **memory) {
    QSA_REQUIRE_ARG(context, "qsa_memory_alloc: context is null");
    QSA_REQUIRE_ARG(memory, "qsa_memory_alloc: memory is null");
    QSA_REQUIRE_ARG(bytes > 0, "qsa_memory_alloc: bytes is 0");
    void *made = NULL;
    if (context->device)
        QSA_TRY(qsa_device_check("qsa_memory_alloc", context->device,
                                 context->device->ops->alloc(context->device->handle, bytes, &made)));
    else
        made = context->allocator.alloc(context->allocator.user, bytes, 256);
    QSA_REQUIRE(made, QSA_ERR_MEMORY, "qsa_memory_alloc: no memory for %zu bytes", bytes);
    *memory = made;
    return QSA_OK;
}

void qsa_memory_free(qsa_context *context, void *memory, size_t bytes) {
    if (!context || !memory)
        return;
    if (context->device)
        context->device->ops->free(context->device->handle, memory);
    else
        context->allocator.free(context->allocator.user, memory, bytes);
}

qsa_status qsa_memory_copy(qsa_context *context, void *to, const void *from, size_t bytes) {
    QSA_REQUIRE_ARG(context, "qsa_memory_copy: context is null");
    if (bytes == 0)
        return QSA_OK;
    QSA_REQUIRE_ARG(to, "qsa_memory_copy: to is null");
    QSA_REQUIRE_ARG(from, "qsa_memory_copy: from is null");
    const qsa_device *device = context->device;
    if (!device) {
        memmove(to, from, bytes);
        return QSA_OK;
    }
    QSA_TRY(qsa_device_check("qsa_memory_copy", device,
                             device->ops->copy(device->handle, to, from, bytes, device->stream)));
    return qsa_device_check("qsa_memory_copy", device, device->ops->wait(device->handle, device->stream));
}

qsa_status qsa_device_most(const char *call, const qsa_context *context, const qsa_cache *cache, int32_t seen,
                           int32_t *most) {
    const qsa_device *device = context->device;
    int capturing;
    QSA_TRY(qsa_device_check(call, device, device->ops->capturing(device->handle, device->stream, &capturing)));
    *most = capturing ? cache->config.max_cells : seen;
    return QSA_OK;
}

// What `fill` makes is compared with what the device has; while a graph is captured nothing may go over.
qsa_status qsa_device_plan(const char *call, qsa_context *context, int32_t count, qsa_device_fill fill,
                           const void *arg) {
    qsa_device *device = context->device;
    QSA_REQUIRE(count <= QSA_DEVICE_ROWS, QSA_ERR_UNSUPPORTED, "%s: %d rows, backend cuda takes at most %d at once",
                call, (int)count, QSA_DEVICE_ROWS);
    int same = count == device->known_rows;
    for (int32_t i = 0; i < count; i++) {
        qsa_cuda_row row;
        memset(&row, 0, sizeof row);
        fill(arg, i, &row);
        same = same && memcmp(&row, &device->known[i], sizeof row) == 0;
        device->known[i] = row;
    }
    if (same)
        return QSA_OK;
    int capturing;
    device->known_rows = 0;
    QSA_TRY(qsa_device_check(call, device, device->ops->capturing(device->handle, device->stream, &capturing)));
    QSA_REQUIRE(!capturing, QSA_ERR_STATE,
                "%s: the stream is being captured, and this batch has not been run on it before", call);
    const size_t bytes = (size_t)count * sizeof(qsa_cuda_row);
    void *staged = device->ops->stage(device->handle, bytes);
    QSA_REQUIRE(staged, QSA_ERR_DEVICE, "%s: %s gives no memory to send %zu bytes from", call,
                device->ops->name(device->handle), bytes);
    memcpy(staged, device->known, bytes);
    QSA_TRY(qsa_device_check(call, device, device->ops->send(device->handle, device->plan, bytes, device->stream)));
    device->known_rows = count;
    return QSA_OK;
}
