// SPDX-License-Identifier: Apache-2.0
//
// Failure lines, quoting, memory and UTF-8 for the readers and writers of files. No state.
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "io/io_util.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool io_fail(io_error err, const char *format, ...) {
    if (err.size > 0) {
        va_list args;
        va_start(args, format);
        vsnprintf(err.text, err.size, format, args);
        va_end(args);
    }
    return false;
}

bool io_fail_errno(io_error err, int code, const char *what) {
    // The POSIX form, hence the feature macro above: strerror has one buffer for all threads.
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0)
        snprintf(text, sizeof text, "error %d", code);
    return io_fail(err, "%s: %s", what, text);
}

io_quoted io_quote(const char *bytes, size_t size) {
    static const char hex[] = "0123456789abcdef";
    io_quoted q;
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = c >= 0x20 && c <= 0x7e && c != '\\';
        size_t need = plain ? 1 : c == '\\' ? 2 : 4;
        if (n + need > IO_QUOTED) {
            memcpy(q.text + n, "...", 3);
            n += 3;
            break;
        }
        if (plain) {
            q.text[n] = (char)c;
        } else if (c == '\\') {
            memcpy(q.text + n, "\\\\", 2);
        } else {
            q.text[n] = '\\';
            q.text[n + 1] = 'x';
            q.text[n + 2] = hex[c >> 4];
            q.text[n + 3] = hex[c & 15];
        }
        n += need;
    }
    q.text[n] = '\0';
    return q;
}

io_quoted io_quote_string(const char *string) {
    return io_quote(string, strlen(string));
}

void *io_alloc(size_t size) {
    json_malloc_t alloc;
    json_free_t release;
    json_get_alloc_funcs(&alloc, &release);
    return alloc(size > 0 ? size : 1);
}

void io_free(void *memory) {
    json_malloc_t alloc;
    json_free_t release;
    if (memory == NULL)
        return;
    json_get_alloc_funcs(&alloc, &release);
    release(memory);
}

void *io_grow(void *array, size_t *capacity, size_t used, size_t item) {
    if (used < *capacity)
        return array;
    size_t wanted = *capacity > 0 ? *capacity : 4;
    if (wanted > SIZE_MAX / 2 / item)
        return NULL;
    wanted *= 2;
    void *grown = io_alloc(wanted * item);
    if (grown == NULL)
        return NULL;
    if (used > 0)
        memcpy(grown, array, used * item);
    io_free(array);
    *capacity = wanted;
    return grown;
}

char *io_copy_string(const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = io_alloc(size);
    if (copy != NULL)
        memcpy(copy, string, size);
    return copy;
}

// Bytes of the UTF-8 character at `s`, 0 when there is none within `size`.
static size_t utf8_length(const unsigned char *s, size_t size) {
    unsigned char low = 0x80, high = 0xbf; // bounds of the second byte
    size_t length;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf) {
        length = 2;
    } else if (s[0] >= 0xe0 && s[0] <= 0xef) {
        length = 3;
        low = s[0] == 0xe0 ? 0xa0 : low;
        high = s[0] == 0xed ? 0x9f : high;
    } else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        length = 4;
        low = s[0] == 0xf0 ? 0x90 : low;
        high = s[0] == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (length > size || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xbf)
            return 0;
    return length;
}

size_t io_utf8_prefix(const char *bytes, size_t size) {
    const unsigned char *s = (const unsigned char *)bytes;
    size_t at = 0;
    while (at < size) {
        size_t length = utf8_length(s + at, size - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}
