// SPDX-License-Identifier: Apache-2.0
//
// `qsa run` on the official files of the real geometry: within the tolerance of every cache format, and one digest.
#include "tool_test.h"

static const char *const files[] = {"real_long", "real_edge"};
#ifdef QSA_SANITIZED // one of a kind is enough there
enum { FILES = 1, EVERY = 3 };
#else
enum { FILES = 2, EVERY = 1 };
#endif

static void test_formats(void **state) {
    (void)state;
    static const char *const options[] = {
        "--kv f32", "--kv f16", "--kv bf16", "--kv i8", "--kv f32 --block-keys f16", "--kv f32 --block-keys bf16"};
    for (size_t i = 0; i < FILES; i++) {
        for (size_t o = 0; o < sizeof options / sizeof *options; o += EVERY) {
            json_t *run = run_json(tool_run("run '%s' --json %s", golden_path(files[i]), options[o]), 0);
            assert_true(json_number_at(run, "selection", "wrong") == 0);
            assert_true(o >= 4 || json_number_at(run, "selection", "near") == 0);
            json_decref(run);
        }
    }
}

static void test_one_digest(void **state) {
    (void)state;
    static const char *const variants[] = {"--threads 2", "--threads 1 --chunk 64", "--chunk 7", "--chunk 4096",
                                           "--kernel prep=ref --kernel merge=ref"};
    for (size_t i = 0; i < FILES; i++) {
        char first[80] = "";
        for (size_t v = 0; v < sizeof variants / sizeof *variants; v += EVERY) {
            json_t *run = run_json(tool_run("run '%s' --json %s", golden_path(files[i]), variants[v]), 0);
            const char *digest = json_string_value(json_at(run, "attn_sha256", NULL));
            if (v == 0) {
                snprintf(first, sizeof first, "%s", digest);
            }
            assert_string_equal(first, digest);
            json_decref(run);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats), cmocka_unit_test(test_one_digest)};
    return cmocka_run_group_tests_name("tool_run_real", tests, tool_test_begin, tool_test_end);
}
