// SPDX-License-Identifier: Apache-2.0
//
// What the readers and writers of files share: failure lines, quoting, memory, UTF-8.
// Every line of text made here is printable ASCII, so it can go to a terminal or a log as it is.
#ifndef QSA_IO_UTIL_H
#define QSA_IO_UTIL_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define IO_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define IO_PRINTF(text, first)
#endif

// Where a failure's line goes: `size` bytes at `text`, none when size is 0.
typedef struct {
    char *text;
    size_t size;
} io_error;

// Writes the line (cut to fit, always terminated). Always returns false: `return io_fail(...)`.
bool io_fail(io_error err, const char *format, ...) IO_PRINTF(2, 3);

// The same with ": " and the system's text for `code` (an errno value) after it.
bool io_fail_errno(io_error err, int code, const char *what);

// A string made safe for a message: bytes outside printable ASCII as \xNN, a backslash doubled,
// cut with "..." to IO_QUOTED characters. By value, so `io_quote(s, n).text` can stand in a call.
#define IO_QUOTED 160
typedef struct {
    char text[IO_QUOTED + 4];
} io_quoted;
io_quoted io_quote(const char *bytes, size_t size);
io_quoted io_quote_string(const char *string);

// Memory from jansson's allocators (malloc and free unless json_set_alloc_funcs changed them): one
// hook lets a test fail every allocation of a reader. io_alloc gives NULL when memory is out.
void *io_alloc(size_t size);
void io_free(void *memory);

// Room for one item more than `used` in an array of `*capacity` items of `item` bytes: the array,
// moved when it was full. NULL when memory is out: the old array is then as it was.
void *io_grow(void *array, size_t *capacity, size_t used, size_t item);

// A copy in memory from io_alloc; NULL when memory is out.
char *io_copy_string(const char *string);

// How many of the bytes, from the first, are whole UTF-8 characters (Unicode 15, table 3-7: no
// overlong forms, no surrogates, nothing past U+10FFFF): `size` when all are.
size_t io_utf8_prefix(const char *bytes, size_t size);

#endif
