// SPDX-License-Identifier: Apache-2.0
//
// Files of many sequences with holes in their masks: one digest however they are mixed and cut, and each sequence as it
// is alone. Sequences differ in length, so that a batch mixes rows below and above the budget (8 cells).
#include "tool_test.h"

#include <math.h>

#define B      20
#define T      29
#define HIDDEN 48
#define WIDTH  64 // 4 heads of 16
#define ALONE  3

static char source[512];
static float hidden[B * T * HIDDEN];
static int32_t positions[3 * B * T];
static uint8_t mask[B * T];

static uint32_t next_number(void) {
    static uint32_t state = 12345;
    state = state * 1664525U + 1013904223U;
    return state >> 8;
}

static void make_input(void) {
    for (int i = 0; i < B * T * HIDDEN; i++) {
        hidden[i] = (float)((int)(next_number() % 4001) - 2000) / 1024.0F;
    }
    for (int i = 0; i < B * T; i++) {
        const int b = i / T;
        mask[i] = b == 7 ? 0 : b == 8 ? 1 : next_number() % 8 >= (uint32_t)b / 4;
        for (int axis = 0; axis < 3; axis++) {
            positions[axis * B * T + i] = (int32_t)(next_number() % 5000);
        }
    }
}

// Sequences first..first+count-1 as a file of their own.
static void write_sequences(const char *to, int first, int count) {
    static int32_t some[3 * B * T];
    const size_t n = (size_t)count * T;
    for (int axis = 0; axis < 3; axis++) {
        memcpy(some + (size_t)axis * n, positions + axis * B * T + first * T, n * sizeof *some);
    }
    const patch patches[] = {
        {"hidden", ST_F32, 3, {count, T, HIDDEN}, hidden + first * T * HIDDEN},
        {"position_ids", ST_I32, 3, {3, count, T}, some},
        {"attention_mask", ST_U8, 2, {count, T}, mask + first * T},
        LEAVE_OUT("rows"),
        LEAVE_OUT("q"),
        LEAVE_OUT("index_q"),
        LEAVE_OUT("k"),
        LEAVE_OUT("v"),
        LEAVE_OUT("scores"),
        LEAVE_OUT("selected"),
        LEAVE_OUT("attn"),
        LEAVE_OUT("out"),
    };
    patch_file(source, to, patches, sizeof patches / sizeof *patches, NULL);
}

static void test_one_digest_however_mixed(void **state) {
    (void)state;
    char file[512];
    snprintf(file, sizeof file, "%s", tool_test_path("batch.safetensors"));
    write_sequences(file, 0, B);
    int cells = 0;
    for (int i = 0; i < B * T; i++) {
        cells += mask[i];
    }
    static const char *const options[] = {"--chunk 512", "--chunk 1", "--chunk 7 --threads 2", "--chunk 64 --threads 1",
                                          "--chunk 100 --kernel attend=ref"};
    char first[80] = "";
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        json_t *run = run_json(tool_run("run --json '%s' %s", file, options[o]), 0);
        const char *digest = json_string_value(json_at(run, "attn_sha256", NULL));
        if (o == 0) {
            snprintf(first, sizeof first, "%s", digest);
        }
        assert_string_equal(first, digest);
        assert_true(json_number_at(run, "tokens", NULL) == cells);
        json_decref(run);
    }
}

static void test_each_sequence_as_alone(void **state) {
    (void)state;
    char file[512];
    char saved[512];
    snprintf(file, sizeof file, "%s", tool_test_path("batch.safetensors"));
    snprintf(saved, sizeof saved, "%s", tool_test_path("batch.out.safetensors"));
    write_sequences(file, 0, B);
    json_decref(run_json(tool_run("run --json --kv f32 --chunk 37 --out '%s' '%s'", saved, file), 0));
    const patch all_selected = patch_of(saved, "selected");
    const patch all_attn = patch_of(saved, "attn");
    const int alone[ALONE] = {0, 8, 19};
    for (int i = 0; i < ALONE; i++) {
        write_sequences(file, alone[i], 1);
        json_decref(run_json(tool_run("run --json --kv f32 --out '%s' '%s'", saved, file), 0));
        const patch selected = patch_of(saved, "selected");
        const patch attn = patch_of(saved, "attn");
        assert_memory_equal((uint8_t *)patch_data(&all_selected) + alone[i] * T * T, patch_data(&selected), T * T);
        const float *theirs = (const float *)patch_data(&all_attn) + alone[i] * T * WIDTH;
        const float *ours = patch_data(&attn);
        for (int t = 0; t < T * WIDTH; t++) {
            // Not bit for bit: the projections' blocks hold other rows, and a BLAS may sum those in another order.
            assert_true(fabsf(ours[t] - theirs[t]) <= 1e-4F || (isnan(ours[t]) && isnan(theirs[t])));
            assert_int_equal(isnan(ours[t]), !mask[alone[i] * T + t / WIDTH]);
        }
        free(patch_data(&selected));
        free(patch_data(&attn));
    }
    free(patch_data(&all_selected));
    free(patch_data(&all_attn));
}

static int begin(void **state) {
    snprintf(source, sizeof source, "%s", golden_path("tiny_ratio2"));
    make_input();
    return tool_test_begin(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_digest_however_mixed),
        cmocka_unit_test(test_each_sequence_as_alone),
    };
    return cmocka_run_group_tests_name("tool_batch", tests, begin, tool_test_end);
}
