// SPDX-License-Identifier: Apache-2.0
//
// Each block lies between two guards of 64 bytes, which hold its size and a pattern; its start is aligned to 64 and to
// nothing more, so that code which needs more alignment than it asked for fails.
#include "heap.h"

#include "rng.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, PATTERN = 0x5c };

static void *heap_alloc(void *user, size_t bytes, size_t align) {
    heap *h = user;
    h->last_bytes = bytes;
    if (h->calls++ == h->fail_at || bytes == 0 || align > GUARD) {
        h->failures++;
        return NULL;
    }
    size_t room = (bytes + GUARD - 1) / GUARD * GUARD + (size_t)3 * GUARD;
    unsigned char *base = aligned_alloc(GUARD, room);
    if (!base)
        return NULL;
    // Two guards in front: the first only makes the block's address an odd multiple of 64.
    size_t skip = ((uintptr_t)base / GUARD) % 2 ? 2 * GUARD : GUARD;
    unsigned char *block = base + skip;
    memset(base, PATTERN, skip);
    memcpy(block - GUARD, &bytes, sizeof bytes);
    memcpy(block - GUARD / 2, &base, sizeof base);
    memset(block + bytes, PATTERN, GUARD);
    rng r = rng_make(h->state++);
    if (h->fill == HEAP_RANDOM)
        rng_fill_bytes(&r, bytes, block);
    else
        memset(block, h->fill, bytes);
    h->live_bytes += bytes;
    return block;
}

static void heap_free(void *user, void *memory, size_t bytes) {
    heap *h = user;
    unsigned char *block = memory, *base;
    size_t held;
    h->frees++;
    if (!block || (uintptr_t)block % (size_t)(2 * GUARD) != (size_t)GUARD) {
        h->wrong++;
        return;
    }
    memcpy(&held, block - GUARD, sizeof held);
    memcpy(&base, block - GUARD / 2, sizeof base);
    int bad = held != bytes || block[-1] != PATTERN;
    for (size_t i = 0; held == bytes && i < GUARD; i++)
        bad |= block[bytes + i] != PATTERN;
    h->wrong += bad;
    if (bad)
        return;
    h->live_bytes -= bytes;
    memset(block, 0xdd, bytes);
    free(base);
}

heap heap_make(int fill) {
    return (heap){.fill = fill, .fail_at = -1, .state = 1};
}

qsa_allocator heap_hook(heap *h) {
    return (qsa_allocator){heap_alloc, heap_free, h};
}
