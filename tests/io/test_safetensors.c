// SPDX-License-Identifier: Apache-2.0
//
// The safetensors reader on files it accepts: look-ups, unaligned data, conversions against
// definitions of their own, the golden files; and that it survives the failure of any allocation.
#include <dirent.h>
#include <float.h>
#include <jansson.h>
#include <math.h>

#include "st_bytes.h"

// One tensor `x` over `bytes`, at an odd address.
typedef struct {
    unsigned char *file;
    st_file *st;
    const st_tensor *x;
} one_tensor;

static one_tensor open_one(st_dtype dtype, int64_t count, const void *bytes) {
    char header[256];
    one_tensor one;
    size_t size = (size_t)count * st_dtype_size(dtype);
    int n = snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%lld],\"data_offsets\":[0,%zu]}}",
                     st_dtype_name(dtype), (long long)count, size);
    if (n % 2 == 0)
        header[n++] = ' ';
    one.file = st_bytes(header, (size_t)n, size);
    if (size > 0)
        memcpy(one.file + 8 + n, bytes, size);
    one.st = st_open_memory(one.file, 8 + (size_t)n + size, NULL, 0);
    assert_non_null(one.st);
    one.x = st_find(one.st, "x");
    assert_non_null(one.x);
    assert_int_equal((uintptr_t)one.x->data % 2, 1);
    return one;
}

static void close_one(one_tensor *one) {
    st_close(one->st);
    free(one->file);
}

static const char three[] = "{\"z\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[12,16]},"
                            "\"__metadata__\":{\"zeta\":\"a\\n\\\"b\\\"\",\"alpha\":\"\\u00e9\",\"\":\"empty\"},"
                            "\"a.weight\":{\"data_offsets\":[0,12],\"dtype\":\"BF16\",\"shape\":[2,3]},"
                            "\"M\\u00e9\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[12,12]}}";

static void test_look_up(void **state) {
    (void)state;
    unsigned char *bytes = st_bytes(three, sizeof three - 1, 16);
    st_file *file = st_open_memory(bytes, 8 + sizeof three - 1 + 16, NULL, 0);
    assert_non_null(file);
    assert_int_equal(st_tensor_count(file), 3);
    assert_null(st_tensor_at(file, -1));
    assert_null(st_tensor_at(file, 3));
    assert_string_equal(st_tensor_at(file, 0)->name, "M\xc3\xa9");
    assert_string_equal(st_tensor_at(file, 1)->name, "a.weight");
    assert_string_equal(st_tensor_at(file, 2)->name, "z");
    assert_null(st_find(file, "a"));
    assert_null(st_find(file, "__metadata__"));

    const st_tensor *a = st_find(file, "a.weight");
    assert_ptr_equal(a, st_tensor_at(file, 1));
    assert_int_equal(a->dtype, ST_BF16);
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->shape[0], 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(a->shape[2], 0);
    assert_int_equal(a->count, 6);
    assert_int_equal(a->bytes, 12);
    assert_ptr_equal(a->data, bytes + 8 + sizeof three - 1);
    assert_ptr_equal(st_find(file, "z")->data, a->data + 12);

    const st_tensor *empty = st_find(file, "M\xc3\xa9");
    assert_int_equal(empty->count, 0);
    assert_int_equal(empty->bytes, 0);
    assert_non_null(empty->data);
    assert_true(st_to_f32(empty, NULL, NULL, 0));

    assert_int_equal(st_metadata_count(file), 3);
    assert_string_equal(st_metadata_key(file, 0), "");
    assert_string_equal(st_metadata_key(file, 1), "alpha");
    assert_string_equal(st_metadata_key(file, 2), "zeta");
    assert_null(st_metadata_key(file, 3));
    assert_string_equal(st_metadata(file, "zeta"), "a\n\"b\"");
    assert_string_equal(st_metadata(file, "alpha"), "\xc3\xa9");
    assert_string_equal(st_metadata(file, ""), "empty");
    assert_null(st_metadata(file, "beta"));
    st_close(file);
    free(bytes);
}

static void test_nothing(void **state) {
    (void)state;
    st_file *file = st_open_memory("\x02\0\0\0\0\0\0\0{}", 10, NULL, 0);
    assert_non_null(file);
    assert_int_equal(st_tensor_count(file), 0);
    assert_int_equal(st_metadata_count(file), 0);
    assert_null(st_tensor_at(file, 0));
    assert_null(st_find(file, ""));
    assert_null(st_metadata(file, ""));
    assert_null(st_metadata_key(file, 0));
    st_close(file);
    st_close(NULL);
}

