// SPDX-License-Identifier: Apache-2.0
//
// `qsa check` at the real geometry: the width of the selection around the budget's edge, frequencies at far positions,
// and some other faults once more on many cells.
// LABELS: real long
#include "check_test.h"

static void test_clean(void **state) {
    (void)state;
    const char *const files[] = {"real_edge", "real_long"};
    for (size_t i = 0; i < 2; i++) {
        const kept official = keep_path(golden_path(files[i]));
        assert_clean(official.path, files[i], "");
        const kept dump = keep_path(tool_test_path("clean.safetensors"));
        mutator *m = mutator_open(files[i]);
        mutate_save(m, MUTATE_NONE, DUMP_ALL, ST_F32, false, dump.path);
        assert_clean(dump.path, files[i], "");
        mutate_save(m, MUTATE_NONE, DUMP_ALL, ST_BF16, false, dump.path);
        assert_clean(dump.path, files[i], "");
        mutator_close(m);
    }
}

// Without attention, which costs most of the time here and only follows (test_check.c sees to that).
static void test_vectors_and_scores(void **state) {
    (void)state;
    static const expectation list[] = {
        {MUTATE_ONE_ROUNDING, "real_long", "q", "rope-one-rounding", "q"},
        {MUTATE_THETA_1E4, "real_long", "q", "rope-theta", "q"},
        {MUTATE_THETA_1E6, "real_long", "q", "rope-theta", "q"},
        {MUTATE_THETA_INDEX, "real_long", "scores", "rope-theta", "block_key"},
        {MUTATE_BLOCK_NUMBER, "real_long", "scores", "block-position-number", ""},
        {MUTATE_INDEX_K_TWICE, "real_long", "scores", "norm-one-twice", "block_key"},
    };
    assert_all_found(list, sizeof list / sizeof *list, DUMP_ALL & ~(unsigned)(DUMP_ATTN | DUMP_OUT), false);
}

static void test_selection_and_attention(void **state) {
    (void)state;
    static const expectation list[] = {
        {MUTATE_WIDTH, "real_edge", "selected", "width-cut", ""},
        {MUTATE_NO_TAIL, "real_edge", "selected", "tail-missing", ""},
        {MUTATE_KV_MODULO, "real_long", "attn", "kv-head-modulo", ""},
        {MUTATE_LOGITS_UNSCALED, "real_long", "attn", "logits-unscaled", ""},
        {MUTATE_NO_GATE, "real_long", "out", "gate-missing", ""},
    };
    assert_all_found(list, sizeof list / sizeof *list, DUMP_ALL, true);
}

static void test_one_tensor(void **state) {
    (void)state;
    static const expectation attn[] = {{MUTATE_WIDTH, "real_edge", "attn", "width-cut", ""}};
    static const expectation scores[] = {{MUTATE_ONE_ROUNDING, "real_long", "scores", "rope-one-rounding", "all"}};
    assert_all_found(attn, 1, DUMP_ATTN, true);
    assert_all_found(scores, 1, DUMP_SCORES, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_vectors_and_scores),
        cmocka_unit_test(test_selection_and_attention),
        cmocka_unit_test(test_one_tensor),
    };
    return cmocka_run_group_tests_name("tool_check_real", tests, tool_test_begin, tool_test_end);
}
