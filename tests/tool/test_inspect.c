// SPDX-License-Identifier: Apache-2.0
//
// `qsa inspect`: PNG and SVG of the official files, sizes of pictures with many cells, rows and sequences, and what it
// refuses. That the pixels are right is test_inspect_pixels.c.
#include "tool_test.h"

static const char *const files[] = {"tiny_prefill", "tiny_bias", "tiny_mrope", "tiny_leftpad", "tiny_ratio2"};
#ifdef QSA_SANITIZED // one picture takes the same ways as the next
#define FILES ((size_t)2)
#else
#define FILES (sizeof files / sizeof *files)
#endif

// Bytes of a file, to be freed.
static unsigned char *read_bytes(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long end = ftell(file);
    assert_true(end > 0);
    rewind(file);
    unsigned char *bytes = malloc((size_t)end + 1);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (size_t)end, file);
    assert_int_equal(*size, end);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static unsigned big_endian(const unsigned char *p) {
    return (unsigned)p[0] << 24 | (unsigned)p[1] << 16 | (unsigned)p[2] << 8 | p[3];
}

typedef struct size {
    unsigned width, height;
} size;

// A whole PNG: signature, header, end chunk.
static size png_size(const char *path) {
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t n = 0;
    unsigned char *bytes = read_bytes(path, &n);
    assert_true(n > 57);
    assert_memory_equal(bytes, signature, sizeof signature);
    assert_memory_equal(bytes + 12, "IHDR", 4);
    assert_memory_equal(bytes + n - 8, "IEND", 4);
    const size result = {big_endian(bytes + 16), big_endian(bytes + 20)};
    assert_in_range(result.width, 400, 4096);
    assert_in_range(result.height, 200, 4096);
    free(bytes);
    return result;
}

// Tags that open and close as they nest, up to 64 deep, with the root svg. Attribute values of cairo hold no < or >.
static void assert_well_formed(const char *path) {
    size_t n = 0;
    char *text = (char *)read_bytes(path, &n);
    const char *nest[64] = {0};
    size_t depth = 0;
    size_t elements = 0;
    assert_int_equal(strlen(text), n);
    assert_memory_equal(text, "<?xml", 5);
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        assert_true(memchr(at + 1, '<', (size_t)(end - at - 1)) == NULL);
        const char *name = at + 1 + (at[1] == '/');
        const size_t length = strcspn(name, " \n/>");
        if (at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_memory_equal(nest[depth], name, length);
        } else if (at[1] != '?' && at[1] != '!') {
            assert_true(elements++ || strncmp(name, "svg", 3) == 0);
            assert_true(depth < 64);
            nest[depth] = name;
            depth += end[-1] != '/';
        }
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 20);
    free(text);
}

static void assert_drawn(ran result) {
    if (result.code != 0 || result.out[0] || result.err[0]) {
        fail_msg("expected a picture, got exit %d, %.300s %.300s", result.code, result.out, result.err);
    }
    ran_free(result);
}

static void test_official_files(void **state) {
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        const char *png = tool_test_path("picture.png");
        assert_drawn(tool_run("inspect '%s' -o '%s'", golden_path(files[i]), png));
        png_size(png);
        const char *svg = tool_test_path("picture.svg");
        assert_drawn(tool_run("inspect -o '%s' '%s'", svg, golden_path(files[i])));
        assert_well_formed(svg);
    }
}

static void test_rows_change_the_picture(void **state) {
    (void)state;
    char all[512];
    char few[512];
    char same[512];
    snprintf(all, sizeof all, "%s", tool_test_path("all.png"));
    snprintf(few, sizeof few, "%s", tool_test_path("few.png"));
    snprintf(same, sizeof same, "%s", tool_test_path("same.png"));
    assert_drawn(tool_run("inspect '%s' -o '%s'", golden_path("tiny_prefill"), all));
    assert_drawn(tool_run("inspect '%s' --rows 0:61 -o '%s'", golden_path("tiny_prefill"), same));
    assert_drawn(tool_run("inspect '%s' --rows 20:23 -o '%s'", golden_path("tiny_prefill"), few));
    size_t n_all = 0;
    size_t n_same = 0;
    unsigned char *bytes_all = read_bytes(all, &n_all);
    unsigned char *bytes_same = read_bytes(same, &n_same);
    assert_int_equal(n_all, n_same);
    assert_memory_equal(bytes_all, bytes_same, n_all);
    assert_true(png_size(few).height < png_size(all).height);
    free(bytes_all);
    free(bytes_same);
}

