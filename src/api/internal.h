// SPDX-License-Identifier: Apache-2.0
//
// What the files of src/api share: errors, the context, the layer.

#ifndef QSA_API_INTERNAL_H
#define QSA_API_INTERNAL_H

#include "backend/cpu/pool.h"
#include "backend/device.h"
#include "dispatch/table.h"
#include "num/num.h"
#include "qsa/qsa.h"

#if defined(__GNUC__)
#define QSA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define QSA_PRINTF(text, first)
#endif

// Stores the message for qsa_last_error and returns the status.
qsa_status qsa_fail(qsa_status status, const char *format, ...) QSA_PRINTF(2, 3);

// Leaves the function with a status and a message if the condition does not hold.
#define QSA_REQUIRE(condition, status, ...)                                                                            \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return qsa_fail(status, __VA_ARGS__);                                                                      \
    } while (0)
#define QSA_REQUIRE_ARG(condition, ...) QSA_REQUIRE(condition, QSA_ERR_ARGUMENT, __VA_ARGS__)
#define QSA_REQUIRE_STRUCT(call, pointer, name)                                                                        \
    do {                                                                                                               \
        QSA_REQUIRE_ARG(pointer, call ": " name " is null");                                                           \
        QSA_REQUIRE_ARG((pointer)->size == sizeof *(pointer), call ": " name "->size is %zu, this library's is %zu",   \
                        (pointer)->size, sizeof *(pointer));                                                           \
    } while (0)
// Passes a failing status on.
#define QSA_TRY(call)                                                                                                  \
    do {                                                                                                               \
        qsa_status qsa_try_status = (call);                                                                            \
        if (qsa_try_status != QSA_OK)                                                                                  \
            return qsa_try_status;                                                                                     \
    } while (0)

typedef struct qsa_device qsa_device; // api/device.h

struct qsa_context {
    qsa_allocator allocator;
    qsa_device *device; // null: the CPU
    qsa_class kernel_class;
    int32_t threads;
    qsa_parallel_for parallel_for; // the caller's, or null
    void *parallel_user;
    qsa_pool *pool; // null with one thread or the caller's parallel-for
    qsa_log log;
    void *log_user;
    qsa_kernel_set kernels;
    const qsa_kernel_row *picked[QSA_K_COUNT];
};

// Runs task(arg, i) for i in 0..n-1 on the context's threads; n <= 0 does nothing.
void qsa_context_run(qsa_context *context, int32_t n, qsa_task task, void *arg);

struct qsa_layer {
    qsa_allocator allocator;
    size_t bytes;
    qsa_geometry geometry;
    float attend_scale;     // 1 / sqrtf(D)
    float score_divisor;    // sqrtf(ID)
    const float *q_factor;  // [D]
    const float *k_factor;  // [D]
    const float *iq_factor; // [ID]
    const float *ik_factor; // [ID]
    const float *inv_freq;  // [R / 2]
    const uint8_t *axis;    // [R / 2]
    qsa_device *device;     // null: the CPU
    float *on_device;       // q_factor, k_factor, iq_factor, ik_factor, inv_freq, axis, one behind the other
};

// Checks with the caller's name in front of the message.
qsa_status qsa_check_geometry(const char *call, const qsa_geometry *geometry);
// QSA_OK if two geometries agree; names the first field that does not.
qsa_status qsa_check_same_geometry(const char *call, const qsa_geometry *layer, const qsa_geometry *cache);

// Cells of the widest selection: budget + ratio - 1.
static inline int64_t qsa_width(const qsa_geometry *g) {
    return (int64_t)g->budget + g->ratio - 1;
}
static inline int32_t qsa_groups(int32_t dim) {
    return (dim + QSA_GROUP - 1) / QSA_GROUP;
}
static inline int qsa_is_float_type(qsa_type type) {
    return type == QSA_F32 || type == QSA_F16 || type == QSA_BF16;
}
static inline float qsa_attend_scale(int32_t head_dim) {
    return 1.0f / sqrtf((float)head_dim);
}

#endif
