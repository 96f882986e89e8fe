// SPDX-License-Identifier: Apache-2.0
//
// `qsa run` must find what is different: copies of an official file with altered results, each of which has to come out
// as the right kind of row and the right exit code.
#include "tool_test.h"

#include <math.h>

#define FILE_T   61 // tokens of tiny_prefill, all of which are rows
#define BLOCKS   15
#define ROW      60 // sees 61 cells: 15 blocks, of which 4 are selected, and a tail of 1
#define RATIO    4
#define SELECTED 4

static const char *source;

typedef struct counts {
    int equal, tie, near, wrong;
} counts;

// Runs the file and returns its counts of rows.
static counts counts_of(const char *file, const char *options, int code) {
    json_t *run = run_json(tool_run("run --json --kv f32 '%s' %s", file, options), code);
    const counts found = {
        (int)json_number_at(run, "selection", "equal"),
        (int)json_number_at(run, "selection", "tie"),
        (int)json_number_at(run, "selection", "near"),
        (int)json_number_at(run, "selection", "wrong"),
    };
    assert_true(json_is_true(json_at(run, "ok", NULL)) == (code == 0));
    json_decref(run);
    return found;
}

static const char *patched(const patch *patches, size_t n) {
    const char *file = tool_test_path("patched.safetensors");
    patch_file(source, file, patches, n, NULL);
    return file;
}

// The worst selected and the best other block of ROW by the official scores, which differ.
static void edge_blocks(const float *scores, const uint8_t *selected, int *in, int *out) {
    const float *row = scores + ROW * BLOCKS;
    *in = *out = -1;
    for (int b = 0; b < BLOCKS; b++) {
        if (selected[ROW * FILE_T + b * RATIO]) {
            *in = *in < 0 || row[b] < row[*in] ? b : *in;
        } else {
            *out = *out < 0 || row[b] > row[*out] ? b : *out;
        }
    }
    assert_true(row[*in] > row[*out]);
}

static void mark_block(uint8_t *selected, int block, uint8_t value) {
    memset(selected + ROW * FILE_T + block * RATIO, value, RATIO);
}

static void test_results_altered(void **state) {
    (void)state;
    const counts before = counts_of(source, "", 0);
    assert_int_equal(before.wrong, 0);
    const char *const names[] = {"attn", "out", "q"};
    const int codes[] = {1, 1, 0}; // q is reported, attn and out decide
    for (int i = 0; i < 3; i++) {
        patch altered = patch_of(source, names[i]);
        ((float *)patch_data(&altered))[7] += 0.5F;
        const counts after = counts_of(patched(&altered, 1), "", codes[i]);
        assert_int_equal(after.wrong, 0);
        free(patch_data(&altered));
    }
}

static void test_nan_is_different(void **state) {
    (void)state;
    patch altered = patch_of(source, "attn");
    ((float *)patch_data(&altered))[100] = NAN;
    json_t *run = run_json(tool_run("run --json --kv f32 '%s'", patched(&altered, 1)), 1);
    assert_true(json_is_null(json_at(json_at(run, "error", "attn"), "rel_l2", NULL)));
    json_decref(run);
    free(patch_data(&altered));
}

static void test_wrong_rows(void **state) {
    (void)state;
    const counts before = counts_of(source, "", 0);
    for (int kind = 0; kind < 5; kind++) {
        patch altered = patch_of(source, "selected");
        patch scores = patch_of(source, "scores");
        uint8_t *selected = patch_data(&altered);
        int in = 0;
        int out = 0;
        edge_blocks(patch_data(&scores), selected, &in, &out);
        switch (kind) {
        case 0: // another block, far from equal
            mark_block(selected, in, 0);
            mark_block(selected, out, 1);
            break;
        case 1: // the tail is missing
            selected[ROW * FILE_T + 60] = 0;
            break;
        case 2: // half a block
            selected[ROW * FILE_T + in * RATIO + 1] = 0;
            break;
        case 3: // a block too many
            mark_block(selected, out, 1);
            break;
        default: // a future token
            selected[10 * FILE_T + 11] = 1;
            break;
        }
        const counts after = counts_of(patched(&altered, 1), "", 1);
        assert_int_equal(after.wrong, 1);
        assert_int_equal(after.equal + after.tie, before.equal + before.tie - 1);
        free(patch_data(&altered));
        free(patch_data(&scores));
    }
}

