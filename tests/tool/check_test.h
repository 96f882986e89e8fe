// SPDX-License-Identifier: Apache-2.0
//
// For tests of `qsa check`: a fault, the file it is put into, and what must be said about it.

#ifndef QSA_TESTS_CHECK_TEST_H
#define QSA_TESTS_CHECK_TEST_H

#include "tool_test.h"

#include "support/io/mutate.h"

// A file in the test's folder that outlives more calls than tool_test_path's buffers do.
typedef struct {
    char path[512];
} kept;

static inline kept keep_path(const char *path) {
    kept result;
    snprintf(result.path, sizeof result.path, "%s", path);
    return result;
}

// A string of the JSON object, "" for null.
static inline const char *text_at(const json_t *object, const char *key, const char *inner) {
    const json_t *value = json_at(object, key, inner);
    return json_is_string(value) ? json_string_value(value) : "";
}

static inline void assert_clean(const char *dump, const char *file, const char *options) {
    json_t *check = run_json(tool_run("check '%s' --against '%s' --json %s", dump, golden_path(file), options), 0);
    assert_true(json_is_true(json_at(check, "ok", NULL)));
    assert_true(json_is_null(json_at(check, "first", NULL)));
    json_decref(check);
}

typedef struct {
    mutation fault;
    const char *file;
    const char *first, *reason, *place;
} expectation;

static inline void assert_found(const mutator *m, const expectation *e, unsigned tensors, bool every_other) {
    const kept dump = keep_path(tool_test_path("broken.safetensors"));
    mutate_save(m, e->fault, tensors, ST_F32, every_other, dump.path);
    json_t *check = run_json(tool_run("check '%s' --against '%s' --json", dump.path, golden_path(e->file)), 1);
    const char *first = text_at(check, "first", NULL);
    const char *reason = text_at(check, "reason", NULL);
    const char *place = text_at(check, "place", NULL);
    if (strcmp(first, e->first) != 0 || strcmp(reason, e->reason) != 0 || strcmp(place, e->place) != 0) {
        fail_msg("%s, fault %d, tensors %u: expected %s %s %s, got %s %s %s", e->file, (int)e->fault, tensors, e->first,
                 e->reason, e->place, first, reason, place);
    }
    json_decref(check);
}

// Opens each file once; the expectations of a file stand together.
static inline void assert_all_found(const expectation *list, size_t n, unsigned tensors, bool every_other) {
    mutator *m = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!i || strcmp(list[i].file, list[i - 1].file) != 0) {
            mutator_close(m);
            m = mutator_open(list[i].file);
        }
        assert_found(m, &list[i], tensors, every_other);
    }
    mutator_close(m);
}

#endif
