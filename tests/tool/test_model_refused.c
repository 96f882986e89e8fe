// SPDX-License-Identifier: Apache-2.0
//
// Models that `qsa run` and `qsa info` have to refuse with one line and exit code 2: what is missing, of another type or
// shape, cut off, or leads out of its folder. The line names it.
#include "model_test.h"

#define GOLDEN "tiny_ratio2" // hidden 48, 4 heads of 16, 1 KV head, 1 index head of 8
#define K_PROJ "self_attn.k_proj.weight"

static int made;

static ran run_checkpoint(const model_spec *spec) {
    char folder[64];
    snprintf(folder, sizeof folder, "model-%d", made++);
    return tool_run("run --checkpoint '%s' --layer 3 --hidden '%s'", write_checkpoint(folder, spec),
                    golden_path(GOLDEN));
}

static ran run_gguf(const model_spec *spec) {
    return tool_run("run --gguf '%s' --layer 3 --hidden '%s'", write_gguf("model.gguf", spec), golden_path(GOLDEN));
}

static void refuse_change(const patch *change, const char *part) {
    const model_spec spec = {.golden = GOLDEN, .change = change};
    assert_refused(run_checkpoint(&spec), part);
}

static void refuse_config(const char *key, const char *value, const char *part) {
    const model_spec spec = {.golden = GOLDEN, .config_key = key, .config_value = value};
    assert_refused(run_checkpoint(&spec), part);
}

static void test_tensors(void **state) {
    (void)state;
    static const float zeros[16 * 48];
    const patch none = LEAVE_OUT(K_PROJ);
    refuse_change(&none, "no tensor " OFFICIAL "3." K_PROJ);
    const patch no_norm = LEAVE_OUT("self_attn.indexer.k_layernorm.weight");
    refuse_change(&no_norm, "no tensor " OFFICIAL "3.self_attn.indexer.k_layernorm.weight");
    const patch integers = {K_PROJ, ST_I32, 2, {16, 48}, zeros};
    refuse_change(&integers, K_PROJ " has the type I32, expected F32, F16, BF16 or F8_E4M3");
    const patch other = {K_PROJ, ST_F8_E5M2, 2, {16, 48}, zeros};
    refuse_change(&other, K_PROJ " has the type F8_E5M2");
    const patch shape = {K_PROJ, ST_F32, 2, {48, 16}, zeros};
    refuse_change(&shape, K_PROJ " has the shape [48, 16], expected [16, 48]");
    const patch norm = {"self_attn.q_norm.weight", ST_F8_E4M3, 1, {16}, zeros};
    refuse_change(&norm, "3.self_attn.q_norm.weight");
    // Codes without their scales say nothing.
    const patch fp8 = {K_PROJ, ST_F8_E4M3, 2, {16, 48}, zeros};
    refuse_change(&fp8, "no tensor " OFFICIAL "3." K_PROJ "_scale_inv");
}

static void test_config(void **state) {
    (void)state;
    refuse_config("/model_type", "\"llama\"", "model_type is \"llama\"");
    refuse_config("/text_config", "3", "text_config is 3");
    refuse_config("hidden_size", NULL, "hidden_size is missing");
    refuse_config("hidden_size", "47", "expected hidden_size 47");
    refuse_config("num_hidden_layers", NULL, "num_hidden_layers is missing");
    refuse_config("num_hidden_layers", "1000000", "num_hidden_layers is 1000000");
    refuse_config("num_hidden_layers", "3", "layer 3: the model has layers 0 to 2; QSA layers: none");
    refuse_config("full_attention_interval", "3", "layer 3 is no QSA layer; QSA layers: 2");
    refuse_config("layer_types", "[\"linear_attention\"]", "layer_types is");
    refuse_config("layer_types",
                  "[\"linear_attention\", \"sliding_attention\", \"linear_attention\", \"full_attention\"]",
                  "layer_types[1] is \"sliding_attention\"");
    refuse_config("indexer_n_heads", NULL, "indexer_n_heads is missing");
    refuse_config("/quantization_config", "{\"quant_method\": \"gptq\"}", "quant_method is \"gptq\"");
    refuse_config("/quantization_config", "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}",
                  "weight_block_size is [64,128]");
    const model_spec spec = {.golden = GOLDEN};
    const char *path = write_checkpoint("texts", &spec);
    static const char *const texts[] = {"", "{", "[]", "{\"model_type\": 1, \"model_type\": 1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(model_path("texts", "config.json"), texts[i]);
        assert_refused(tool_run("info --checkpoint '%s'", path), "config");
    }
    char *big = malloc((1 << 20) + 2);
    assert_non_null(big);
    memset(big, ' ', (1 << 20) + 1);
    big[(1 << 20) + 1] = 0;
    write_text(model_path("texts", "config.json"), big);
    free(big);
    assert_refused(tool_run("info --checkpoint '%s'", path), "expected at most 1048576");
    assert_int_equal(unlink(model_path("texts", "config.json")), 0);
    assert_refused(tool_run("info --checkpoint '%s'", path), "config.json: cannot open");
}

