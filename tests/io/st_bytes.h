// SPDX-License-Identifier: Apache-2.0
//
// What the safetensors tests share: files in memory and names in a scratch folder.
#ifndef QSA_TESTS_IO_ST_BYTES_H
#define QSA_TESTS_IO_ST_BYTES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/safetensors.h"

// A block of exactly the file's size, so that the sanitizers see a read past it: header size,
// header, then `data_size` bytes 0, 1, 2, ...
static inline unsigned char *st_bytes(const char *header, size_t header_size, size_t data_size) {
    unsigned char *bytes = malloc(8 + header_size + data_size);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
    memcpy(bytes + 8, header, header_size);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + header_size + i] = (unsigned char)i;
    return bytes;
}

// A message is one line of printable ASCII and holds every one of the words, which are separated
// by '|'.
static inline void assert_line(const char *line, const char *words) {
    assert_true(strlen(line) > 0 && strlen(line) < ST_ERR_SIZE);
    for (const char *p = line; *p != '\0'; p++)
        assert_true(*p >= 0x20 && *p <= 0x7e);
    while (*words != '\0') {
        char word[128];
        size_t n = strcspn(words, "|");
        assert_true(n < sizeof word);
        memcpy(word, words, n);
        word[n] = '\0';
        if (strstr(line, word) == NULL)
            fail_msg("\"%s\" does not hold \"%s\"", line, word);
        words += n + (words[n] == '|');
    }
}

// A folder of the test's own, made once and left empty by the tests.
static inline const char *scratch_folder(void) {
    static char folder[] = "/tmp/qsa_test_st_XXXXXX";
    static int made;
    if (!made) {
        assert_non_null(mkdtemp(folder));
        made = 1;
    }
    return folder;
}

static inline const char *scratch_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    return path;
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#endif
