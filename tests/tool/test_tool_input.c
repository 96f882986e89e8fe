// SPDX-License-Identifier: Apache-2.0
//
// Layer files that `qsa run` has to refuse with one line and exit code 2, and unusual ones that it has to take. Shapes
// are those of tiny_ratio2: 33 tokens, hidden 48, 4 heads of 16, 1 KV head, 1 index head of 8, budget 8, ratio 2.
#include "tool_test.h"

#include <math.h>

#define TOKENS 33

static char source[512];
static char made[512];

// The official config with one key changed (value: JSON text; NULL removes it); `inner` is a key of rope_parameters.
static char *config_with(const char *key, const char *inner, const char *value) {
    char reason[ST_ERR_SIZE];
    st_file *st = st_open(source, reason, sizeof reason);
    assert_non_null(st);
    json_t *config = json_loads(st_metadata(st, "config"), 0, NULL);
    json_t *object = inner ? json_object_get(config, key) : config;
    const char *name = inner ? inner : key;
    assert_true(json_is_object(object));
    if (value) {
        json_t *parsed = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(parsed);
        assert_int_equal(json_object_set_new(object, name, parsed), 0);
    } else {
        assert_int_equal(json_object_del(object, name), 0);
    }
    char *text = json_dumps(config, 0);
    json_decref(config);
    st_close(st);
    return text;
}

static void refuse_config(const char *key, const char *inner, const char *value, const char *part) {
    char *config = config_with(key, inner, value);
    patch_file(source, made, NULL, 0, config);
    free(config);
    assert_refused(tool_run("run '%s'", made), part);
}

static void refuse(const patch *patches, size_t n, const char *part) {
    patch_file(source, made, patches, n, NULL);
    assert_refused(tool_run("run '%s'", made), part);
}

static void test_config_is_refused(void **state) {
    (void)state;
    static const char *const heads[] = {"0", "-4", "4.5", "1e300", "99999999999999999999999", "\"4\"", "null", "[]"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (strlen(heads[i]) < 20) { // jansson itself refuses the integer that fits no 64 bits
            refuse_config("num_attention_heads", NULL, heads[i], "num_attention_heads is");
        }
    }
    refuse_config("num_attention_heads", NULL, NULL, "num_attention_heads is missing");
    refuse_config("num_key_value_heads", NULL, "3", "heads");
    refuse_config("head_dim", NULL, "0", "head_dim is 0");
    refuse_config("head_dim", NULL, "2000000000", "head_dim is 2000000000");
    refuse_config("indexer_kv_heads", NULL, "2", "indexer_kv_heads is 2");
    refuse_config("indexer_budget", NULL, "9", "budget");
    refuse_config("indexer_compress_ratio", NULL, "0", "indexer_compress_ratio is 0");
    refuse_config("rms_norm_eps", NULL, "0", "rms_norm_eps is 0");
    refuse_config("hidden_size", NULL, "47", "47");
    refuse_config("rope_parameters", NULL, "3", "rope_parameters is 3");
    refuse_config("rope_parameters", "rope_type", "\"yarn\"", "rope_type is \"yarn\"");
    refuse_config("rope_parameters", "rope_theta", "-1", "rope_theta is -1");
    refuse_config("rope_parameters", "partial_rotary_factor", "1.5", "partial_rotary_factor is 1.5");
    refuse_config("rope_parameters", "partial_rotary_factor", "0.01", "rotary");
    refuse_config("rope_parameters", "mrope_section", "[1, 1]", "mrope_section is [1,1]");
    refuse_config("rope_parameters", "mrope_section", "[1, 1, 1]", "section");
    refuse_config("rope_parameters", "mrope_interleaved", "false", "mrope_interleaved is false");
}

static void test_config_text_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"rms_norm_eps\": NaN}", "[", "3",
        "{\"a\": 1, \"a\": 2}",    "",  "{\"num_attention_heads\": 99999999999999999999999}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        patch_file(source, made, NULL, 0, texts[i]);
        assert_refused(tool_run("run '%s'", made), "config");
    }
    char *deep = malloc(1000001);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    deep[1000000] = 0;
    patch_file(source, made, NULL, 0, deep);
    assert_refused(tool_run("run '%s'", made), "config");
    free(deep);
}