// The fuzz targets' seeds that are to be right are: what is missing is the weights alone. In the GGUF one the count of KV
// heads is said per layer.
static void test_seeds_are_accepted(void **state) {
    (void)state;
    static const char *const seeds[] = {"valid", "valid_types", "valid_fp8", "valid_flat"};
    assert_int_equal(mkdir(model_path("seeds", ""), 0777), 0);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/model_config/%s", QSA_SOURCE_DIR, seeds[i]);
        char *text = tool_test_read(path);
        write_text(model_path("seeds", "config.json"), text);
        free(text);
        assert_refused(tool_run("info --checkpoint '%s'", model_path("seeds", "")), "model.safetensors: cannot open");
    }
    assert_refused(tool_run("info --gguf '%s/tests/fuzz/corpus/gguf/model'", QSA_SOURCE_DIR),
                   "no tensor blk.3.attn_q.weight");
}

static void refuse_index(const char *file, const char *part) {
    const model_spec spec = {.golden = GOLDEN, .shards = 2, .index_tensor = K_PROJ, .index_file = file};
    assert_refused(run_checkpoint(&spec), part);
}

static void test_index(void **state) {
    (void)state;
    static const char *const outside[] = {"../x", "/etc/passwd", "..", "a/b.safetensors", "a\\b", "", ".x"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        refuse_index(outside[i], "is no plain file name of this folder");
    }
    refuse_index("model-00003-of-00002.safetensors", "model-00003-of-00002.safetensors: cannot open");
    refuse_index("config.json", "config.json: ");
    // The tensor lies in the other file: in one of the two cases the index is right.
    const model_spec first = {
        .golden = GOLDEN, .shards = 2, .index_tensor = K_PROJ, .index_file = "model-00001-of-00002.safetensors"};
    const model_spec second = {
        .golden = GOLDEN, .shards = 2, .index_tensor = K_PROJ, .index_file = "model-00002-of-00002.safetensors"};
    ran a = run_checkpoint(&first);
    const bool wrong_first = a.code == 2;
    ran b = run_checkpoint(&second);
    assert_int_equal(a.code == 2, b.code != 2);
    assert_refused(wrong_first ? a : b, "which the index places there");
    ran_free(wrong_first ? b : a);
    const model_spec cut = {.golden = GOLDEN, .shards = 2, .cut = 1};
    assert_refused(run_checkpoint(&cut), "truncated: 1 bytes are missing");
}

static void refuse_gguf_without(const char *what, const char *part) {
    const model_spec spec = {.golden = GOLDEN, .gguf_without = what};
    assert_refused(run_gguf(&spec), part);
}

