// SPDX-License-Identifier: Apache-2.0
//
// Walks the library's kernel table; a stage may have several kernels, a kernel several rows.

#include "kernel_list.h"

#include "host/host_call.h"

#include <stdio.h>
#include <string.h>

const char *const kernel_stages[KERNEL_STAGES] = {"prep", "score", "topk", "attend", "merge"};

qsa_kernel_info kernel_row(int32_t i) {
    qsa_kernel_info info = {.size = sizeof info};
    if (qsa_kernel_at(i, &info) != QSA_OK) {
        info.stage = info.kernel = info.where = info.name = info.reason = "";
    }
    return info;
}

bool kernel_is_first(int32_t i) {
    const qsa_kernel_info info = kernel_row(i);
    for (int32_t j = 0; j < i; j++) {
        const qsa_kernel_info other = kernel_row(j);
        if (strcmp(info.stage, other.stage) == 0 && strcmp(info.kernel, other.kernel) == 0) {
            return false;
        }
    }
    return true;
}

kernel_names kernel_picked(const qsa_context *context, const char *stage, const char *separator) {
    kernel_names names = {""};
    size_t used = 0;
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        const qsa_kernel_info info = kernel_row(i);
        const char *name = qsa_context_kernel(context, info.kernel);
        // On a GPU one row is several of the table's kernels.
        if (name && strcmp(info.stage, stage) == 0 && kernel_is_first(i) && used < sizeof names.text &&
            !strstr(names.text, name)) {
            used += (size_t)snprintf(names.text + used, sizeof names.text - used, "%s%s", used ? separator : "", name);
        }
    }
    return names;
}

kernel_names kernel_used(const qsa_context *context, const qsa_cache *cache, const char *stage, const char *separator) {
    if (strcmp(stage, "attend") == 0 && host_has_fast(context, cache)) {
        return (kernel_names){"attention_cuda"};
    }
    if (strcmp(stage, "merge") == 0 && host_has_fast(context, cache)) {
        return (kernel_names){"gate_cuda"};
    }
    return kernel_picked(context, stage, separator);
}
