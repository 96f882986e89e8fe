// SPDX-License-Identifier: Apache-2.0
//
// The GGUF reader on files from the writer: every kind of value, every type that is converted, a file cut at every byte,
// counts and lengths that claim more than there is; and no allocation larger than the file justifies. The index of a
// sharded checkpoint is held to the same.
#include "st_bytes.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "io/gguf_write.h"
#include "io/st_index.h"
#include "io/stored_tensor.h"

// Bytes of a file that the writer made, in a block of exactly its size.
static unsigned char *saved(gguf_writer *w, size_t *size) {
    char line[256] = "";
    const char *path = scratch_path("file.gguf");
    if (!gguf_writer_save(w, path, (io_error){line, sizeof line}))
        fail_msg("%s", line);
    gguf_writer_free(w);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    assert_int_equal(remove(path), 0);
    return bytes;
}

static const float numbers[64] = {1, -2, 0.5F, 65504, 0, -0.0F, 3, 1e-3F};

static unsigned char *sample(size_t *size) {
    static const uint16_t halves[4] = {0x3c00, 0xc000, 0x7bff, 1};
    static const uint16_t brains[4] = {0x3f80, 0xc000, 0x7f7f, 1};
    static unsigned char codes[2 * 34];
    gguf_writer *w = gguf_writer_new();
    assert_non_null(w);
    for (int i = 0; i < 32; i++) {
        codes[2 + i] = (unsigned char)(i - 16);
        codes[36 + i] = (unsigned char)i;
    }
    memcpy(codes, (const uint16_t[]){0x3800}, 2);      // 1/2
    memcpy(codes + 34, (const uint16_t[]){0xbc00}, 2); // -1
    gguf_put_string(w, "text", "a\"b");
    gguf_put_u16(w, "small", 65535);
    gguf_put_u32(w, "large", 4294967295U);
    gguf_put_i32(w, "negative", -7);
    gguf_put_f32(w, "real", 0.25F);
    gguf_put_i32_array(w, "list", (const int32_t[]){3, -1, 2}, 3);
    gguf_put_tensor(w, "f32", GGUF_TENSOR_F32, 2, (const int64_t[]){4, 2}, numbers);
    gguf_put_tensor(w, "f16", GGUF_TENSOR_F16, 1, (const int64_t[]){4}, halves);
    gguf_put_tensor(w, "bf16", GGUF_TENSOR_BF16, 1, (const int64_t[]){4}, brains);
    gguf_put_tensor(w, "q8", GGUF_TENSOR_Q8_0, 2, (const int64_t[]){2, 32}, codes);
    gguf_put_tensor(w, "what", 99, 1, (const int64_t[]){4}, NULL);
    return saved(w, size);
}

static void values(void **state) {
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample(&size);
    char line[256] = "";
    gguf_file *file = gguf_open_memory(bytes, size, (io_error){line, sizeof line});
    int64_t integer = 0;
    double real = 0;
    gguf_text text;
    assert_non_null(file);
    assert_int_equal(gguf_value_count(file), 6);
    assert_true(gguf_string(gguf_key(file, "text"), &text) && gguf_text_is(text, "a\"b"));
    assert_true(gguf_integer(gguf_key(file, "small"), 0, &integer) && integer == 65535);
    assert_true(gguf_integer(gguf_key(file, "large"), 0, &integer) && integer == 4294967295);
    assert_true(gguf_integer(gguf_key(file, "negative"), 0, &integer) && integer == -7);
    assert_true(gguf_real(gguf_key(file, "real"), 0, &real) && real == 0.25);
    assert_true(gguf_integer(gguf_key(file, "list"), 1, &integer) && integer == -1);
    assert_false(gguf_integer(gguf_key(file, "list"), 3, &integer));
    assert_false(gguf_integer(gguf_key(file, "real"), 0, &integer));
    assert_false(gguf_integer(gguf_key(file, "text"), 0, &integer));
    assert_false(gguf_real(gguf_key(file, "small"), 0, &real));
    assert_false(gguf_string(gguf_key(file, "list"), &text));
    assert_null(gguf_key(file, "tex"));
    gguf_close(file);
    free(bytes);
}

