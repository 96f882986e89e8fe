// SPDX-License-Identifier: Apache-2.0
//
// Pixels and layout of `qsa inspect` from selections made up here: the tool's own files, included, on a pipeline that
// never ran.
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../tool/inspect_layout.c"
#include "../../tool/inspect_pixels.c"

#define RATIO  4
#define BUDGET 8

static int32_t attended_of(const pipeline *run, int64_t slot, int32_t cell) {
    const int32_t n = run->cells[slot];
    const int32_t block = cell / RATIO;
    // Below the edge every cell, above it blocks 0 and 2 and the tail.
    return n <= BUDGET + RATIO - 1 || block == 0 || block == 2 || block == n / RATIO;
}

// What the included files take from the tool.
int32_t pipeline_selected(const pipeline *run, int64_t slot, uint8_t *tokens) {
    int32_t count = 0;
    memset(tokens, 0, (size_t)run->file->tokens);
    for (int32_t c = 0; c < run->cells[slot]; c++) {
        tokens[run->file->cell_token[slot / run->n_rows * run->file->tokens + c]] = (uint8_t)attended_of(run, slot, c);
        count += attended_of(run, slot, c);
    }
    return count;
}

void *tool_array(size_t count, size_t size, bool clear, tool_error *error) {
    (void)clear;
    (void)error;
    return calloc(count + 1, size);
}

bool tool_fail(tool_error *error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->text, sizeof error->text, format, list);
    va_end(list);
    return false;
}

typedef struct {
    layer_file file;
    pipeline run;
} fixture;

// One sequence of `tokens` visible tokens, of which rows first, first + step, ... attend.
static fixture *make(int32_t tokens, int32_t first, int32_t step) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->file.batch = 1;
    f->file.tokens = tokens;
    f->file.geometry.ratio = RATIO;
    f->file.geometry.budget = BUDGET;
    f->file.cell_token = calloc((size_t)tokens, sizeof(int32_t));
    f->run.file = &f->file;
    f->run.n_rows = (tokens - first + step - 1) / step;
    f->run.cells = calloc((size_t)f->run.n_rows, sizeof(int32_t));
    f->run.attended = calloc((size_t)f->run.n_rows, 1);
    assert_true(f->file.cell_token && f->run.cells && f->run.attended);
    for (int32_t t = 0; t < tokens; t++) {
        f->file.cell_token[t] = t;
    }
    for (int32_t r = 0; r < f->run.n_rows; r++) {
        f->run.cells[r] = first + r * step + 1;
        f->run.attended[r] = 1;
        f->run.attending++;
    }
    return f;
}

static void drop(fixture *f) {
    free(f->file.cell_token);
    free(f->run.cells);
    free(f->run.attended);
    free(f);
}

static inspect_layout lay_out(const fixture *f) {
    tool_error error;
    inspect_layout l;
    if (!inspect_layout_make(&l, &f->run, &error)) {
        fail_msg("%s", error.text);
        exit(1); // not reached: tells the analyzer
    }
    return l;
}

static uint32_t *paint(const inspect_layout *l, const fixture *f) {
    tool_error error;
    uint32_t *pixels = calloc((size_t)l->width * (size_t)l->panels[0].height, sizeof *pixels);
    assert_non_null(pixels);
    assert_true(inspect_pixels(l, &f->run, &l->panels[0], pixels, (size_t)l->width, &error));
    return pixels;
}

static void test_every_cell(void **state) {
    (void)state;
    fixture *f = make(30, 0, 1);
    inspect_layout l = lay_out(f);
    assert_int_equal(l.bin, 1);
    assert_int_equal(l.rows_a_bin, 1);
    assert_int_equal(l.width, 30 * l.scale);
    assert_int_equal(l.panels[0].height, 30 * l.band);
    assert_true(l.scale >= 8 && l.band >= 11);
    uint32_t *pixels = paint(&l, f);
    for (int32_t r = 0; r < 30; r++) {
        for (int32_t c = 0; c < 30; c++) {
            const int32_t n = r + 1;
            const uint32_t wanted = c >= n                       ? INSPECT_LATER
                                    : c >= n / RATIO * RATIO     ? INSPECT_TAIL
                                    : attended_of(&f->run, r, c) ? INSPECT_ATTENDED
                                                                 : INSPECT_SEEN;
            for (int32_t i = 0; i < l.scale; i++) {
                const uint32_t got = pixels[(size_t)(r * l.band + 2) * (size_t)l.width + (size_t)(c * l.scale + i)];
                assert_int_equal(got, 0xff000000U | wanted);
            }
        }
    }
    free(pixels);
    inspect_layout_free(&l);
    drop(f);
}

// 10,000 cells: blocks share pixels, whole ones.
static void test_binned_cells(void **state) {
    (void)state;
    fixture *f = make(10000, 9997, 1); // n = 9998, 9999, 10000
    inspect_layout l = lay_out(f);
    assert_int_equal(l.bin, 8); // 5 cells a pixel, rounded up to blocks
    assert_int_equal(l.width, 1250);
    uint32_t *pixels = paint(&l, f);
    // Pixels 0 and 1 hold blocks 0, 1 and 2, 3: one of two each. The others hold none, but the last hold the tail.
    assert_int_equal(pixels[0], 0xff000000U | inspect_shade(0.5));
    assert_int_equal(pixels[1], 0xff000000U | inspect_shade(0.5));
    assert_int_equal(pixels[2], 0xff000000U | INSPECT_SEEN);
    assert_int_equal(pixels[1249], 0xff000000U | INSPECT_TAIL);
    assert_int_equal(pixels[1247], 0xff000000U | INSPECT_TAIL); // three pixels wide
    assert_int_equal(pixels[1246], 0xff000000U | INSPECT_SEEN);
    const uint32_t *last = pixels + (size_t)(2 * l.band) * (size_t)l.width; // n = 10000 has no tail
    assert_int_equal(last[1249], 0xff000000U | INSPECT_SEEN);
    free(pixels);
    inspect_layout_free(&l);
    drop(f);
}

static void test_binned_rows(void **state) {
    (void)state;
    fixture *f = make(20000, 3, 2); // n even: 4, 6, ...
    f->file.geometry.budget = BUDGET;
    inspect_layout l = lay_out(f);
    assert_int_equal(l.rows_a_bin, 3); // 9,999 rows, fewer than 3,900 pixels
    assert_int_equal(l.band, 1);
    assert_true(l.picture_width <= INSPECT_MOST && l.picture_height <= INSPECT_MOST);
    assert_int_equal(l.panels[0].height, 3333);
    uint32_t *pixels = paint(&l, f);
    assert_int_equal(l.bin, 12);
    // The last bin of rows: n = 19996, 19998, 20000, of 12 cells 8 attended in pixel 0 and none in pixel 1.
    const uint32_t *last = pixels + (size_t)3332 * (size_t)l.width;
    assert_int_equal(last[0], 0xff000000U | inspect_shade(8.0 / 12));
    assert_int_equal(last[1], 0xff000000U | INSPECT_SEEN);
    free(pixels);
    inspect_layout_free(&l);
    drop(f);
}

static void test_shades(void **state) {
    (void)state;
    assert_int_equal(inspect_shade(0), INSPECT_SEEN);
    assert_int_equal(inspect_shade(1), INSPECT_ATTENDED);
    assert_int_not_equal(inspect_shade(0.5), inspect_shade(0.25));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_binned_cells),
        cmocka_unit_test(test_binned_rows),
        cmocka_unit_test(test_shades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
