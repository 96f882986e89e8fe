// SPDX-License-Identifier: Apache-2.0
//
// Memory where the caller gives no hook.

#define _DEFAULT_SOURCE // madvise

#include "api/memory.h"

#include <stdint.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

// Selected blocks lie anywhere in a cache: with pages of 4 KiB nearly every row of a long context misses the TLB, four
// times (keys, values, their scales). What is smaller than two huge pages would waste more than it gains.
enum { HUGE_PAGE = 2 << 20, LEAST_HUGE = 2 * HUGE_PAGE };

void *qsa_default_alloc(size_t bytes, size_t align) {
    if (bytes >= LEAST_HUGE && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (bytes > SIZE_MAX - align)
        return NULL;
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
#if defined(MADV_HUGEPAGE)
    if (memory && bytes >= LEAST_HUGE)
        (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // a wish: without it all is right too
#endif
    return memory;
}
