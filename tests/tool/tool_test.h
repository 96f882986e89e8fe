// SPDX-License-Identifier: Apache-2.0
//
// For tests of the command: runs it and keeps what it printed, and writes changed copies of layer files. Everything
// asserts (cmocka); files lie in one temporary folder that tool_test_end removes.

#ifndef QSA_TESTS_TOOL_TEST_H
#define QSA_TESTS_TOOL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/safetensors.h"

// What the command printed, and its exit code (-1: killed by a signal).
typedef struct ran {
    int code;
    char *out;
    char *err;
} ran;

// A tensor to put in place of the one of the same name (or beside the others); dtype -1 leaves it out.
typedef struct patch {
    const char *name;
    int dtype;
    int n_dims;
    int64_t shape[ST_MAX_DIMS];
    const void *data;
} patch;

#define LEAVE_OUT(tensor)                                                                                              \
    { tensor, -1, 0, {0}, NULL }

static char tool_test_folder[256];

static inline int tool_test_begin(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(tool_test_folder, sizeof tool_test_folder, "%s/qsa-tool-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(tool_test_folder) ? 0 : -1;
}

static inline int tool_test_end(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", tool_test_folder);
    return system(command); // NOLINT(cert-env33-c): the folder is mkdtemp's
}

// The path of a file in the folder. Static memory, four in turn.
static inline const char *tool_test_path(const char *name) {
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", tool_test_folder, name);
    return path;
}

static inline const char *golden_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.safetensors", QSA_GOLDEN_DIR, name);
    return path;
}

static inline char *tool_test_read(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t used = 0;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    used = fread(text, 1, (1 << 20) - 1, file);
    text[used] = 0;
    fclose(file);
    return text;
}

// Runs `qsa ARGUMENTS`, formatted as by printf; the shell splits the words.
static inline ran tool_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline ran tool_run(const char *format, ...) {
    char arguments[2048];
    char command[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    const char *out = tool_test_path("stdout");
    const char *err = tool_test_path("stderr");
    snprintf(command, sizeof command, "'%s' %s >'%s' 2>'%s'", QSA_TOOL_PATH, arguments, out, err);
    const int status = system(command); // NOLINT(cert-env33-c): words of the test itself
    ran result = {WIFEXITED(status) ? WEXITSTATUS(status) : -1, tool_test_read(out), tool_test_read(err)};
    return result;
}

static inline void ran_free(ran result) {
    free(result.out);
    free(result.err);
}

// Exit code 2, nothing on stdout, exactly one line on stderr that begins with "qsa: " and holds `part`.
static inline void assert_refused(ran result, const char *part) {
    const char *end = strchr(result.err, '\n');
    if (result.code != 2 || result.out[0] || !end || end[1] || strncmp(result.err, "qsa: ", 5) != 0 ||
        !strstr(result.err, part)) {
        fail_msg("expected exit 2 and one line with \"%s\", got exit %d, stdout \"%.300s\", stderr \"%.600s\"", part,
                 result.code, result.out, result.err);
    }
    ran_free(result);
}

// The JSON object of a run that ended with `code`; stdout holds nothing else.
static inline json_t *run_json(ran result, int code) {
    json_error_t where;
    if (result.code != code) {
        fail_msg("expected exit %d, got %d: %.600s %.600s", code, result.code, result.err, result.out);
    }
    assert_string_equal(result.err, "");
    json_t *object = json_loads(result.out, JSON_REJECT_DUPLICATES, &where);
    if (!object) {
        fail_msg("no JSON object: %s in %.600s", where.text, result.out);
    }
    ran_free(result);
    return object;
}

static inline const json_t *json_at(const json_t *object, const char *key, const char *inner) {
    const json_t *value = json_object_get(object, key);
    value = inner ? json_object_get(value, inner) : value;
    if (!value) {
        fail_msg("no %s %s in the JSON object", key, inner ? inner : "");
    }
    return value;
}

static inline double json_number_at(const json_t *object, const char *key, const char *inner) {
    const json_t *value = json_at(object, key, inner);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

// Writes `from` to `to` with patches, and with another `config` unless it is NULL ("" leaves it out).
static inline void patch_file(const char *from, const char *to, const patch *patches, size_t n, const char *config) {
    char reason[ST_ERR_SIZE];
    st_file *st = st_open(from, reason, sizeof reason);
    assert_non_null(st);
    st_writer *writer = st_writer_new();
    assert_non_null(writer);
    for (int64_t i = 0; i < st_tensor_count(st); i++) {
        const st_tensor *t = st_tensor_at(st, i);
        bool patched = false;
        for (size_t p = 0; p < n; p++) {
            patched = patched || strcmp(patches[p].name, t->name) == 0;
        }
        assert_true(patched || st_writer_add(writer, t->name, t->dtype, t->n_dims, t->shape, t->data));
    }
    for (size_t p = 0; p < n; p++) {
        if (patches[p].dtype >= 0) {
            assert_true(st_writer_add(writer, patches[p].name, (st_dtype)patches[p].dtype, patches[p].n_dims,
                                      patches[p].shape, patches[p].data));
        }
    }
    for (size_t i = 0; i < st_metadata_count(st); i++) {
        const char *key = st_metadata_key(st, i);
        if (!config || strcmp(key, "config") != 0) {
            assert_true(st_writer_metadata(writer, key, st_metadata(st, key)));
        }
    }
    assert_true(!config || !*config || st_writer_metadata(writer, "config", config));
    if (!st_writer_save(writer, to, reason, sizeof reason)) {
        fail_msg("%s", reason);
    }
    st_writer_free(writer);
    st_close(st);
}

// A tensor's shape and a copy of its bytes, to be changed and given to patch_file. The name is borrowed.
static inline patch patch_of(const char *file, const char *name) {
    char reason[ST_ERR_SIZE];
    st_file *st = st_open(file, reason, sizeof reason);
    assert_non_null(st);
    const st_tensor *t = st_find(st, name);
    assert_non_null(t);
    patch result = {.name = name, .dtype = (int)t->dtype, .n_dims = t->n_dims};
    memcpy(result.shape, t->shape, sizeof result.shape);
    void *copy = malloc(t->bytes + 1);
    assert_non_null(copy);
    memcpy(copy, t->data, t->bytes);
    result.data = copy;
    st_close(st);
    return result;
}

static inline void *patch_data(const patch *p) {
    return (void *)(uintptr_t)p->data;
}

#endif
