// SPDX-License-Identifier: Apache-2.0
//
// An allocator hook for caches larger than memory: mmap without a reservation, so that only what is
// written exists. It counts what it gave. Include it first: it asks for MAP_ANONYMOUS and MAP_NORESERVE.
#ifndef QSA_TESTS_LAZY_MEMORY_H
#define QSA_TESTS_LAZY_MEMORY_H

#define _DEFAULT_SOURCE
#include <stddef.h>
#include <sys/mman.h>

typedef struct {
    size_t held, peak;
    long allocations;
} hook;

static inline void *hook_alloc(void *user, size_t bytes, size_t align) {
    hook *h = user;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)align; // a page aligns to anything the library asks for
    h->held += bytes;
    h->peak = h->held > h->peak ? h->held : h->peak;
    h->allocations++;
    return p == MAP_FAILED ? NULL : p;
}

static inline void hook_free(void *user, void *memory, size_t bytes) {
    hook *h = user;
    h->held -= bytes;
    munmap(memory, bytes);
}

#endif