static void tensors(void **state) {
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample(&size);
    char line[256] = "";
    const io_error err = {line, sizeof line};
    gguf_file *file = gguf_open_memory(bytes, size, err);
    float out[64];
    assert_non_null(file);
    assert_int_equal(gguf_tensor_count(file), 5);
    assert_null(gguf_find(file, "f3"));
    const gguf_tensor *t = gguf_find(file, "f32");
    assert_true(t->n_dims == 2 && t->shape[0] == 4 && t->shape[1] == 2 && t->bytes == 32);
    stored_tensor s = stored_of_gguf(t);
    assert_true(stored_to_f32(&s, out, err));
    assert_memory_equal(out, numbers, 32);
    s = stored_of_gguf(gguf_find(file, "f16"));
    assert_true(stored_to_f32(&s, out, err));
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 65504 && out[3] == 0x1p-24F);
    s = stored_of_gguf(gguf_find(file, "bf16"));
    assert_true(stored_to_f32(&s, out, err));
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 0x1.fep127F && out[3] == 0x1p-133F);
    s = stored_of_gguf(gguf_find(file, "q8"));
    assert_true(stored_to_f32(&s, out, err));
    for (int i = 0; i < 32; i++)
        assert_true(out[i] == 0.5F * (float)(i - 16) && out[32 + i] == (float)-i);
    t = gguf_find(file, "what");
    s = stored_of_gguf(t);
    assert_true(t->data == NULL && s.encoding == STORED_OTHER);
    assert_false(stored_to_f32(&s, out, err));
    assert_line(line, "what|99 (unknown)|not read");
    gguf_close(file);
    free(bytes);
}

// Every file that ends early is refused with a line, but for cuts in the padding behind the last tensor's data.
static void cut_anywhere(void **state) {
    (void)state;
    size_t size = 0;
    unsigned char *bytes = sample(&size);
    for (size_t n = 0; n < size; n++) {
        char line[256] = "";
        unsigned char *part = malloc(n + 1);
        assert_non_null(part);
        memcpy(part, bytes, n);
        gguf_file *file = gguf_open_memory(part, n, (io_error){line, sizeof line});
        assert_true(file == NULL || size - n < 32);
        if (file == NULL)
            assert_line(line, n < 8 ? "not a GGUF file" : "");
        gguf_close(file);
        free(part);
    }
    free(bytes);
}

static size_t largest, total;

static void *counted(size_t size) {
    largest = size > largest ? size : largest;
    total += size;
    return malloc(size);
}