static void test_missing_tensors_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "hidden",
        "position_ids",
        "self_attn.q_proj.weight",
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.o_proj.weight",
        "self_attn.q_norm.weight",
        "self_attn.k_norm.weight",
        "self_attn.indexer.index_qk_proj.weight",
        "self_attn.indexer.q_layernorm.weight",
        "self_attn.indexer.k_layernorm.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const patch none = LEAVE_OUT(names[i]);
        char part[100];
        snprintf(part, sizeof part, "no tensor %s", names[i]);
        refuse(&none, 1, part);
    }
}

static void test_shapes_are_refused(void **state) {
    (void)state;
    static const float zeros[128 * 48];
    static const uint8_t bytes[TOKENS * TOKENS];
    const patch patches[] = {
        {"hidden", ST_F32, 3, {1, 0, 48}, NULL},
        {"hidden", ST_F32, 3, {0, 33, 48}, NULL},
        {"hidden", ST_F32, 3, {0, 3000000000, 48}, NULL},
        {"hidden", ST_F32, 2, {33, 48}, zeros},
        {"hidden", ST_F32, 3, {1, 33, 47}, zeros},
        {"hidden", ST_F32, 3, {1, 32, 48}, zeros},
        {"hidden", ST_I32, 3, {1, 33, 48}, zeros},
        {"position_ids", ST_I32, 3, {2, 1, 33}, zeros},
        {"position_ids", ST_I32, 1, {33}, zeros},
        {"position_ids", ST_F32, 2, {1, 33}, zeros},
        {"self_attn.q_proj.weight", ST_F32, 2, {127, 48}, zeros},
        {"self_attn.q_proj.weight", ST_I32, 2, {128, 48}, zeros},
        {"self_attn.q_proj.bias", ST_F32, 1, {64}, zeros},
        {"self_attn.q_norm.weight", ST_F32, 1, {15}, zeros},
        {"self_attn.q_norm.weight", ST_I8, 1, {16}, zeros},
        {"attention_mask", ST_U8, 1, {33}, bytes},
        {"attention_mask", ST_F32, 2, {1, 33}, zeros},
        {"rows", ST_I32, 1, {0}, NULL},
        {"rows", ST_I32, 1, {34}, zeros},
        {"rows", ST_F32, 1, {33}, zeros},
        {"q", ST_F32, 4, {1, 33, 4, 15}, zeros},
        {"attn", ST_F32, 4, {1, 32, 4, 16}, zeros},
        {"scores", ST_F32, 3, {1, 33, 15}, zeros},
        {"scores", ST_F32, 3, {1, 33, 34}, zeros},
        {"selected", ST_U8, 3, {1, 33, 32}, bytes},
        {"out", ST_I32, 3, {1, 33, 48}, zeros},
    };
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        // The message names the tensor, or what a wrong hidden disagrees with.
        refuse(&patches[i], 1, strcmp(patches[i].name, "hidden") == 0 ? "expected" : patches[i].name);
    }
}

static void test_values_are_refused(void **state) {
    (void)state;
    int32_t positions[3 * TOKENS] = {0};
    int32_t mask[TOKENS];
    int32_t rows[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        mask[i] = 1;
        rows[i] = i;
    }
    const patch all[] = {
        {"position_ids", ST_I32, 3, {3, 1, 33}, positions},
        {"attention_mask", ST_I32, 2, {1, 33}, mask},
        {"rows", ST_I32, 1, {33}, rows},
    };
    positions[40] = -1;
    refuse(&all[0], 1, "position_ids holds -1");
    mask[5] = 2;
    refuse(&all[1], 1, "attention_mask holds 2");
    mask[5] = -1;
    refuse(&all[1], 1, "attention_mask holds -1");
    rows[32] = 33;
    refuse(&all[2], 1, "rows holds 33");
    rows[32] = 31;
    refuse(&all[2], 1, "rows holds 31 after 31");
    rows[0] = -1;
    refuse(&all[2], 1, "rows holds -1");
    patch selected = patch_of(source, "selected");
    ((uint8_t *)patch_data(&selected))[3] = 7;
    refuse(&selected, 1, "selected holds 7");
    free(patch_data(&selected));
    const int64_t far[TOKENS] = {[7] = 1LL << 31};
    const patch wide = {"position_ids", ST_I64, 2, {1, 33}, far};
    refuse(&wide, 1, "position_ids holds 2147483648");
}

