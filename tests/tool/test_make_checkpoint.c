// SPDX-License-Identifier: Apache-2.0
//
// `qsa make-checkpoint`: every form it writes is one that `qsa run` reads, holds the same layer up to the form's rounding
// (the bounds are those of docs/checkpoints.md), and says the same geometry; forms that hold the same numbers give the same
// bits; nothing is overwritten and nothing is left behind.
#include "tool_test.h"

#include <math.h>
#include <sys/stat.h>

typedef struct form {
    const char *name;
    const char *gguf; // the file to give, or NULL
    const char *type; // of matrices
    double rounding;  // relative l2 of a product of rows, as documented
    int files;        // with weights
} form;

static const form forms[] = {
    {"bf16", NULL, "BF16", 0x1p-9, 2},
    {"f16", NULL, "F16", 0x1p-12, 1},
    {"f32", NULL, "F32", 0, 1},
    {"fp8", NULL, "F8_E4M3", 0x1p-5, 2},
    {"gguf", "model-00001-of-00002.gguf", "Q8_0", 0x1p-7, 2},
    {"gguf-f32", "model.gguf", "F32", 0, 1},
    {"gguf-f16", "model.gguf", "F16", 0x1p-12, 1},
    {"gguf-bf16", "model-00001-of-00002.gguf", "BF16", 0x1p-9, 2},
};
#define FORMS (sizeof forms / sizeof *forms)

// "--checkpoint 'DIR'" or "--gguf 'DIR/FILE'".
static const char *model_of(const form *f) {
    static char text[768];
    snprintf(text, sizeof text, "--%s '%s/%s%s%s'", f->gguf ? "gguf" : "checkpoint", tool_test_folder, f->name,
             f->gguf ? "/" : "", f->gguf ? f->gguf : "");
    return text;
}

static void make(const char *folder, const char *options) {
    ran result = tool_run("make-checkpoint '%s/%s' %s", tool_test_folder, folder, options);
    if (result.code != 0 || result.err[0]) {
        fail_msg("make-checkpoint %s: exit %d, %s", options, result.code, result.err);
    }
    ran_free(result);
}

static int make_all(void **state) {
    if (tool_test_begin(state) != 0) {
        return -1;
    }
    for (size_t i = 0; i < FORMS; i++) {
        char options[64];
        snprintf(options, sizeof options, "--geometry tiny --form %s", forms[i].name);
        make(forms[i].name, options);
    }
    return 0;
}

// The input with what the f32 form computes from it as the expected results.
static const char *expectation(void) {
    static const char *const names[] = {"q", "index_q", "k", "v", "scores", "selected", "attn", "out"};
    char hidden[512];
    patch patches[8];
    const char *saved = tool_test_path("f32-out.safetensors");
    const char *expected = tool_test_path("expected.safetensors");
    snprintf(hidden, sizeof hidden, "%s/f32/hidden.safetensors", tool_test_folder);
    json_t *run = run_json(
        tool_run("run %s --layer 3 --hidden '%s' --kv f32 --json --out '%s'", model_of(&forms[2]), hidden, saved), 0);
    json_decref(run);
    for (size_t i = 0; i < 8; i++) {
        patches[i] = patch_of(saved, names[i]);
    }
    patch_file(hidden, expected, patches, 8, NULL);
    for (size_t i = 0; i < 8; i++) {
        free(patch_data(&patches[i]));
    }
    return expected;
}

static void check_error(const json_t *run, const form *f, const char *tensor, double most) {
    const double error =
        json_number_value(json_object_get(json_object_get(json_at(run, "error", NULL), tensor), "rel_l2"));
    // A form that rounds does: an error of 0 would mean that another form's weights were read.
    if (!(error <= most) || (f->rounding > 0 && !(error > f->rounding / 16))) {
        fail_msg("%s: %s is off by %g, expected at most %g and no less than a sixteenth of the rounding", f->name,
                 tensor, error, most);
    }
}

static void test_forms_hold_one_layer(void **state) {
    (void)state;
    char expected[512];
    snprintf(expected, sizeof expected, "%s", expectation());
    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        json_t *run =
            run_json(tool_run("run %s --layer 3 --hidden '%s' --kv f32 --tol 1 --json", model_of(f), expected),
                     f->rounding > 0x1p-6);
        assert_true(json_number_at(run, "selection", "wrong") == 0);
        assert_true(json_number_at(run, "rows", NULL) == 51);
        check_error(run, f, "v", f->rounding);
        const char *const others[] = {"q", "index_q", "k", "scores", "attn", "out"};
        for (size_t t = 0; t < 6; t++) {
            check_error(run, f, others[t], 2 * f->rounding);
        }
        json_decref(run);
    }
}

// Numbers that two formats both hold exactly go through both readers to the same bits, the norm weights' 1 included.
static void test_same_numbers_same_bits(void **state) {
    (void)state;
    const size_t pairs[][2] = {{0, 7}, {1, 6}, {2, 5}};
    for (size_t i = 0; i < 3; i++) {
        char digests[2][80];
        for (size_t k = 0; k < 2; k++) {
            json_t *run = run_json(tool_run("run %s --layer 3 --hidden '%s/f32/hidden.safetensors' --json",
                                            model_of(&forms[pairs[i][k]]), tool_test_folder),
                                   0);
            snprintf(digests[k], sizeof digests[k], "%s", json_string_value(json_at(run, "attn_sha256", NULL)));
            json_decref(run);
        }
        assert_string_equal(digests[0], digests[1]);
    }
}

