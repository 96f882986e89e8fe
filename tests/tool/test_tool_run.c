// SPDX-License-Identifier: Apache-2.0
//
// `qsa run` on the tiny official files: within the tolerances, one digest whatever the threads, chunks and kernels, the
// JSON object's keys, and the file of results; with controls that must be found different.
// LABELS: small threads
#include "tool_test.h"

#include <math.h>

static const char *const tiny[] = {"tiny_leftpad", "tiny_mrope", "tiny_prefill", "tiny_bias", "tiny_ratio2"};
#ifdef QSA_SANITIZED // the command starts slowly there, and every file takes the same ways
#define TINY ((size_t)2)
#else
#define TINY (sizeof tiny / sizeof *tiny)
#endif

static void test_f32_is_ok(void **state) {
    (void)state;
    for (size_t i = 0; i < TINY; i++) {
        json_t *run = run_json(tool_run("run '%s' --kv f32 --json", golden_path(tiny[i])), 0);
        assert_true(json_is_true(json_at(run, "ok", NULL)));
        assert_true(json_number_at(run, "selection", "wrong") == 0);
        assert_true(json_number_at(run, "selection", "near") == 0);
        assert_true(json_number_at(run, "selection", "equal") + json_number_at(run, "selection", "tie") ==
                    json_number_at(run, "rows", NULL));
        const char *const tensors[] = {"q", "index_q", "k", "v", "scores", "attn", "out"};
        const double most[] = {4e-6, 4e-6, 4e-6, 4e-6, 8e-6, 5e-6, 5e-6};
        for (size_t t = 0; t < 7; t++) {
            const json_t *error = json_object_get(json_at(run, "error", NULL), tensors[t]);
            const double value = json_number_value(json_object_get(error, t < 5 ? "max_abs" : "rel_l2"));
            if (!error || !(value <= most[t])) {
                fail_msg("%s: %s is off by %g, at most %g", tiny[i], tensors[t], value, most[t]);
            }
        }
        json_decref(run);
    }
}

static void test_formats_are_within_tolerance(void **state) {
    (void)state;
    const char *const formats[] = {"f16", "bf16", "i8"};
    for (size_t i = 0; i < TINY; i++) {
        for (size_t f = 0; f < 3; f++) {
            json_t *run = run_json(tool_run("run '%s' --kv %s --json", golden_path(tiny[i]), formats[f]), 0);
            assert_true(json_number_at(run, "selection", "wrong") == 0);
            json_decref(run);
        }
        json_t *halves = run_json(tool_run("run '%s' --kv f32 --block-keys bf16 --json", golden_path(tiny[i])), 0);
        assert_true(json_number_at(halves, "selection", "wrong") == 0);
        json_decref(halves);
    }
    // Control: a tolerance that the i8 cache cannot keep.
    ran strict = tool_run("run '%s' --tol 1e-5", golden_path("tiny_prefill"));
    assert_int_equal(strict.code, 1);
    ran_free(strict);
}

static void assert_one_digest(const char *file, const char *const *variants, size_t n) {
    char first[80] = "";
    for (size_t v = 0; v < n; v++) {
        json_t *run = run_json(tool_run("run '%s' --json %s", file, variants[v]), 0);
        const char *digest = json_string_value(json_at(run, "attn_sha256", NULL));
        assert_int_equal(strlen(digest), 64);
        if (v == 0) {
            snprintf(first, sizeof first, "%s", digest);
        }
        if (strcmp(first, digest) != 0) {
            fail_msg("%s: another digest with \"%s\" than with \"%s\"", file, variants[v], variants[0]);
        }
        json_decref(run);
    }
}

static void test_one_digest(void **state) {
    (void)state;
    static const char *const variants[] = {
        "--threads 1",           "--threads 2",        "--chunk 1",
        "--chunk 7 --threads 2", "--chunk 64",         "--chunk 512",
        "--kernel prep=ref",     "--kernel score=ref", "--kernel topk=ref",
        "--kernel attend=ref",   "--kernel merge=ref", "--kernel attend=attend_ref --kernel score=score_ref --chunk 7",
    };
    for (size_t i = 0; i < TINY; i++) {
        assert_one_digest(golden_path(tiny[i]), variants, sizeof variants / sizeof *variants);
    }
    // Control: the digest does see the cache's format.
    json_t *f32 = run_json(tool_run("run '%s' --json --kv f32", golden_path("tiny_bias")), 0);
    json_t *i8 = run_json(tool_run("run '%s' --json --kv i8", golden_path("tiny_bias")), 0);
    assert_string_not_equal(json_string_value(json_at(f32, "attn_sha256", NULL)),
                            json_string_value(json_at(i8, "attn_sha256", NULL)));
    json_decref(f32);
    json_decref(i8);
}

// Exactly these keys, "a,b,c", in an object.
static void assert_keys(const json_t *object, const char *keys) {
    char names[512];
    snprintf(names, sizeof names, "%s", keys);
    size_t count = 0;
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest)) != NULL; count++) {
        if (!json_object_get(object, name)) {
            fail_msg("no key %s", name);
        }
    }
    assert_int_equal(json_object_size(object), count);
}