static void test_no_layer_file_is_refused(void **state) {
    (void)state;
    assert_refused(tool_run("run '%s/README.md'", QSA_SOURCE_DIR), "README.md: ");
    assert_refused(tool_run("run '%s/tests/golden/README.md'", QSA_SOURCE_DIR), "README.md: ");
    assert_refused(tool_run("run '%s/there-is-none'", tool_test_folder), "there-is-none: ");
    assert_refused(tool_run("run '%s'", tool_test_folder), "qsa: ");
    assert_refused(tool_run("run /dev/null"), "/dev/null: ");
    assert_refused(tool_run("run \"$(printf 'two\\nlines')\""), "two");
    // A layer file that ends early, anywhere.
    FILE *whole = fopen(source, "rb");
    assert_non_null(whole);
    static char bytes[1 << 17];
    const size_t size = fread(bytes, 1, sizeof bytes, whole);
    fclose(whole);
    assert_true(size > 60000 && size < sizeof bytes);
    const size_t cuts[] = {0, 7, 8, 100, 2000, 20000, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        FILE *cut = fopen(made, "wb");
        assert_non_null(cut);
        assert_int_equal(fwrite(bytes, 1, cuts[i], cut), cuts[i]);
        assert_int_equal(fclose(cut), 0);
        assert_refused(tool_run("run '%s'", made), "made.safetensors: ");
    }
}

// Fully masked sequences, holes in the mask, positions of masked tokens, far positions, no expected tensors, a huge
// budget: nothing that a file may not hold.
static void test_unusual_files_are_taken(void **state) {
    (void)state;
    int32_t mask[TOKENS] = {0};
    int32_t positions[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        positions[i] = INT32_MAX - TOKENS + i;
    }
    positions[3] = -1;
    const patch patches[] = {
        {"attention_mask", ST_I32, 2, {1, 33}, mask},
        {"position_ids", ST_I32, 2, {1, 33}, positions},
        LEAVE_OUT("q"),
        LEAVE_OUT("index_q"),
        LEAVE_OUT("k"),
        LEAVE_OUT("v"),
        LEAVE_OUT("scores"),
        LEAVE_OUT("selected"),
        LEAVE_OUT("attn"),
        LEAVE_OUT("out"),
        LEAVE_OUT("rows"),
    };
    const size_t n = sizeof patches / sizeof *patches;
    patch_file(source, made, patches, n, NULL);
    json_t *run = run_json(tool_run("run --json '%s'", made), 0);
    assert_true(json_number_at(run, "tokens", NULL) == 0);
    json_decref(run);
    for (int i = 0; i < TOKENS; i++) {
        mask[i] = i % 3 == 1;
    }
    char *config = config_with("indexer_budget", NULL, "16777216");
    patch_file(source, made, patches, n, config);
    free(config);
    run = run_json(tool_run("run --json '%s'", made), 0);
    assert_true(json_number_at(run, "tokens", NULL) == 11);
    assert_true(json_number_at(run, "rows", NULL) == 11);
    json_decref(run);
    // Results without values are NaN, -inf or 0 in the file of results.
    char saved[520];
    snprintf(saved, sizeof saved, "%s.out", made);
    json_decref(run_json(tool_run("run --json --out '%s' '%s'", saved, made), 0));
    const patch attn = patch_of(saved, "attn");
    const patch scores = patch_of(saved, "scores");
    const patch selected = patch_of(saved, "selected");
    for (int t = 0; t < TOKENS; t++) {
        assert_true(!mask[t] == !!isnan(((float *)patch_data(&attn))[t * 64]));
        assert_true(mask[t] == ((uint8_t *)patch_data(&selected))[t * TOKENS + t]);
        // The row sees (t + 2) / 3 cells, so (t + 2) / 6 blocks of two.
        assert_true(!isinf(((float *)patch_data(&scores))[t * 16]) == (mask[t] && (t + 2) / 6 > 0));
    }
    free(patch_data(&attn));
    free(patch_data(&scores));
    free(patch_data(&selected));
}

static int begin(void **state) {
    snprintf(source, sizeof source, "%s", golden_path("tiny_ratio2"));
    if (tool_test_begin(state) != 0) {
        return -1;
    }
    snprintf(made, sizeof made, "%s", tool_test_path("made.safetensors"));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_is_refused),           cmocka_unit_test(test_config_text_is_refused),
        cmocka_unit_test(test_missing_tensors_are_refused), cmocka_unit_test(test_shapes_are_refused),
        cmocka_unit_test(test_values_are_refused),          cmocka_unit_test(test_no_layer_file_is_refused),
        cmocka_unit_test(test_unusual_files_are_taken),
    };
    return cmocka_run_group_tests_name("tool_input", tests, begin, tool_test_end);
}