static void test_dtypes(void **state) {
    (void)state;
    static const char *const names[] = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "I32",
                                        "I16", "I8",  "U64", "U32",  "U16",     "U8",      "BOOL"};
    static const size_t sizes[] = {8, 4, 2, 2, 1, 1, 8, 4, 2, 1, 8, 4, 2, 1, 1};
    unsigned char bytes[8] = {0};
    for (int i = 0; i < ST_DTYPES; i++) {
        assert_string_equal(st_dtype_name((st_dtype)i), names[i]);
        assert_int_equal(st_dtype_size((st_dtype)i), sizes[i]);
        one_tensor one = open_one((st_dtype)i, 1, bytes);
        assert_int_equal(one.x->dtype, i);
        close_one(&one);
    }
    assert_string_equal(st_dtype_name((st_dtype)ST_DTYPES), "?");
    assert_int_equal(st_dtype_size((st_dtype)ST_DTYPES), 0);
}

// The value a half stands for, by the definition of binary16.
static double half_value(unsigned bits) {
    int exponent = (int)(bits >> 10 & 31);
    double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25));
}

static void test_halves(void **state) {
    (void)state;
    static uint16_t codes[65536];
    static float out[65536];
    for (unsigned i = 0; i < 65536; i++)
        codes[i] = (uint16_t)i;
    one_tensor one = open_one(ST_F16, 65536, codes);
    assert_true(st_to_f32(one.x, out, NULL, 0));
    for (unsigned i = 0; i < 65536; i++) {
        double wanted = half_value(i);
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        if (isnan(wanted))
            assert_int_equal(bits, (i & 0x8000u) << 16 | 0x7f800000u | (i & 0x3ffu) << 13);
        else
            assert_true((double)out[i] == wanted && bits >> 31 == i >> 15);
    }
    close_one(&one);

    one = open_one(ST_BF16, 65536, codes);
    assert_true(st_to_f32(one.x, out, NULL, 0));
    for (unsigned i = 0; i < 65536; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        assert_int_equal(bits, (uint32_t)i << 16);
    }
    close_one(&one);
}

static void test_floats(void **state) {
    (void)state;
    const uint32_t patterns[] = {0, 0x80000000u, 1, 0x7f800001u, 0xffffffffu, 0x3f800000u};
    const double wide[] = {1 + ldexp(1, -24), 1 + ldexp(3, -24), 1e300, -1e300, ldexp(1, -150), 0};
    const float rounded[] = {1, 1 + ldexpf(1, -22), INFINITY, -INFINITY, 0, 0};
    float out[6];
    one_tensor one = open_one(ST_F32, 6, patterns);
    assert_true(st_to_f32(one.x, out, NULL, 0));
    assert_memory_equal(out, patterns, sizeof out);
    close_one(&one);
    one = open_one(ST_F64, 6, wide);
    assert_true(st_to_f32(one.x, out, NULL, 0));
    for (int i = 0; i < 6; i++)
        assert_true(out[i] == rounded[i]);
    close_one(&one);
}

static void check_integers(st_dtype dtype, const void *bytes, int64_t first, int64_t second) {
    int64_t out[2];
    one_tensor one = open_one(dtype, 2, bytes);
    assert_true(st_to_i64(one.x, out, NULL, 0));
    assert_true(out[0] == first && out[1] == second);
    close_one(&one);
}

static void test_integers(void **state) {
    (void)state;
    static const unsigned char low_high[] = {0x80, 0x7f};
    check_integers(ST_I8, low_high, -128, 127);
    check_integers(ST_U8, low_high, 128, 127);
    check_integers(ST_I16, (const int16_t[]){INT16_MIN, INT16_MAX}, INT16_MIN, INT16_MAX);
    check_integers(ST_U16, (const uint16_t[]){0, UINT16_MAX}, 0, UINT16_MAX);
    check_integers(ST_I32, (const int32_t[]){INT32_MIN, INT32_MAX}, INT32_MIN, INT32_MAX);
    check_integers(ST_U32, (const uint32_t[]){0, UINT32_MAX}, 0, UINT32_MAX);
    check_integers(ST_I64, (const int64_t[]){INT64_MIN, INT64_MAX}, INT64_MIN, INT64_MAX);
    check_integers(ST_U64, (const uint64_t[]){0, INT64_MAX}, 0, INT64_MAX);
    check_integers(ST_BOOL, (const unsigned char[]){1, 0}, 1, 0);
}