static void test_info(void **state) {
    (void)state;
    json_t *first = NULL;
    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        json_t *info = run_json(tool_run("info %s --json", model_of(f)), 0);
        first = first ? first : json_incref(info);
        assert_true(json_equal(json_at(info, "config", NULL), json_at(first, "config", NULL)));
        assert_true(json_equal(json_at(info, "memory", NULL), json_at(first, "memory", NULL)));
        assert_true(json_number_at(info, "layers", NULL) == 4);
        assert_int_equal(json_array_size(json_at(info, "qsa_layers", NULL)), 1);
        assert_string_equal(json_string_value(json_at(info, "weights", "q_proj")), f->type);
        assert_int_equal(json_is_true(json_at(info, "fp8", NULL)), strcmp(f->name, "fp8") == 0);
        json_decref(info);
    }
    json_decref(first);
}

// Three QSA layers in six files.
static void test_more_layers(void **state) {
    (void)state;
    make("twelve", "--layers 12");
    json_t *info = run_json(tool_run("info --checkpoint '%s/twelve' --json", tool_test_folder), 0);
    assert_int_equal(json_array_size(json_at(info, "qsa_layers", NULL)), 3);
    assert_true(json_integer_value(json_array_get(json_at(info, "qsa_layers", NULL), 2)) == 11);
    json_t *run =
        run_json(tool_run("run --checkpoint '%s/twelve' --layer 11 --hidden '%s/twelve/hidden.safetensors' --json",
                          tool_test_folder, tool_test_folder),
                 0);
    json_decref(run);
    json_decref(info);
    ran table = tool_run("info --checkpoint '%s/twelve'", tool_test_folder);
    assert_int_equal(table.code, 0);
    assert_non_null(strstr(table.out, "QSA layers: 3, 7, 11\n"));
    assert_non_null(strstr(table.out, "for 3 QSA layers"));
    ran_free(table);
}

static void test_seeds(void **state) {
    (void)state;
    make("again", "--form f32");
    make("other", "--form f32 --seed 2");
    char command[1024];
    snprintf(command, sizeof command,
             "cd '%s' && cmp -s f32/model.safetensors again/model.safetensors && cmp -s f32/config.json "
             "again/config.json && "
             "! cmp -s f32/model.safetensors other/model.safetensors",
             tool_test_folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): words of the test itself
}

static void test_nothing_is_overwritten(void **state) {
    (void)state;
    assert_refused(tool_run("make-checkpoint '%s/f32'", tool_test_folder), "the folder is not empty");
    assert_refused(tool_run("make-checkpoint '%s/no/such'", tool_test_folder), "cannot make the folder");
    assert_refused(tool_run("make-checkpoint '%s/f32/config.json'", tool_test_folder), "cannot read the folder");
    assert_int_equal(mkdir(tool_test_path("empty"), 0777), 0);
    make("empty", "--form gguf");
    assert_refused(tool_run("make-checkpoint"), "no DIR");
    assert_refused(tool_run("make-checkpoint a b"), "also b");
    assert_refused(tool_run("make-checkpoint '%s/x' --layers 3", tool_test_folder), "--layers 3");
    assert_refused(tool_run("make-checkpoint '%s/x' --form q4", tool_test_folder), "--form q4: expected one of");
    assert_refused(tool_run("make-checkpoint '%s/x' --geometry big", tool_test_folder), "expected one of preset, tiny");
    struct stat info;
    assert_int_equal(stat(tool_test_path("x"), &info), -1);
}

// A disk that is full (here: files of at most 51,200 or 102,400 bytes): one line, and no half of a checkpoint.
static void test_nothing_is_left_behind(void **state) {
    (void)state;
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && trap '' XFSZ && ulimit -f 100 && { '%s' make-checkpoint full 2>err; test $? = 2; } && "
             "test ! -e full && test $(wc -l <err) = 1 && grep -q '^qsa: full: model-' err",
             tool_test_folder, QSA_TOOL_PATH);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): words of the test itself
}

// A part that is missing, is another one, or is given in place of the first.
static void test_split_gguf(void **state) {
    (void)state;
    static const char *const script =
        "cd '%s' && cp -r gguf split && cd split && case %d in 0) rm model-00002-of-00002.gguf;; "
        "1) cp model-00001-of-00002.gguf model-00002-of-00002.gguf;; 2) mv model-00001-of-00002.gguf other.gguf;; "
        "3) cp ../gguf-bf16/model-00002-of-00002.gguf .; cp ../gguf-f32/model.gguf model-00002-of-00002.gguf;; esac";
    static const char *const parts[] = {"part -00002-of-00002.gguf: cannot open", "it says that it is part 1 of 2",
                                        "its name does not end with -00001-of-00002.gguf", "it has no split.no"};
    for (int i = 0; i < 4; i++) {
        char command[1024];
        snprintf(command, sizeof command, script, tool_test_folder, i);
        assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): words of the test itself
        assert_refused(tool_run("info --gguf '%s/split/%s'", tool_test_folder,
                                i == 2 ? "other.gguf" : "model-00001-of-00002.gguf"),
                       parts[i]);
        snprintf(command, sizeof command, "rm -r '%s/split'", tool_test_folder);
        assert_int_equal(system(command), 0); // NOLINT(cert-env33-c)
    }
    assert_refused(tool_run("info --gguf '%s/gguf/model-00002-of-00002.gguf'", tool_test_folder),
                   "is part 2 of 2, expected the first");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_hold_one_layer),
        cmocka_unit_test(test_same_numbers_same_bits),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_more_layers),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_nothing_is_overwritten),
        cmocka_unit_test(test_nothing_is_left_behind),
        cmocka_unit_test(test_split_gguf),
    };
    return cmocka_run_group_tests_name("make_checkpoint", tests, make_all, tool_test_end);
}