// Each 8 bytes of the file in turn as large as they can be: whatever that makes of counts, lengths, dimensions and
// offsets, the reader takes memory in proportion to the file.
static void claims_take_no_memory(void **state) {
    (void)state;
    static const uint64_t claims[] = {UINT64_MAX, INT64_MAX, UINT64_C(1) << 60, UINT64_C(1) << 32, 1 << 20};
    size_t size = 0;
    unsigned char *bytes = sample(&size);
    unsigned char *copy = malloc(size);
    assert_non_null(copy);
    json_set_alloc_funcs(counted, free);
    for (size_t at = 4; at + 8 <= size; at++) {
        for (size_t c = 0; c < sizeof claims / sizeof *claims; c++) {
            char line[512] = "";
            memcpy(copy, bytes, size);
            memcpy(copy + at, &claims[c], 8);
            largest = total = 0;
            gguf_file *file = gguf_open_memory(copy, size, (io_error){line, sizeof line});
            assert_true(file != NULL || *line != '\0');
            gguf_close(file);
            assert_true(total <= 16 * size + 4096);
        }
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(largest > 0);
    free(copy);
    free(bytes);
}

// The index: brackets, many short entries and long names take no more than some bytes for each of the file.
static void index_memory(void **state) {
    (void)state;
    enum { SIZE = 60000 };
    char *text = malloc(SIZE + 64);
    assert_non_null(text);
    static const char *const fillings[] = {"[", "[],", "{\"a\":", "\"a\":\"b\",", "\"\":"};
    for (size_t f = 0; f < 5; f++) {
        for (int map = 0; map < 2; map++) {
            char line[1024] = "";
            size_t n = (size_t)snprintf(text, 64, map ? "{\"weight_map\":{" : "{\"m\":[");
            while (n < SIZE)
                n += (size_t)snprintf(text + n, 16, "%s", fillings[f]);
            json_set_alloc_funcs(counted, free);
            largest = total = 0;
            st_index *index = st_index_parse(text, n, (io_error){line, sizeof line});
            assert_null(index);
            json_set_alloc_funcs(malloc, free);
            assert_line(line, "");
            assert_true(largest <= 16 * n);
        }
    }
    free(text);
}

static void index_lookup(void **state) {
    (void)state;
    char line[256] = "";
    const char text[] =
        " {\"metadata\": {\"total_size\": 1, \"x\": [\"}\"]},\n \"weight_map\": {\"b\": \"2.safetensors\", "
        "\"a\\u00e9\": \"1.safetensors\"} } ";
    st_index *index = st_index_parse(text, sizeof text - 1, (io_error){line, sizeof line});
    assert_non_null(index);
    assert_int_equal(st_index_count(index), 2);
    assert_string_equal(st_index_find(index, "b"), "2.safetensors");
    assert_string_equal(st_index_find(index, "a\xc3\xa9"), "1.safetensors");
    assert_null(st_index_find(index, "a"));
    st_index_free(index);
    static const char *const refused[][2] = {
        {"{\"weight_map\":{\"a\":\"../x\"}}", "'a'|'../x'|no plain file name"},
        {"{\"weight_map\":{\"a\":\"\\u002e\\u002e\\u002fx\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "duplicate tensor 'a'"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "duplicate key"},
        {"{\"weight_map\":{\"a\":1}}", "a string is missing"},
        {"{\"metadata\":{}}", "no key 'weight_map'"},
        {"{\"weight_map\":{}}x", "text after its end"},
        {"", "missing"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_null(st_index_parse(refused[i][0], strlen(refused[i][0]), (io_error){line, sizeof line}));
        assert_line(line, refused[i][1]);
    }
}

// All 256 numbers of F8_E4M3 against their definition, and blocks of 128 x 128 that end early.
static void fp8(void **state) {
    (void)state;
    char line[256] = "";
    const io_error err = {line, sizeof line};
    for (int i = 0; i < 128; i++) {
        const int e = i / 8, m = i % 8;
        const double value = e == 0 ? m / 8.0 * 0x1p-6 : (1 + m / 8.0) * pow(2, e - 7);
        assert_true(i == 127 ? isnan(stored_f8_value(127)) : stored_f8_value((uint8_t)i) == (float)value);
        assert_true(i == 127 ? isnan(stored_f8_value(255)) : stored_f8_value((uint8_t)(i + 128)) == (float)-value);
    }
    enum { ROWS = 130, COLUMNS = 300 };
    static unsigned char codes[ROWS * COLUMNS];
    static float out[ROWS * COLUMNS];
    const float scales[2 * 3] = {1, 2, 3, 4, 5, 6};
    memset(codes, 0x38, sizeof codes); // 1
    const st_tensor matrix = {"w", ST_F8_E4M3, 2, {ROWS, COLUMNS}, ROWS * COLUMNS, sizeof codes, codes};
    st_tensor of_blocks = {"s", ST_F32, 2, {2, 3}, 6, sizeof scales, (const unsigned char *)scales};
    stored_tensor t = stored_of_st(&matrix);
    assert_false(stored_to_f32(&t, out, err));
    assert_line(line, "w|no block scales");
    assert_true(stored_set_scales(&t, &of_blocks, err) && stored_to_f32(&t, out, err));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            assert_true(out[r * COLUMNS + c] == scales[r / 128 * 3 + c / 128]);
    of_blocks.shape[1] = 2;
    assert_false(stored_set_scales(&t, &of_blocks, err));
    assert_line(line, "s|[2, 2]|expected [2, 3]");
    of_blocks.shape[1] = 3;
    of_blocks.dtype = ST_I32;
    assert_false(stored_set_scales(&t, &of_blocks, err));
    assert_line(line, "s|I32");
}

static int remove_scratch(void **state) {
    (void)state;
    return rmdir(scratch_folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),       cmocka_unit_test(tensors),
        cmocka_unit_test(cut_anywhere), cmocka_unit_test(claims_take_no_memory),
        cmocka_unit_test(index_memory), cmocka_unit_test(index_lookup),
        cmocka_unit_test(fp8),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, remove_scratch);
}