static void test_wrong_type(void **state) {
    (void)state;
    static const unsigned char two[] = {0, 2};
    static const uint64_t above[] = {0, (uint64_t)INT64_MAX + 1};
    char err[ST_ERR_SIZE];
    int64_t integers[2];
    float floats[2];
    one_tensor one = open_one(ST_I16, 1, two);
    assert_false(st_to_f32(one.x, floats, err, sizeof err));
    assert_line(err, "tensor 'x'|I16|float");
    close_one(&one);
    one = open_one(ST_F8_E4M3, 2, two);
    assert_false(st_to_f32(one.x, floats, err, sizeof err));
    assert_false(st_to_i64(one.x, integers, err, sizeof err));
    assert_line(err, "tensor 'x'|F8_E4M3|integers");
    close_one(&one);
    one = open_one(ST_BOOL, 2, two);
    assert_false(st_to_i64(one.x, integers, err, sizeof err));
    assert_line(err, "tensor 'x'|element 1 of BOOL is 2");
    close_one(&one);
    one = open_one(ST_U64, 2, above);
    assert_false(st_to_i64(one.x, integers, err, sizeof err));
    assert_line(err, "tensor 'x'|element 1 of U64 is 9223372036854775808");
    close_one(&one);
}

// Every golden file opens, and every element of its float tensors is within reach.
static void test_golden(void **state) {
    (void)state;
    DIR *folder = opendir(QSA_GOLDEN_DIR);
    assert_non_null(folder);
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[1024], err[ST_ERR_SIZE] = "";
        if (strstr(entry->d_name, ".safetensors") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", QSA_GOLDEN_DIR, entry->d_name);
        st_file *file = st_open(path, err, sizeof err);
        if (file == NULL)
            fail_msg("%s: %s", entry->d_name, err);
        assert_non_null(st_metadata(file, "config"));
        assert_non_null(st_find(file, "self_attn.q_proj.weight"));
        assert_int_equal(st_find(file, "rows")->dtype, ST_I32);
        for (int64_t i = 0; i < st_tensor_count(file); i++) {
            const st_tensor *t = st_tensor_at(file, i);
            assert_ptr_equal(st_find(file, t->name), t);
            bool floats = t->dtype == ST_F32 || t->dtype == ST_BF16;
            void *out = malloc((size_t)t->count * (floats ? sizeof(float) : sizeof(int64_t)) + 1);
            assert_non_null(out);
            assert_true(floats ? st_to_f32(t, out, NULL, 0) : st_to_i64(t, out, NULL, 0));
            free(out);
        }
        st_close(file);
        files++;
    }
    closedir(folder);
    assert_true(files >= 7);
}

// Counts down to the allocation that fails; below 0 none does. `live` finds leaks by itself, so
// that the test also fails without a sanitizer.
static int until_failure, live;

static void *failing_malloc(size_t size) {
    if (until_failure >= 0 && until_failure-- == 0)
        return NULL;
    void *memory = malloc(size);
    live += memory != NULL;
    return memory;
}

static void counting_free(void *memory) {
    live -= memory != NULL;
    free(memory);
}

static void test_out_of_memory(void **state) {
    (void)state;
    unsigned char *bytes = st_bytes(three, sizeof three - 1, 16);
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_get_alloc_funcs(&old_malloc, &old_free);
    json_set_alloc_funcs(failing_malloc, counting_free);
    st_file *file = NULL;
    int failures = -1, said_memory = 0;
    live = 0;
    while (file == NULL && failures < 10000) {
        char err[ST_ERR_SIZE] = "";
        until_failure = ++failures;
        file = st_open_memory(bytes, 8 + sizeof three - 1 + 16, err, sizeof err);
        if (file == NULL) {
            // Inside a token jansson takes it for a syntax error and says so.
            assert_line(err, strstr(err, "JSON") != NULL ? "near" : "out of memory");
            said_memory += strstr(err, "out of memory") != NULL;
            assert_int_equal(live, 0);
        }
    }
    assert_non_null(file);
    assert_true(failures > 20 && said_memory > 10);
    assert_int_equal(st_tensor_count(file), 3);
    st_close(file);
    assert_int_equal(live, 0);
    json_set_alloc_funcs(old_malloc, old_free);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_look_up),    cmocka_unit_test(test_nothing), cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_halves),     cmocka_unit_test(test_floats),  cmocka_unit_test(test_integers),
        cmocka_unit_test(test_wrong_type), cmocka_unit_test(test_golden),  cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
