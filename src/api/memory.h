// SPDX-License-Identifier: Apache-2.0

#ifndef QSA_API_MEMORY_H
#define QSA_API_MEMORY_H

#include <stddef.h>

// aligned_alloc, with huge pages asked for (Linux: madvise) where the block is large. Freed by free. NULL without memory.
void *qsa_default_alloc(size_t bytes, size_t align);

#endif
