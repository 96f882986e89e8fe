// SPDX-License-Identifier: Apache-2.0
//
// `qsa bench` and qsa-bench as commands: every case gives the keys that are promised, with numbers that can be; bad
// arguments are refused. Never how fast anything is.
// LABELS: small clock

#include "tool/tool_test.h"

#include <math.h>

#ifdef QSA_SANITIZED // most of the time is the roofs'
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

static const char *const keys[] = {"case",   "kernel", "class", "tokens", "pos",     "kv",  "threads", "ms",
                                   "gflops", "gbps",   "roof",  "bound",  "of_roof", "fit", "detail"};

static void positive(const json_t *object, const char *key, const char *inner) {
    const double value = json_number_at(object, key, inner);
    if (!(value > 0) || !isfinite(value)) {
        fail_msg("%s %s is %g", key, inner ? inner : "", value);
    }
}

// All that holds for the object of any case but the bounds of of_roof.
static void check_object(const json_t *object, const char *name, int tokens, int pos) {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_at(object, keys[i], NULL);
    }
    const bool topk = strcmp(name, "topk") == 0;
    const bool step = strcmp(name, "step") == 0;
    const size_t beside = (size_t)topk + (size_t)step + (json_object_get(object, "against") != NULL);
    assert_int_equal(json_object_size(object), sizeof keys / sizeof *keys + beside);
    assert_string_equal(json_string_value(json_at(object, "case", NULL)), name);
    assert_string_equal(json_string_value(json_at(object, "class", NULL)), "strict");
    assert_true(*json_string_value(json_at(object, "kernel", NULL)));
    assert_int_equal(json_integer_value(json_at(object, "tokens", NULL)), tokens);
    assert_int_equal(json_integer_value(json_at(object, "pos", NULL)), pos);
    assert_int_equal(json_object_size(json_at(object, "ms", NULL)), 3);
    positive(object, "ms", "min");
    assert_true(json_number_at(object, "ms", "median") >= json_number_at(object, "ms", "min"));
    assert_true(json_number_at(object, "ms", "max") >= json_number_at(object, "ms", "median"));
    positive(object, "gbps", NULL);
    assert_true(json_number_at(object, "gflops", NULL) > 0 || topk);
    assert_int_equal(json_object_size(json_at(object, "roof", NULL)), 3);
    positive(object, "roof", "fma");
    positive(object, "roof", "dot");
    positive(object, "roof", "read");
    positive(object, "roof", json_string_value(json_at(object, "bound", NULL)));
    assert_true(json_is_boolean(json_at(object, "fit", NULL)));
    if (topk) {
        positive(object, "score_ms", NULL);
    }
    if (step) {
        positive(object, "score_topk_ms", NULL);
    }
}

static bool possible(const json_t *object) {
    const double share = json_number_at(object, "of_roof", NULL);
    return share > 0 && share < 1.3;
}

// Runs a case until its share of the roof can be: on a loaded machine the roof may be what was disturbed.
static json_t *run_case(const char *name, int tokens, int pos, const char *options) {
    json_t *object = NULL;
    for (int attempt = 0; attempt < 5; attempt++) {
        json_decref(object);
        object =
            run_json(tool_run("bench %s --tokens %d --pos %d --samples 3 --json %s", name, tokens, pos, options), 0);
        check_object(object, name, tokens, pos);
        if (possible(object)) {
            return object;
        }
    }
    fail_msg("%s: of_roof is %g", name, json_number_at(object, "of_roof", NULL));
    return object;
}

static void test_cases(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int tokens, pos;
        const char *options;
    } cases[] = {
        {"prompt", 4, 2100, "--selection walk"},
        {"prompt", 3, 0, ""}, // everything is attended
        {"decode", 1, 2101, "--seqs 2 --threads 2"},
        {"decode", 5, 2048, "--kv f16 --selection recent --logits wide"}, // rows on both sides of the budget
        {"score", 1, 4001, "--block-keys bf16"},
        {"topk", 2, 4002, "--cold"},
        {"score-topk", 1, 4003, "--kernel score=ref"},
        {"prep", 7, 501, "--kv bf16 --block-keys f16"},
        {"merge", 3, 2500, "--kv f32 --logits 4"},
        {"step", 1, 3000, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += EVERY) {
        json_decref(run_case(cases[i].name, cases[i].tokens, cases[i].pos, cases[i].options));
    }
}