static void test_gguf(void **state) {
    (void)state;
    refuse_gguf_without("blk.3.attn_k.weight", "no tensor blk.3.attn_k.weight");
    refuse_gguf_without("blk.3.indexer.q_proj.weight", "no tensor blk.3.indexer.q_proj.weight");
    refuse_gguf_without("blk.3.indexer.k_proj.weight", "no tensor blk.3.indexer.k_proj.weight");
    refuse_gguf_without("qwen4exp.attention.indexer.top_k", "no metadata key qwen4exp.attention.indexer.top_k");
    refuse_gguf_without("qwen4exp.embedding_length", "no metadata key qwen4exp.embedding_length");
    const model_spec other = {.golden = GOLDEN, .config_value = "llama"};
    assert_refused(run_gguf(&other), "general.architecture is 'llama', this tool reads qwen4exp");
    // I32 has as many bytes as F32, so that the file itself is right; 99 is no type.
    const model_spec integers = {.golden = GOLDEN, .gguf_change = 26};
    assert_refused(run_gguf(&integers), "blk.3.attn_k.weight has the type I32, expected F32, F16, BF16 or Q8_0");
    const model_spec unknown = {.golden = GOLDEN, .gguf_change = 99};
    assert_refused(run_gguf(&unknown), "blk.3.attn_k.weight has the type 99 (unknown), expected");
    const model_spec cut = {.golden = GOLDEN, .cut = 400};
    assert_refused(run_gguf(&cut), "truncated: tensor 'blk.3.");
    const model_spec spec = {.golden = GOLDEN};
    const char *path = write_gguf("model.gguf", &spec);
    assert_refused(tool_run("run --gguf '%s' --layer 1 --hidden '%s'", path, golden_path(GOLDEN)),
                   "layer 1 is no QSA layer; QSA layers: 3");
    assert_refused(tool_run("info --gguf '%s'", golden_path(GOLDEN)), "not a GGUF file");
    assert_refused(tool_run("info --gguf '%s'", tool_test_folder), "is a directory");
}

// The counts of the head, each as large as it can be: refused at once, and without memory for them.
static void test_huge_counts(void **state) {
    (void)state;
    for (int field = 0; field < 2; field++) {
        const model_spec spec = {.golden = GOLDEN};
        const char *path = write_gguf("huge.gguf", &spec);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, 8 + 8 * field, SEEK_SET), 0);
        assert_int_equal(fwrite("\xff\xff\xff\xff\xff\xff\xff\x0f", 1, 8, file), 8);
        assert_int_equal(fclose(file), 0);
        assert_refused(tool_run("info --gguf '%s'", path),
                       field ? "metadata entries, and the file has" : "tensors, and the file has");
    }
}

static void test_input(void **state) {
    (void)state;
    const model_spec spec = {.golden = GOLDEN};
    const char *path = write_checkpoint("input", &spec);
    // The file with the input is blamed for what is wrong with the input.
    assert_refused(tool_run("run --checkpoint '%s' --layer 3 --hidden '%s'", path, golden_path("tiny_prefill")),
                   "tiny_prefill.safetensors: hidden has rows of 64, expected hidden_size 48");
    assert_refused(tool_run("run --checkpoint '%s' --layer 3 --hidden '%s/model.safetensors'", path, path),
                   "no tensor hidden");
    assert_refused(tool_run("run --checkpoint '%s' --layer 3 --hidden nowhere", path), "nowhere: cannot open");
    assert_refused(tool_run("run --checkpoint '%s' --layer 2 --hidden nowhere", path), "QSA layers: 3");
    assert_refused(tool_run("run --checkpoint '%s' --layer 3", path), "needs --hidden FILE");
    assert_refused(tool_run("run --checkpoint '%s' --hidden x", path), "needs --layer N");
    assert_refused(tool_run("run --checkpoint '%s' --gguf x --layer 3 --hidden x", path), "one model expected");
    assert_refused(tool_run("run --checkpoint '%s' --layer 3 --hidden x y", path), "there is also y");
    assert_refused(tool_run("run --layer 3 '%s'", golden_path(GOLDEN)), "--layer needs --checkpoint or --gguf");
    assert_refused(tool_run("run --hidden x"), "--hidden needs --checkpoint or --gguf");
    assert_refused(tool_run("run --checkpoint '%s' --layer -1 --hidden x", path), "--layer -1");
    assert_refused(tool_run("info --checkpoint '%s' --gguf x", path), "one model expected");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_config), cmocka_unit_test(test_seeds_are_accepted),
        cmocka_unit_test(test_index),   cmocka_unit_test(test_gguf),   cmocka_unit_test(test_huge_counts),
        cmocka_unit_test(test_input),
    };
    return cmocka_run_group_tests_name("model_refused", tests, tool_test_begin, tool_test_end);
}
