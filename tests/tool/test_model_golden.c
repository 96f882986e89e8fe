// SPDX-License-Identifier: Apache-2.0
//
// The official vectors through a checkpoint and through GGUF: their weights, written as a model's layer 3 in float32, give
// the digest of `qsa run` on the file itself, whatever prefix, shards, or norm form; and a model whose norm weights are in
// the other form is found different.
#include "model_test.h"

static const char *const golden[] = {"tiny_prefill", "tiny_bias", "tiny_mrope", "tiny_leftpad", "tiny_ratio2"};
#define GOLDEN (sizeof golden / sizeof *golden)

// The digest of the file itself.
static char own[GOLDEN][80];

static int digest_all(void **state) {
    if (tool_test_begin(state) != 0) {
        return -1;
    }
    for (size_t i = 0; i < GOLDEN; i++) {
        snprintf(own[i], sizeof own[i], "%s",
                 digest_of(tool_run("run '%s' --kv f32 --json", golden_path(golden[i])), 0));
    }
    return 0;
}

static void test_checkpoint(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "ckpt-%s", golden[i]);
        const model_spec spec = {.golden = golden[i], .shards = i % 2 ? 2 : 0};
        const char *path = write_checkpoint(folder, &spec);
        const char *digest = digest_of(
            tool_run("run --checkpoint '%s' --layer 3 --hidden '%s' --kv f32 --json", path, golden_path(golden[i])), 0);
        assert_string_equal(digest, own[i]);
    }
}

static void test_gguf(void **state) {
    (void)state;
    for (size_t i = 0; i < GOLDEN; i++) {
        const model_spec spec = {.golden = golden[i]};
        const char *path = write_gguf("golden.gguf", &spec);
        const char *digest = digest_of(
            tool_run("run --gguf '%s' --layer 3 --hidden '%s' --kv f32 --json", path, golden_path(golden[i])), 0);
        assert_string_equal(digest, own[i]);
    }
}

static void test_prefixes(void **state) {
    (void)state;
    static const char *const prefixes[] = {"model.layers.", "language_model.model.layers.", "layers."};
    for (size_t i = 0; i < 3; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "prefix-%zu", i);
        const model_spec spec = {.golden = "tiny_ratio2", .prefix = prefixes[i]};
        const char *path = write_checkpoint(folder, &spec);
        json_t *run = run_json(
            tool_run("run --checkpoint '%s' --layer 3 --hidden '%s' --json", path, golden_path("tiny_ratio2")), 0);
        json_decref(run);
    }
}

// Layer types by name, as the shipped checkpoints spell them and as the official class does, beat the interval.
static void test_layer_types(void **state) {
    (void)state;
    static const char *const types[] = {
        "[\"full_attention\", \"linear_attention\", \"linear_attention\", \"full_attention\"]",
        "[\"qwen_sparse_attention\", \"linear_attention\", \"linear_attention\", \"qwen_sparse_attention\"]",
    };
    for (size_t i = 0; i < 2; i++) {
        char folder[64];
        snprintf(folder, sizeof folder, "types-%zu", i);
        const model_spec spec = {.golden = "tiny_ratio2", .config_key = "layer_types", .config_value = types[i]};
        const char *path = write_checkpoint(folder, &spec);
        json_t *run = run_json(
            tool_run("run --checkpoint '%s' --layer 3 --hidden '%s' --json", path, golden_path("tiny_ratio2")), 0);
        json_decref(run);
        assert_refused(tool_run("run --checkpoint '%s' --layer 1 --hidden '%s'", path, golden_path("tiny_ratio2")),
                       "layer 1 is no QSA layer; QSA layers: 0, 3");
    }
}

