// SPDX-License-Identifier: Apache-2.0
//
// LAUNCH lines of CUDA candidates: what they say, which line is taken, what is refused; the lint of their text; and the
// resources of both arms in a record, judged and reported without a device.
// LABELS: lab
#include "lab/device.h"
#include "lab/launch.h"
#include "lab/report.h"
#include "lab/unit.h"
#include "synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lab_launch list[LAB_LAUNCHES];
static int count;
static char why[300];

static bool reads(const char *line) {
    char text[1024];
    snprintf(text, sizeof text, "// A kernel.\n// LAUNCH: %s\nint x;\n", line);
    why[0] = '\0';
    return lab_launch_read(list, &count, text, why, sizeof why);
}

static void refuses(const char *line, const char *words) {
    assert_false(reads(line));
    if (!strstr(why, words))
        fail_msg("'%s' is not in '%s'", words, why);
}

static const lab_launch_values model = {.rows = 3,
                                        .heads = 24,
                                        .kv_heads = 2,
                                        .head_dim = 256,
                                        .ratio = 4,
                                        .budget = 2048,
                                        .most_cells = 4099,
                                        .blocks = 1024,
                                        .chunks = 33,
                                        .kv_type = 4};

static int64_t value(const char *expression) {
    char line[300];
    lab_launch_shape shape;
    snprintf(line, sizeof line, "kernel=k grid=%s block=1", expression);
    assert_true(reads(line));
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), 0);
    return shape.grid[0];
}

static void test_expressions(void **state) {
    (void)state;
    assert_int_equal(value("rows*heads"), 72);
    assert_int_equal(value("1+2*3-4/2%3"), 5);
    assert_int_equal(value("(1+2)*3"), 9);
    assert_int_equal(value("up(blocks,256)*rows"), 12);
    assert_int_equal(value("up(blocks+1,256)"), 5);
    assert_int_equal(value("min(rows,max(2,1))"), 2);
    assert_int_equal(value("rows==3&&heads!=3||0"), 1);
    assert_int_equal(value("rows<3"), 0);
    assert_int_equal(value("rows<=3"), 1);
    assert_int_equal(value("10--1"), 11);
}

static void test_lines(void **state) {
    (void)state;
    lab_launch_shape shape;
    char again[2000];
    assert_true(lab_launch_read(list, &count,
                                "// LAUNCH: kernel=a<1> when=kv_type==1 grid=rows block=64\n"
                                "// LAUNCH: kernel=b grid=rows,chunks,2 block=32,4 shared=1024*rows cluster=2 "
                                "args=int64:rows*chunks,int32:min(chunks,7)\n",
                                why, sizeof why));
    assert_int_equal(count, 2);
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), 1);
    assert_int_equal(shape.grid[1], 33);
    assert_int_equal(shape.grid[2], 2);
    assert_int_equal(shape.block[0] * shape.block[1] * shape.block[2], 128);
    assert_int_equal(shape.shared, 3072);
    assert_int_equal(shape.cluster, 2);
    assert_int_equal(shape.arg[0], 99);
    assert_int_equal(shape.arg[1], 7);
    assert_int_equal(list[1].arg_bytes[0], 8);
    assert_int_equal(list[1].arg_bytes[1], 4);
    // Written and read again it is the same launch, under the name that is in the machine code.
    assert_true(lab_launch_write(&list[1], "_Z1bv", again, sizeof again) > 0);
    assert_true(lab_launch_read(list, &count, again, why, sizeof why));
    assert_string_equal(list[0].kernel, "_Z1bv");
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), 0);
    assert_int_equal(shape.arg[0], 99);
    // A struct of int32 is one parameter.
    assert_true(reads("kernel=k grid=1 block=1 args=int32:rows,also:heads,also:7,int64:2"));
    assert_true(lab_launch_write(&list[0], "k", again, sizeof again) > 0);
    assert_true(lab_launch_read(list, &count, again, why, sizeof why));
    assert_int_equal(list[0].args, 4);
    assert_int_equal(list[0].arg_bytes[1], 0);
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), 0);
    assert_int_equal(shape.arg[1], 24);
    assert_int_equal(shape.arg[2], 7);
    assert_true(reads("kernel=k when=kv_type==2 grid=1 block=1"));
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), -1);
    assert_non_null(strstr(why, "no line serves"));
    assert_true(reads("kernel=k grid=rows-4 block=1"));
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), -1);
    assert_true(reads("kernel=k grid=rows-3 block=1")); // nothing to do is no error
    assert_int_equal(lab_launch_choose(list, count, &model, &shape, why, sizeof why), 0);
}

