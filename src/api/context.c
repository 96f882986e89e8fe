// SPDX-License-Identifier: Apache-2.0
//
// The context: threads, memory hook, and which row of every kernel runs.

#include "api/device.h"
#include "api/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *user, size_t bytes, size_t align) {
    (void)user;
    return qsa_default_alloc(bytes, align);
}

static void default_free(void *user, void *memory, size_t bytes) {
    (void)user;
    (void)bytes;
    free(memory);
}

void qsa_context_config_init(qsa_context_config *config) {
    if (config)
        *config = (qsa_context_config){.size = sizeof *config, .threads = 1};
}

static qsa_status check_config(const qsa_context_config *config) {
    QSA_REQUIRE_STRUCT("qsa_context_create", config, "config");
    QSA_REQUIRE_ARG(config->backend == QSA_BACKEND_CPU || config->backend == QSA_BACKEND_CUDA,
                    "qsa_context_create: config->backend is %d, must be 0 (cpu) or 1 (cuda)", (int)config->backend);
    QSA_REQUIRE_ARG(config->kernel_class == QSA_CLASS_STRICT || config->kernel_class == QSA_CLASS_FAST,
                    "qsa_context_create: config->kernel_class is %d, must be 0 (strict) or 1 (fast)",
                    (int)config->kernel_class);
    QSA_REQUIRE_ARG(config->device >= 0, "qsa_context_create: config->device is %d, must not be negative",
                    (int)config->device);
    const int fast = config->kernel_class == QSA_CLASS_FAST && config->backend == QSA_BACKEND_CPU;
    const char *no_fast = fast ? qsa_table_no_fast() : NULL;
    QSA_REQUIRE(!no_fast || *no_fast, QSA_ERR_UNSUPPORTED,
                "qsa_context_create: this build has no kernels of class fast for the backend cpu");
    QSA_REQUIRE(!no_fast, QSA_ERR_UNSUPPORTED,
                "qsa_context_create: this machine can run no kernel of class fast: it %s", no_fast);
    QSA_REQUIRE_ARG(config->threads >= 1 && config->threads <= 1024,
                    "qsa_context_create: config->threads is %d, must be 1..1024", (int)config->threads);
    QSA_REQUIRE_ARG(!config->allocator.alloc == !config->allocator.free,
                    "qsa_context_create: config->allocator.%s is null and the other is not",
                    config->allocator.alloc ? "free" : "alloc");
    return QSA_OK;
}

static void log_kernels(const qsa_context *context) {
    if (!context->log)
        return;
    for (int k = 0; k < QSA_K_COUNT; k++) {
        char line[128];
        snprintf(line, sizeof line, "kernel %s of stage %s: %s", context->picked[k]->kernel, context->picked[k]->stage,
                 context->picked[k]->name);
        context->log(context->log_user, line);
    }
}

qsa_status qsa_context_create(const qsa_context_config *config, qsa_context **context) {
    qsa_context_config defaults;
    qsa_context_config_init(&defaults);
    config = config ? config : &defaults;
    QSA_REQUIRE_ARG(context, "qsa_context_create: context is null");
    QSA_TRY(check_config(config));
    qsa_allocator allocator = config->allocator;
    if (!allocator.alloc)
        allocator = (qsa_allocator){default_alloc, default_free, NULL};
    qsa_context *made = allocator.alloc(allocator.user, sizeof *made, 64);
    QSA_REQUIRE(made, QSA_ERR_MEMORY, "qsa_context_create: no memory for a context of %zu bytes", sizeof *made);
    *made = (qsa_context){.allocator = allocator,
                          .kernel_class = config->kernel_class,
                          .threads = config->threads,
                          .parallel_for = config->parallel_for,
                          .parallel_user = config->parallel_user,
                          .log = config->log,
                          .log_user = config->log_user};
    if (config->backend == QSA_BACKEND_CUDA) {
        const qsa_status status = qsa_device_open(made, config);
        if (status != QSA_OK) {
            allocator.free(allocator.user, made, sizeof *made);
            return status;
        }
    } else if (config->threads > 1 && !config->parallel_for) {
        made->pool = qsa_pool_create(config->threads, &made->allocator);
        if (!made->pool) {
            allocator.free(allocator.user, made, sizeof *made);
            return qsa_fail(QSA_ERR_MEMORY, "qsa_context_create: no memory or no thread for a pool of %d threads",
                            (int)config->threads);
        }
    }
    const qsa_class picked = made->device ? QSA_CLASS_STRICT : made->kernel_class;
    for (int k = 0; k < QSA_K_COUNT; k++) {
        made->picked[k] = qsa_table_best((qsa_kernel_number)k, picked);
        qsa_table_pick(&made->kernels, made->picked[k]);
    }
    log_kernels(made);
    *context = made;
    return QSA_OK;
}

void qsa_context_destroy(qsa_context *context) {
    if (!context)
        return;
    qsa_device_close(context);
    qsa_pool_destroy(context->pool);
    qsa_allocator allocator = context->allocator;
    allocator.free(allocator.user, context, sizeof *context);
}

void qsa_context_run(qsa_context *context, int32_t n, qsa_task task, void *arg) {
    if (n <= 0)
        return;
    if (n == 1 || context->threads == 1) {
        for (int32_t i = 0; i < n; i++)
            task(arg, i);
    } else if (context->parallel_for) {
        context->parallel_for(context->parallel_user, n, task, arg);
    } else {
        qsa_pool_run(context->pool, n, task, arg);
    }
}