// The JSON object says where the weights came from, and everything that the file expects is compared.
static void test_json(void **state) {
    (void)state;
    const model_spec spec = {.golden = "tiny_prefill", .shards = 2};
    const char *path = write_checkpoint("json", &spec);
    json_t *run = run_json(
        tool_run("run --json --checkpoint '%s' --layer 3 --hidden '%s'", path, golden_path("tiny_prefill")), 0);
    assert_int_equal(json_object_size(run), 17 + 2);
    assert_int_equal(json_object_size(json_at(run, "error", NULL)), 7);
    assert_string_equal(json_string_value(json_at(run, "checkpoint", NULL)), path);
    assert_string_equal(json_string_value(json_at(run, "file", NULL)), golden_path("tiny_prefill"));
    assert_true(json_number_at(run, "layer", NULL) == 3);
    json_decref(run);
}

// Mixing the norm forms up gives a model that still talks: it must be seen. Weights of GGUF without their 1, and of a
// checkpoint with a 1 too many.
static void test_wrong_norm_form_is_found(void **state) {
    (void)state;
    const model_spec raw = {.golden = "tiny_prefill", .raw_norms = true};
    ran run = tool_run("run --gguf '%s' --layer 3 --hidden '%s' --json", write_gguf("raw.gguf", &raw),
                       golden_path("tiny_prefill"));
    assert_int_equal(run.code, 1);
    ran_free(run);
    patch norm = patch_of(golden_path("tiny_prefill"), "self_attn.k_norm.weight");
    float values[32];
    for (int i = 0; i < 32; i++) {
        uint16_t half;
        memcpy(&half, (const char *)norm.data + 2 * i, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&values[i], &bits, sizeof bits);
        values[i] += 1.0F;
    }
    free(patch_data(&norm));
    const patch wrong = {norm.name, ST_F32, 1, {32}, values};
    const model_spec added = {.golden = "tiny_prefill", .change = &wrong};
    run = tool_run("run --checkpoint '%s' --layer 3 --hidden '%s' --json", write_checkpoint("added", &added),
                   golden_path("tiny_prefill"));
    assert_int_equal(run.code, 1);
    ran_free(run);
}

// Results of a model's layer can be written, and read again as what a file expects.
static void test_out(void **state) {
    (void)state;
    const model_spec spec = {.golden = "tiny_mrope"};
    const char *path = write_gguf("out.gguf", &spec);
    const char *saved = tool_test_path("out.safetensors");
    json_t *run = run_json(
        tool_run("run --json --gguf '%s' --layer 3 --hidden '%s' --out '%s'", path, golden_path("tiny_mrope"), saved),
        0);
    json_decref(run);
    char reason[ST_ERR_SIZE];
    st_file *st = st_open(saved, reason, sizeof reason);
    assert_non_null(st);
    assert_non_null(strstr(st_metadata(st, "config"), "\"indexer_budget\":16"));
    assert_non_null(st_find(st, "attn"));
    st_close(st);
    assert_refused(
        tool_run("run --gguf '%s' --layer 3 --hidden '%s' --out '%s'", path, golden_path("tiny_mrope"), path),
        "replace the input");
}

// Without position_ids the cells are counted: the same as the official positions of text.
static void test_positions_are_counted(void **state) {
    (void)state;
    const model_spec spec = {.golden = "tiny_leftpad"};
    const char *path = write_checkpoint("positions", &spec);
    const patch none = LEAVE_OUT("position_ids");
    const char *file = tool_test_path("no-positions.safetensors");
    patch_file(golden_path("tiny_leftpad"), file, &none, 1, NULL);
    const char *digest =
        digest_of(tool_run("run --checkpoint '%s' --layer 3 --hidden '%s' --kv f32 --json", path, file), 0);
    assert_string_equal(digest, own[3]); // tiny_leftpad
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_prefixes),   cmocka_unit_test(test_layer_types),
        cmocka_unit_test(test_json),       cmocka_unit_test(test_wrong_norm_form_is_found),
        cmocka_unit_test(test_out),        cmocka_unit_test(test_positions_are_counted),
    };
    return cmocka_run_group_tests_name("model_golden", tests, digest_all, tool_test_end);
}