static void test_json_keys(void **state) {
    (void)state;
    json_t *run = run_json(tool_run("run --json --threads 2 --chunk 9 '%s'", golden_path("tiny_leftpad")), 0);
    assert_keys(run, "file,backend,kv,block_keys,select,class,threads,chunk,tokens,rows,kernels,selection,error,ms,"
                     "memory,attn_sha256,ok");
    assert_keys(json_at(run, "kernels", NULL), "prep,score,topk,attend,merge");
    assert_keys(json_at(run, "selection", NULL), "equal,tie,near,wrong");
    assert_keys(json_at(run, "error", NULL), "q,index_q,k,v,scores,attn,out");
    assert_keys(json_at(run, "error", "attn"), "rel_l2,max_abs");
    assert_keys(json_at(run, "ms", NULL), "project,prep,score,topk,attend,merge,total");
    assert_keys(json_at(run, "memory", NULL), "cache_bytes,workspace_bytes");
    assert_string_equal(json_string_value(json_at(run, "file", NULL)), golden_path("tiny_leftpad"));
    assert_string_equal(json_string_value(json_at(run, "kv", NULL)), "i8");
    assert_string_equal(json_string_value(json_at(run, "block_keys", NULL)), "f32");
    assert_string_equal(json_string_value(json_at(run, "select", NULL)), "official");
    assert_string_equal(json_string_value(json_at(run, "class", NULL)), "strict");
    assert_string_equal(json_string_value(json_at(run, "backend", NULL)), "cpu");
    assert_true(json_number_at(run, "threads", NULL) == 2);
    assert_true(json_number_at(run, "chunk", NULL) == 9);
    assert_true(json_number_at(run, "tokens", NULL) == 43 + 38); // the second sequence has 5 tokens of padding
    assert_true(json_number_at(run, "rows", NULL) == 43 + 38);
    assert_true(json_number_at(run, "memory", "cache_bytes") > 0);
    json_decref(run);
}

static void test_cut_compares_less(void **state) {
    (void)state;
    json_t *run = run_json(tool_run("run --json --select cut '%s'", golden_path("tiny_prefill")), 0);
    assert_keys(json_at(run, "error", NULL), "q,index_q,k,v,scores");
    assert_true(json_number_at(run, "selection", "equal") == 0);
    json_decref(run);
}

static void test_table(void **state) {
    (void)state;
    ran table = tool_run("run '%s'", golden_path("tiny_mrope"));
    assert_int_equal(table.code, 0);
    assert_string_equal(table.err, "");
    static const char *const parts[] = {"geometry", "budget 16", "OpenBLAS core", "memory",
                                        "attend_",  "selection", "sha256",        "\nok\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_non_null(strstr(table.out, parts[i]));
    }
    ran_free(table);
}

static void test_out_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i < TINY; i++) {
        const char *saved = tool_test_path("saved.safetensors");
        json_t *run = run_json(tool_run("run --json --kv f32 --out '%s' '%s'", saved, golden_path(tiny[i])), 0);
        json_decref(run);
        static const char *const names[] = {"q", "index_q", "k", "v", "scores", "selected", "attn", "out", "rows"};
        patch patches[9];
        for (size_t p = 0; p < 9; p++) {
            const patch official = patch_of(golden_path(tiny[i]), names[p]);
            patches[p] = patch_of(saved, names[p]);
            assert_int_equal(official.dtype, patches[p].dtype);
            assert_int_equal(official.n_dims, patches[p].n_dims);
            assert_memory_equal(official.shape, patches[p].shape, sizeof official.shape);
            free(patch_data(&official));
        }
        // The layer with its own results as the expected ones: no error at all.
        const char *whole = tool_test_path("whole.safetensors");
        patch_file(golden_path(tiny[i]), whole, patches, 9, NULL);
        run = run_json(tool_run("run --json --kv f32 --tol 0 --chunk 5 '%s'", whole), 0);
        assert_true(json_number_at(run, "selection", "equal") == json_number_at(run, "rows", NULL));
        json_decref(run);
        for (size_t p = 0; p < 9; p++) {
            free(patch_data(&patches[p]));
        }
    }
}

static void test_rows_and_all_rows(void **state) {
    (void)state;
    // Three rows attend; with --all-rows all do, and the three are still the ones compared.
    static const int32_t rows[] = {0, 40, 60};
    patch patches[] = {
        {"rows", ST_I32, 1, {3}, rows}, LEAVE_OUT("q"),    LEAVE_OUT("index_q"), LEAVE_OUT("scores"),
        LEAVE_OUT("selected"),          LEAVE_OUT("attn"), LEAVE_OUT("out"),
    };
    const char *file = tool_test_path("rows.safetensors");
    patch_file(golden_path("tiny_prefill"), file, patches, sizeof patches / sizeof *patches, NULL);
    json_t *run = run_json(tool_run("run --json '%s'", file), 0);
    assert_true(json_number_at(run, "rows", NULL) == 3);
    assert_true(json_number_at(run, "tokens", NULL) == 61);
    assert_keys(json_at(run, "error", NULL), "k,v");
    json_decref(run);
    run = run_json(tool_run("run --json --all-rows '%s'", file), 0);
    json_t *official = run_json(tool_run("run --json '%s'", golden_path("tiny_prefill")), 0);
    assert_true(json_number_at(run, "rows", NULL) == 61);
    assert_string_equal(json_string_value(json_at(run, "attn_sha256", NULL)),
                        json_string_value(json_at(official, "attn_sha256", NULL)));
    json_decref(run);
    json_decref(official);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_is_ok),         cmocka_unit_test(test_formats_are_within_tolerance),
        cmocka_unit_test(test_one_digest),        cmocka_unit_test(test_json_keys),
        cmocka_unit_test(test_cut_compares_less), cmocka_unit_test(test_table),
        cmocka_unit_test(test_out_round_trip),    cmocka_unit_test(test_rows_and_all_rows),
    };
    return cmocka_run_group_tests_name("tool_run", tests, tool_test_begin, tool_test_end);
}
