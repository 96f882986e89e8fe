// SPDX-License-Identifier: Apache-2.0
//
// Lets another thread do it.
// KERNEL: gate
// EXPECT: lint imports pthread_create

#include "kernels/kernels.h"

int pthread_create(unsigned long *thread, const void *attributes, void *(*start)(void *), void *argument);

static void *work(void *args) {
    qsa_gate_ref(args);
    return NULL;
}

void qsa_gate_starts_thread_ref(const qsa_gate_args *args) {
    unsigned long thread;
    pthread_create(&thread, NULL, work, (void *)(uintptr_t)args);
}
