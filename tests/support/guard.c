// SPDX-License-Identifier: Apache-2.0
//
// Guard pages by mmap and mprotect, and the FP control words of the two architectures.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "guard.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void guard_open(guard *g, size_t capacity) {
    const size_t page = page_size();
    g->capacity = (capacity + page - 1) / page * page;
    unsigned char *map = mmap(NULL, g->capacity + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        abort();
    g->base = map + page;
    guard_protect(g, false);
}

void guard_close(guard *g) {
    if (g->base && munmap(g->base - page_size(), g->capacity + 2 * page_size()) != 0)
        abort();
    g->base = NULL;
}

unsigned char *guard_place(const guard *g, size_t size, guard_side side, size_t shift) {
    if (size + shift > g->capacity)
        abort();
    return side == GUARD_START ? g->base + shift : g->base + g->capacity - shift - size;
}

void guard_protect(const guard *g, bool read_only) {
    if (mprotect(g->base, g->capacity, read_only ? PROT_READ : PROT_READ | PROT_WRITE) != 0)
        abort();
}

#if defined(__x86_64__)
enum { STICKY = 0x3f }; // exception flags of MXCSR

unsigned long fp_control(void) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (unsigned long)x87 << 32 | (__builtin_ia32_stmxcsr() & ~(unsigned)STICKY);
}

void fp_control_set(unsigned long control) {
    uint16_t x87 = (uint16_t)(control >> 32);
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr((unsigned)control);
}
#elif defined(__aarch64__)
unsigned long fp_control(void) {
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

void fp_control_set(unsigned long control) {
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else
unsigned long fp_control(void) {
    return 0;
}

void fp_control_set(unsigned long control) {
    (void)control;
}
#endif

int guard_fork(void (*f)(void *arg), void *arg) {
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would turn it into an exit
        f(arg);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        abort();
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
