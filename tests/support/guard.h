// SPDX-License-Identifier: Apache-2.0
//
// Memory between two pages that nobody may touch. Data lies flush against one of them, so that a read or write of one
// byte too many is a SIGSEGV; and the memory can be made read-only while a kernel runs.
#ifndef QSA_TESTS_GUARD_H
#define QSA_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef enum { GUARD_END, GUARD_START } guard_side; // which guard page the data touches

typedef struct {
    unsigned char *base; // readable and writable; the pages before it and behind it are not
    size_t capacity;
} guard;

// At least `capacity` bytes; aborts when there are none.
void guard_open(guard *g, size_t capacity);
void guard_close(guard *g);

// Where `size` bytes lie when they keep `shift` bytes of distance from the guard page of that side.
unsigned char *guard_place(const guard *g, size_t size, guard_side side, size_t shift);

// All of it read-only, or writable again.
void guard_protect(const guard *g, bool read_only);

// The bits of the FP environment that control arithmetic (rounding, flush-to-zero, traps), not the sticky flags that
// arithmetic raises: MXCSR and the x87 control word, or FPCR.
unsigned long fp_control(void);
void fp_control_set(unsigned long control);

// Runs f(arg) in a child and says how it ended: the signal that killed it, 0 if f returned. The child leaves no core.
int guard_fork(void (*f)(void *arg), void *arg);

#endif