static void test_against(void **state) {
    (void)state;
    json_t *object = run_case("step", 1, 3000, "--against 2200");
    const json_t *against = json_at(object, "against", NULL);
    assert_int_equal(json_object_size(against), 3);
    assert_int_equal(json_integer_value(json_at(against, "pos", NULL)), 2200);
    positive(object, "against", "step_ms");
    positive(object, "against", "score_topk_ms");
    json_decref(object);
}

static void test_defaults(void **state) {
    (void)state;
    if (EVERY > 1)
        skip();
    json_t *object = run_json(tool_run("bench score --samples 3 --json"), 0);
    check_object(object, "score", 1, 30000);
    assert_string_equal(json_string_value(json_at(object, "kv", NULL)), "i8");
    assert_int_equal(json_integer_value(json_at(object, "threads", NULL)), 1);
    assert_int_equal(json_integer_value(json_at(object, "detail", "seqs")), 1);
    assert_string_equal(json_string_value(json_at(object, "detail", "block_keys")), "f32");
    assert_string_equal(json_string_value(json_at(object, "detail", "caches")), "hot");
    json_decref(object);
    // 7,500 block keys of 512 bytes and four index heads.
    object = run_json(tool_run("bench decode --samples 3 --json --pos 30003"), 0);
    assert_int_equal(json_integer_value(json_at(object, "detail", "operations")), 4 * 24 * 256 * 2048);
    assert_string_equal(json_string_value(json_at(object, "detail", "selection")), "random");
    json_decref(object);
}

static void test_kernel_forced(void **state) {
    (void)state;
    if (EVERY > 1)
        skip();
    json_t *object = run_case("score", 1, 2500, "--kernel score=ref --kernel topk=ref");
    assert_string_equal(json_string_value(json_at(object, "kernel", NULL)), "score_ref");
    json_decref(object);
}

// The table is an array; what the options say replaces its own sizes.
static void test_all(void **state) {
    (void)state;
    json_t *array = run_json(tool_run("bench all --tokens 2 --pos 2200 --samples 3 --json"), 0);
    assert_true(json_is_array(array) && json_array_size(array) == 10);
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *object = json_array_get(array, i);
        check_object(object, json_string_value(json_at(object, "case", NULL)), 2, 2200);
    }
    json_decref(array);
}

static void test_lines(void **state) {
    (void)state;
    ran lines = tool_run("bench decode --tokens 16 --pos 3000 --samples 3 --selection walk");
    static const char *const parts[] = {"median",  "min",  "spread",  "MFLOP", "MB",
                                        "GFLOP/s", "GB/s", "of roof", "union", "switches"};
    assert_int_equal(lines.code, 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(lines.out, parts[i])) {
            fail_msg("no \"%s\" in %s", parts[i], lines.out);
        }
    }
    ran_free(lines);
}

