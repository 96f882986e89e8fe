// SPDX-License-Identifier: Apache-2.0
//
// An allocator hook for tests: counts calls and live bytes, fails the i-th allocation, fills new memory with a pattern,
// and checks that what comes back is what was given. For one thread.
#ifndef QSA_TESTS_HEAP_H
#define QSA_TESTS_HEAP_H

#include "qsa/qsa.h"

enum { HEAP_RANDOM = 256 }; // fill: new memory holds random bytes

typedef struct heap {
    int fill;      // byte that new memory is filled with, or HEAP_RANDOM
    long fail_at;  // the call of this number, counted from 0, returns NULL; -1: none
    long calls;    // of alloc
    long failures; // of these
    long frees;
    long wrong; // frees of a wrong size, of a foreign pointer, or with overwritten bytes around them
    size_t live_bytes;
    size_t last_bytes; // asked for by the last call
    uint64_t state;    // of the random fill
} heap;

heap heap_make(int fill);
qsa_allocator heap_hook(heap *h);

#endif
