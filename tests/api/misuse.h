// SPDX-License-Identifier: Apache-2.0
//
// What a refused call must do: give the right status and one line that begins with the call and names the argument, and
// change nothing, neither a byte of the cache nor of any memory that it was given to write to.
#ifndef QSA_TESTS_MISUSE_H
#define QSA_TESTS_MISUSE_H

#include "support/fixture.h"
#include "support/plain_runner.h"

#include <stdlib.h>

enum { MISUSE_GUARDS = 24 };

static struct {
    const qsa_cache *cache;
    unsigned char *before; // its bytes
    size_t bytes;
    struct {
        const void *memory;
        unsigned char *copy;
        size_t bytes;
    } guards[MISUSE_GUARDS];
    int guard_count;
} misuse;

// From here on the cache may not change.
static inline void misuse_watch(const qsa_cache *cache) {
    free(misuse.before);
    misuse.cache = cache;
    misuse.before = fx_cache_bytes(cache, &misuse.bytes);
}

// Nor may this memory.
static inline void misuse_guard(const void *memory, size_t bytes) {
    if (misuse.guard_count == MISUSE_GUARDS)
        fx_die(__FILE__, __LINE__, "too many guards");
    unsigned char *copy = fx_alloc(bytes);
    memcpy(copy, memory, bytes);
    misuse.guards[misuse.guard_count].memory = memory;
    misuse.guards[misuse.guard_count].copy = copy;
    misuse.guards[misuse.guard_count++].bytes = bytes;
}

static inline void misuse_end(void) {
    free(misuse.before);
    misuse.before = NULL;
    misuse.cache = NULL;
    while (misuse.guard_count > 0)
        free(misuse.guards[--misuse.guard_count].copy);
}

static inline int misuse_unchanged(void) {
    int same = 1;
    if (misuse.cache) {
        size_t bytes;
        unsigned char *now = fx_cache_bytes(misuse.cache, &bytes);
        same &= bytes == misuse.bytes && memcmp(now, misuse.before, bytes) == 0;
        free(now);
    }
    for (int i = 0; i < misuse.guard_count; i++)
        same &= memcmp(misuse.guards[i].memory, misuse.guards[i].copy, misuse.guards[i].bytes) == 0;
    return same;
}

// An own failing call in front, so that a message left over from before cannot pass for this one's.
static inline void misuse_clear(void) {
    (void)qsa_geometry_check(NULL);
}

static inline void misuse_check(qsa_status got, qsa_status want, const char *call, const char *word, const char *file,
                                int line) {
    const char *message = qsa_last_error();
    char text[700];
    snprintf(text, sizeof text, "status %d, not %d; message '%s'", (int)got, (int)want, message);
    plain_check(got == want, file, line, text);
    snprintf(text, sizeof text, "message '%s' does not begin with '%s' and name '%s' on one line", message, call, word);
    const size_t n = strlen(call);
    plain_check(strncmp(message, call, n) == 0 && (message[n] == ':' || message[n] == ' ') &&
                    strstr(message + n, word) != NULL && !strpbrk(message, "\r\n"),
                file, line, text);
    plain_check(misuse_unchanged(), file, line, "a refused call changed something");
}

// An expression, so that a test may hold hundreds of them.
#define REFUSED(name, call, status, word)                                                                              \
    (misuse_clear(), misuse_check((call), (status), (name), (word), __FILE__, __LINE__))

// The call with a copy `x` of a good struct in which one thing was changed. A block.
#define WITH(type, good, change, name, call, status, word)                                                             \
    {                                                                                                                  \
        type x = (good);                                                                                               \
        change;                                                                                                        \
        REFUSED(name, call, status, word);                                                                             \
    }

#endif