// tiny_prefill's layer with other tokens: `batch` sequences of `tokens`, and no expected tensors.
static void write_layer(const char *path, int64_t batch, int64_t tokens) {
    const size_t count = (size_t)(batch * tokens);
    uint16_t *hidden = malloc(count * 64 * sizeof *hidden);
    int32_t *positions = malloc(count * sizeof *positions);
    assert_true(hidden && positions);
    unsigned seed = 1;
    for (size_t i = 0; i < count * 64; i++) {
        seed = seed * 1664525U + 1013904223U;
        hidden[i] = (uint16_t)((seed >> 31 << 15) | (0x3f00U + (seed >> 16 & 0xff))); // +-0.5..2
    }
    for (size_t i = 0; i < count; i++) {
        positions[i] = (int32_t)(i % (size_t)tokens);
    }
    const patch patches[] = {
        {"hidden", ST_BF16, 3, {batch, tokens, 64}, hidden},
        {"position_ids", ST_I32, 2, {batch, tokens}, positions},
        LEAVE_OUT("rows"),
        LEAVE_OUT("attention_mask"),
        LEAVE_OUT("q"),
        LEAVE_OUT("index_q"),
        LEAVE_OUT("k"),
        LEAVE_OUT("v"),
        LEAVE_OUT("scores"),
        LEAVE_OUT("selected"),
        LEAVE_OUT("attn"),
        LEAVE_OUT("out"),
        LEAVE_OUT("gate"),
        LEAVE_OUT("cos"),
        LEAVE_OUT("sin"),
        LEAVE_OUT("index_k_raw"),
    };
    patch_file(golden_path("tiny_prefill"), path, patches, sizeof patches / sizeof *patches, NULL);
    free(hidden);
    free(positions);
}

static void test_size_is_capped(void **state) {
    (void)state;
    char layer[512];
    char picture[512];
    snprintf(layer, sizeof layer, "%s", tool_test_path("large.safetensors"));
    snprintf(picture, sizeof picture, "%s", tool_test_path("large.png"));
    write_layer(layer, 1, 5003);
#ifndef QSA_SANITIZED                                               // ten seconds there
    assert_drawn(tool_run("inspect '%s' -o '%s'", layer, picture)); // cells and rows are binned
    const size whole = png_size(picture);
    assert_true(whole.height > 2000);
#endif
    assert_drawn(tool_run("inspect '%s' --rows 4990:5003 -o '%s'", layer, picture)); // cells are
    assert_true(png_size(picture).height < 1100);
    write_layer(layer, 700, 9); // gaps vanish
    assert_drawn(tool_run("inspect '%s' -o '%s'", layer, picture));
    png_size(picture);
    write_layer(layer, 5000, 2); // not even a pixel for a sequence
    assert_refused(tool_run("inspect '%s' -o '%s'", layer, picture), "5000 sequences do not fit into 4096 pixels");
}

static void test_masked_rows(void **state) {
    (void)state;
    const char *png = tool_test_path("masked.png");
    // Tokens 0..4 of the second sequence are padding.
    assert_drawn(tool_run("inspect '%s' --rows 0:5 -o '%s'", golden_path("tiny_leftpad"), png));
    uint8_t mask[2 * 43] = {0};
    mask[42] = mask[43 + 42] = 1;
    const patch patches[] = {{"attention_mask", ST_U8, 2, {2, 43}, mask}};
    char layer[512];
    snprintf(layer, sizeof layer, "%s", tool_test_path("masked.safetensors"));
    patch_file(golden_path("tiny_leftpad"), layer, patches, 1, NULL);
    assert_refused(tool_run("inspect '%s' --rows 0:42 -o '%s'", layer, tool_test_path("none.png")), "no row to draw");
}

static void test_refusals(void **state) {
    (void)state;
    char layer[512];
    snprintf(layer, sizeof layer, "%s", golden_path("tiny_prefill"));
    char png[512];
    snprintf(png, sizeof png, "%s", tool_test_path("no.png"));
    assert_refused(tool_run("inspect"), "no FILE given");
    assert_refused(tool_run("inspect '%s'", layer), "no -o PICTURE");
    assert_refused(tool_run("inspect '%s' -o", layer), "needs a value");
    assert_refused(tool_run("inspect '%s' -o x.jpg", layer), ".png or .svg");
    assert_refused(tool_run("inspect '%s' -o png", layer), ".png or .svg");
    assert_refused(tool_run("inspect '%s' '%s' -o '%s'", layer, layer, png), "one FILE expected");
    assert_refused(tool_run("inspect '%s' -o '%s' --bogus", layer, png), "unknown option --bogus");
    assert_refused(tool_run("inspect '%s/README.md' -o '%s'", QSA_GOLDEN_DIR, png), "README.md");
    assert_refused(tool_run("inspect '%s' -o /nonexistent/x.png", layer), "/nonexistent/x.png");
    static const char *const rows[] = {"5", "5:", ":5", "a:b", "5:5", "6:5", "-1:5", "1:2x", "1:99999999999999999999"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_refused(tool_run("inspect '%s' -o '%s' --rows '%s'", layer, png, rows[i]), "--rows");
    }
    assert_refused(tool_run("inspect '%s' -o '%s' --rows 0:62", layer, png), "the file has 61 tokens");
    assert_int_equal(access(png, F_OK), -1); // nothing was left behind
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_official_files), cmocka_unit_test(test_rows_change_the_picture),
        cmocka_unit_test(test_size_is_capped), cmocka_unit_test(test_masked_rows),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("tool_inspect", tests, tool_test_begin, tool_test_end);
}
