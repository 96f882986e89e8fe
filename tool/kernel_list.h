// SPDX-License-Identifier: Apache-2.0
//
// The stages and their kernels, as the library's table lists them.

#ifndef QSA_TOOL_KERNEL_LIST_H
#define QSA_TOOL_KERNEL_LIST_H

#include "common.h"

#define KERNEL_STAGES 5

// Names of the stages in the order they run.
extern const char *const kernel_stages[KERNEL_STAGES];

// Row i of the library's table.
qsa_kernel_info kernel_row(int32_t i);

// Row i is the first of its kernel, so that a loop over rows meets each kernel once.
bool kernel_is_first(int32_t i);

// The stems that a context uses for a stage, in the table's order, with `separator` between them.
typedef struct kernel_names {
    char text[512];
} kernel_names;
kernel_names kernel_picked(const qsa_context *context, const char *stage, const char *separator);
// The same of a run over a cache: the fast kernel of a GPU takes the place of attend and merge where it serves the cache.
kernel_names kernel_used(const qsa_context *context, const qsa_cache *cache, const char *stage, const char *separator);

#endif