static void test_refusals(void **state) {
    (void)state;
    assert_false(lab_launch_read(list, &count, "int x;\n", why, sizeof why));
    assert_non_null(strstr(why, "has no line // LAUNCH"));
    refuses("kernel=k grid=1", "kernel=, grid= and block= are needed");
    refuses("kernel=k grid=1 block=1 speed=9", "speed=9: expected kernel=");
    refuses("kernel=k grid=rowz block=1", "a name that a launch does not know");
    refuses("kernel=k grid=1/(rows-1) block=1", "divides by zero");
    refuses("kernel=k grid=(1 block=1", "lacks a closing bracket");
    refuses("kernel=k grid=1) block=1", "goes on behind its end");
    refuses("kernel=k grid=12x block=1", "malformed number");
    refuses("kernel=k grid=9223372036854775807+1 block=1", "beyond 64 bits");
    refuses("kernel=k grid=min(1) block=1", "lacks a comma");
    refuses("kernel=k grid=1,1,1,1 block=1", "one to three");
    refuses("kernel=k grid=1 block=1 args=float:1", "expected int32:E or int64:E");
    refuses("kernel=k grid=1 block=1 args=also:1", "continues an int32:");
    refuses("kernel=k grid=1 block=1 args=int64:1,also:1", "continues an int32:");
    refuses("kernel=k grid=1 block=1 args=int32:1,int32:2,int32:3,int32:4,int32:5,int32:6,int32:7", "more than 6");
    refuses("kernel=k grid= block=1", "expected 1 to");
    char deep[200] = "kernel=k block=1 grid=";
    memset(deep + strlen(deep), '(', 60);
    refuses(deep, "nested too deep");
    char many[LAB_LAUNCHES * 60 + 100] = "";
    for (int i = 0; i <= LAB_LAUNCHES; i++)
        strcat(many, "// LAUNCH: kernel=k grid=1 block=1\n");
    assert_false(lab_launch_read(list, &count, many, why, sizeof why));
    assert_non_null(strstr(why, "more than"));
}

static bool lints(const char *text, char said[300]) {
    bench_error error = {""};
    char copy[300];
    snprintf(copy, sizeof copy, "%s", text);
    const lab_unit unit = {.file = "gate_cuda_x.cu", .where = "cuda", .text = {copy, strlen(copy)}};
    const bool right = lab_unit_lint(&unit, &error);
    snprintf(said, 300, "%.299s", error.text);
    return right;
}

// The text of a .cu file; a word is refused as a whole word only.
static void test_lint(void **state) {
    (void)state;
    static const char *const refused[] = {"clock",  "clock64", "globaltimer", "__nanosleep",
                                          "__trap", "__brkpt", "printf",      "__managed__"};
    char text[200], said[300];
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        snprintf(text, sizeof text, "__global__ void k(int *x) { *x = (int)%s(1); }", refused[i]);
        assert_false(lints(text, said));
        assert_non_null(strstr(said, refused[i]));
        snprintf(text, sizeof text, "__global__ void k(int *x) { *x = my_%s(1); }", refused[i]);
        assert_true(lints(text, said));
    }
    assert_false(lints("__global__ void k(long *x) { asm(\"mov.u64 %0, %clock64;\" : \"=l\"(*x)); }", said));
    assert_non_null(strstr(said, "asm"));
    assert_true(lints("__global__ void k(int *x) { asm volatile(\"bar.sync 0;\"); }", said));
}

static void test_record(void **state) {
    (void)state;
    synthetic s = synthetic_of(-0.1, 3);
    bench_error error = {""};
    static lab_arm arm;
    arm.resources[0] = (lab_device_resources){.kernel = "gate",
                                              .at = "512 rows",
                                              .registers = 40,
                                              .spill_bytes = 16,
                                              .shared_static = 128,
                                              .shared_dynamic = 1024,
                                              .threads = 256,
                                              .blocks_per_sm = 6,
                                              .limited_by = "registers"};
    json_t *record = synthetic_record(&s);
    json_object_set_new(record, "candidate",
                        json_pack("{s:s, s:o}", "label", "gate_cuda_x.cu", "resources", lab_resources_json(&arm)));
    json_object_set_new(json_object_get(record, "baseline"), "resources", lab_resources_json(&arm));
    json_object_set_new(record, "device",
                        json_pack("{s:s, s:i, s:i}", "name", "A device", "driver", 13000, "nvrtc", 13000));
    assert_int_equal(lab_record_check(record, "canned.json", &error), LAB_KEEP);
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    report_page(to, &record, 1);
    fclose(to);
    assert_non_null(strstr(text, "A device, driver 13.0, NVRTC 13.0"));
    assert_non_null(strstr(text, "<td>512 rows</td>"));
    assert_non_null(strstr(text, "registers</td>"));
    free(text);
    json_decref(record);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expressions), cmocka_unit_test(test_lines),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lint),        cmocka_unit_test(test_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