static void test_refused(void **state) {
    (void)state;
    assert_refused(tool_run("bench"), "no CASE");
    assert_refused(tool_run("bench fly"), "expected one of prompt, decode");
    assert_refused(tool_run("bench ''"), "expected one of prompt, decode");
    assert_refused(tool_run("bench score topk"), "also topk");
    assert_refused(tool_run("bench score --tokens 0"), "--tokens 0");
    assert_refused(tool_run("bench score --tokens 3x"), "--tokens 3x");
    assert_refused(tool_run("bench score --pos -1"), "--pos -1");
    assert_refused(tool_run("bench score --pos 99999999999999999999"), "--pos 99999999999999999999");
    assert_refused(tool_run("bench score --pos"), "--pos needs a value");
    assert_refused(tool_run("bench score --json=1"), "--json takes none");
    assert_refused(tool_run("bench score --threads 0"), "--threads 0");
    assert_refused(tool_run("bench score --seqs 0"), "--seqs 0");
    assert_refused(tool_run("bench score --samples 2"), "--samples 2");
    assert_refused(tool_run("bench score --kv f64"), "expected one of f32, f16, bf16, i8");
    assert_refused(tool_run("bench score --block-keys i8"), "expected one of f32, f16, bf16");
    assert_refused(tool_run("bench score --class quick"), "expected one of strict, fast");
    assert_refused(tool_run("bench score --selection best"), "expected one of random, walk, recent");
    assert_refused(tool_run("bench score --selection scored"), "expected one of random, walk, recent");
    assert_refused(tool_run("bench score --logits 0"), "--logits 0");
    assert_refused(tool_run("bench score --logits nan"), "--logits nan");
    assert_refused(tool_run("bench score --kernel score"), "expected STAGE=NAME");
    assert_refused(tool_run("bench score --kernel score=best"), "score_ref");
    assert_refused(tool_run("bench score --against 5"), "--against is for step");
    assert_refused(tool_run("bench score --fast"), "unknown option --fast");
    assert_refused(tool_run("bench score -x"), "unknown option -x");
    assert_refused(tool_run("bench score --plot x.svg"), "takes no CASE");
    assert_refused(tool_run("bench --plot x.svg --json"), "one of them");
    assert_refused(tool_run("bench --plot x.svg --pos 100"), "--pos 100");
    assert_refused(tool_run("bench --plot '%s/no-such-folder/x.svg' --pos 4096 --samples 3", tool_test_folder),
                   "x.svg");
    assert_refused(tool_run("bench decode --pos 268435456 --seqs 4096"), "--seqs 4096");
    assert_refused(tool_run("bench prep --tokens 1048576 --seqs 4096"), "--seqs 4096");
    assert_refused(tool_run("bench score --kernel \"$(printf 'score=a\\nb')\""), "score");
}

// Where the library has no fast class or no screening, its refusal is the command's; where it has, the case runs.
static void test_not_in_the_library(void **state) {
    (void)state;
    static const char *const options[] = {"--class fast", "--screen"};
    for (size_t i = 0; i < 2; i++) {
        ran result = tool_run("bench score-topk --pos 2500 --samples 3 --json %s", options[i]);
        if (result.code == 2) {
            assert_refused(result, i ? "screen" : "fast");
        } else {
            assert_int_equal(result.code, 0);
            ran_free(result);
        }
    }
}

static void test_plot(void **state) {
    (void)state;
    const char *path = tool_test_path("plot.svg");
    ran result = tool_run("bench --plot '%s' --pos 4096 --samples 3", path);
    assert_int_equal(result.code, 0);
    assert_string_equal(result.out, "");
    assert_string_equal(result.err, "");
    ran_free(result);
    char *picture = tool_test_read(path);
    assert_non_null(strstr(picture, "<svg"));
    assert_non_null(strstr(picture, "</svg>"));
    free(picture);
}

// The program without the tool: the same object, no pictures.
static void test_standalone(void **state) {
    (void)state;
    const char *out = tool_test_path("alone.json");
    char command[1024];
    snprintf(command, sizeof command, "'%s/qsa-bench' merge --tokens 1 --pos 2100 --samples 3 --json >'%s'",
             QSA_BUILD_DIR, out);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): words of the test itself
    char *text = tool_test_read(out);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    check_object(object, "merge", 1, 2100);
    json_decref(object);
    free(text);
    snprintf(command, sizeof command, "'%s/qsa-bench' --plot x.svg 2>'%s'", QSA_BUILD_DIR, out);
    const int status = system(command); // NOLINT(cert-env33-c): words of the test itself
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    text = tool_test_read(out);
    assert_string_equal(text, "qsa-bench: unknown option --plot\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_against),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_kernel_forced),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_plot),
        cmocka_unit_test(test_not_in_the_library),
        cmocka_unit_test(test_standalone),
    };
    return cmocka_run_group_tests(tests, tool_test_begin, tool_test_end);
}
