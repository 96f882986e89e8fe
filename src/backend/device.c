// SPDX-License-Identifier: Apache-2.0
//
// Finds and checks the plugin of a backend with memory of its own. It is never unloaded: the driver keeps threads and exit
// handlers in it.

#include "backend/device.h"

#include <stdio.h>

#if defined(_WIN32)
const qsa_device_ops *qsa_device_load(const char *plugin, char *why, size_t capacity) {
    (void)plugin;
    snprintf(why, capacity, "plugins cannot be loaded on this system");
    return NULL;
}
#else
#include <dlfcn.h>
#include <string.h>

static const char file_name[] = "libqsa_cuda.so.0";

const qsa_device_ops *qsa_device_load(const char *plugin, char *why, size_t capacity) {
    const char *name = plugin ? plugin : file_name;
    void *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *reason = dlerror();
        snprintf(why, capacity, "%s cannot be loaded: %.200s", name, reason ? reason : "no reason given");
        return NULL;
    }
    void *symbol = dlsym(object, QSA_DEVICE_SYMBOL);
    if (!symbol) {
        snprintf(why, capacity, "%s is no backend of qsa: it has no symbol " QSA_DEVICE_SYMBOL, name);
        return NULL;
    }
    qsa_device_entry entry;
    memcpy(&entry, &symbol, sizeof entry); // a function's address out of a data pointer, as POSIX has it
    const qsa_device_ops *ops = entry();
    if (ops->abi != QSA_DEVICE_ABI || ops->layout != QSA_DEVICE_LAYOUT) {
        snprintf(why, capacity, "%s is of another build of qsa (interface %u, layout %u; this library's are %u, %u)",
                 name, (unsigned)ops->abi, (unsigned)ops->layout, (unsigned)QSA_DEVICE_ABI,
                 (unsigned)QSA_DEVICE_LAYOUT);
        return NULL;
    }
    return ops;
}
#endif