// Two blocks swapped in `selected`: equal official scores make it a tie, a score error of half the difference near.
static void test_tie_and_near(void **state) {
    (void)state;
    const counts before = counts_of(source, "", 0);
    patch selected = patch_of(source, "selected");
    patch scores = patch_of(source, "scores");
    int in = 0;
    int out = 0;
    edge_blocks(patch_data(&scores), patch_data(&selected), &in, &out);
    mark_block(patch_data(&selected), in, 0);
    mark_block(patch_data(&selected), out, 1);
    float *row = (float *)patch_data(&scores) + ROW * BLOCKS;
    const float difference = row[in] - row[out];
    patch patches[] = {selected, scores, LEAVE_OUT("attn"), LEAVE_OUT("out")};

    // An error of 0.6 of the difference in some other score: near, which f32 block keys do not allow.
    float *other = (float *)patch_data(&scores) + 20 * BLOCKS;
    other[0] += 0.6F * difference;
    counts after = counts_of(patched(patches, 4), "", 1);
    assert_int_equal(after.near, 1);
    assert_int_equal(after.wrong, 0);
    after = counts_of(patched(patches, 4), "--block-keys bf16", 0);
    assert_true(after.near >= 1);
    assert_int_equal(after.wrong, 0);
    // 0.4 of it is not enough.
    other[0] -= 0.2F * difference;
    after = counts_of(patched(patches, 4), "", 1);
    assert_int_equal(after.near, 0);
    assert_int_equal(after.wrong, 1);

    row[out] = row[in];
    after = counts_of(patched(patches, 4), "", 0);
    assert_int_equal(after.tie, before.tie + 1);
    assert_int_equal(after.wrong + after.near, 0);
    // attn and out of a tie row are judged on the file's selection, so those of the other selection are different.
    after = counts_of(patched(patches, 2), "", 1);
    assert_int_equal(after.tie, before.tie + 1);
    free(patch_data(&selected));
    free(patch_data(&scores));
}

static void test_ties_without_scores_are_wrong(void **state) {
    (void)state;
    const counts before = counts_of(source, "", 0);
    assert_true(before.tie > 0); // the official file has some, and their attn was compared on the official selection
    const patch none = LEAVE_OUT("scores");
    const counts after = counts_of(patched(&none, 1), "", 1);
    assert_int_equal(after.wrong, before.tie);
    assert_int_equal(after.equal, before.equal);
}

static void test_masked_token_selected(void **state) {
    (void)state;
    const char *leftpad = golden_path("tiny_leftpad");
    char file[512];
    snprintf(file, sizeof file, "%s", tool_test_path("masked.safetensors"));
    patch selected = patch_of(leftpad, "selected");
    // The second sequence's first 5 tokens are padding: a row that selects one is wrong, a padded row is ignored.
    uint8_t *of_second = (uint8_t *)patch_data(&selected) + 43 * 43;
    of_second[2 * 43 + 1] ^= 1;
    patch_file(leftpad, file, &selected, 1, NULL);
    assert_int_equal(counts_of(file, "", 0).wrong, 0);
    of_second[42 * 43 + 2] = 1;
    patch_file(leftpad, file, &selected, 1, NULL);
    assert_int_equal(counts_of(file, "", 1).wrong, 1);
    free(patch_data(&selected));
}

static void test_nothing_to_compare(void **state) {
    (void)state;
    const patch none[] = {LEAVE_OUT("q"),      LEAVE_OUT("index_q"),  LEAVE_OUT("k"),    LEAVE_OUT("v"),
                          LEAVE_OUT("scores"), LEAVE_OUT("selected"), LEAVE_OUT("attn"), LEAVE_OUT("out")};
    const counts found = counts_of(patched(none, 8), "", 0);
    assert_int_equal(found.equal + found.tie + found.near + found.wrong, 0);
}

static int begin(void **state) {
    static char path[512];
    snprintf(path, sizeof path, "%s", golden_path("tiny_prefill"));
    source = path;
    return tool_test_begin(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_altered),
        cmocka_unit_test(test_nan_is_different),
        cmocka_unit_test(test_wrong_rows),
        cmocka_unit_test(test_tie_and_near),
        cmocka_unit_test(test_ties_without_scores_are_wrong),
        cmocka_unit_test(test_masked_token_selected),
        cmocka_unit_test(test_nothing_to_compare),
    };
    return cmocka_run_group_tests_name("tool_compare", tests, begin, tool_test_end);
}
