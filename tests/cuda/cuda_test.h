// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the backend cuda begin with: without a device they are skipped, and say why.
#ifndef QSA_TESTS_CUDA_TEST_H
#define QSA_TESTS_CUDA_TEST_H

#include "qsa/qsa.h"

#include <stdio.h>
#include <stdlib.h>

static inline void cuda_need(void) {
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.backend = QSA_BACKEND_CUDA;
    qsa_context *context;
    if (qsa_context_create(&config, &context) != QSA_OK) {
        printf("skipped: %s\n", qsa_last_error());
        exit(77);
    }
    printf("device: %s\n", qsa_context_device(context));
    qsa_context_destroy(context);
}

#endif
