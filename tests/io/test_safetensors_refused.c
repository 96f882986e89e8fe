// SPDX-License-Identifier: Apache-2.0
//
// Every reason for which the safetensors reader refuses a file, one case each: the line must hold
// the words that tell a user what is wrong. Each case breaks one thing of a file that is accepted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "st_bytes.h"

typedef struct {
    const char *name;
    const char *header;
    size_t header_size;
    size_t data_size;
    const char *words; // NULL: accepted
} header_case;

#define TEXT(s)            s, sizeof(s) - 1
#define ENTRY(shape, ends) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" ends "}"
#define Q(shape, ends)     "{\"q\":" ENTRY(shape, ends) "}"
#define A_0_8              "\"a\":" ENTRY("[2]", "[0,8]")
#define N16                "0123456789abcdef"
#define N256               N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16
#define META(m)            "{\"__metadata__\":" m "," A_0_8 "}"

static const header_case cases[] = {
    // accepted: what the others break
    {"plain", TEXT(Q("[2,3]", "[0,24]")), 24, NULL},
    {"padding", TEXT(Q("[2,3]", "[0,24]") "   "), 24, NULL},
    {"space between tokens", TEXT("{ \"q\"\t:\n" ENTRY("[ 2 , 3 ]", "[0,\r24]") " }"), 24, NULL},
    {"scalar", TEXT(Q("[]", "[0,4]")), 4, NULL},
    {"no tensors", TEXT("{}"), 0, NULL},
    {"no elements", TEXT("{" A_0_8 ",\"b\":" ENTRY("[0,5]", "[8,8]") "}"), 8, NULL},
    {"eight dimensions", TEXT(Q("[1,1,1,1,1,1,1,6]", "[0,24]")), 24, NULL},
    {"name of 1024 bytes", TEXT("{\"" N256 N256 N256 N256 "\":" ENTRY("[0]", "[0,0]") "}"), 0, NULL},
    {"metadata", TEXT(META("{\"a\":\"1\",\"b\":\"\"}")), 8, NULL},
    {"UTF-8 of two to four bytes", TEXT("{\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\":" ENTRY("[0]", "[0,0]") "}"), 0,
     NULL},
    {"empty metadata", TEXT(META("{}")), 8, NULL},

    // the JSON
    {"not an object", TEXT("[1,2]   "), 0, "not a safetensors file|begins with '['|'{'"},
    {"leading space", TEXT(" {}"), 0, "begins with ' '|'{'"},
    {"begins unprintable", TEXT("\x01{}"), 0, "begins with '\\x01'"},
    {"not UTF-8", TEXT("{\"\xff\":0}"), 0, "not valid UTF-8|\\xff|byte 2"},
    {"overlong UTF-8", TEXT("{\"\xc0\x80\":0}"), 0, "not valid UTF-8|\\xc0|byte 2"},
    {"surrogate UTF-8", TEXT("{\"\xed\xa0\x80\":0}"), 0, "not valid UTF-8|byte 2"},
    {"past U+10FFFF", TEXT("{\"\xf4\x90\x80\x80\":0}"), 0, "not valid UTF-8|byte 2"},
    {"cut UTF-8", TEXT("{\"\xe2\x82"), 0, "not valid UTF-8|byte 2"},
    {"broken third byte", TEXT("{\"\xe2\x82\x2f\":0}"), 0, "not valid UTF-8|\\xe2|byte 2"},
    {"lone escaped surrogate", TEXT("{\"\\ud800\":0}"), 0, "name is not valid JSON|D800"},
    {"open object", TEXT("{"), 0, "not valid JSON|ends at byte 1"},
    {"open name", TEXT("{\"abc"), 0, "not valid JSON|ends inside the string at byte 1"},
    {"name ends in a backslash", TEXT("{\"abc\\"), 0, "ends inside the string"},
    {"open entry", TEXT("{\"q\":{\"dtype\":"), 0, "ends inside the entry of tensor 'q'"},
    {"open string in entry", TEXT("{\"q\":{\"dtype"), 0, "ends inside the entry of tensor 'q'"},
    {"no colon", TEXT("{\"q\" 1}"), 0, "not valid JSON|'1' at byte 5 instead of ':'"},
    {"no comma", TEXT("{" A_0_8 "\"b\"}"), 8, "not valid JSON|instead of '}'"},
    {"comma at the end", TEXT("{" A_0_8 ",}"), 8, "not valid JSON|'}'|instead of '\"'"},
    {"name is no string", TEXT("{1:2}"), 0, "not valid JSON|'1' at byte 1 instead of '\"'"},
    {"NUL outside strings", TEXT("{\0}"), 0, "not valid JSON|'\\x00' at byte 1"},
    {"wrong bracket", TEXT("{\"q\":{\"dtype\":\"F32\"]}"), 0, "entry of tensor 'q' is not valid"},
    {"comment", TEXT("{\"q\":{/**/}}"), 0, "entry of tensor 'q' is not valid JSON"},
    {"big number", TEXT(Q("[9223372036854775808]", "[0,24]")), 24, "tensor 'q'|too big integer"},
    {"trailing bytes", TEXT("{}x"), 0, "trailing bytes after its JSON object|'x' at byte 2"},
    {"trailing object", TEXT("{} {}"), 0, "trailing bytes after|'{' at byte 3"},
    {"trailing newline", TEXT("{}\n"), 0, "trailing bytes after|'\\x0a' at byte 2"},
    {"trailing NUL", TEXT("{}\0"), 0, "trailing bytes after|'\\x00' at byte 2"},
    {"nested entry", TEXT("{\"q\":{\"shape\":[[1]]}}"), 0, "tensor 'q'|nested deeper"},
    {"nested object", TEXT("{\"q\":{\"a\":{\"b\":{}}}}"), 0, "tensor 'q'|nested deeper"},

    // duplicate keys
    {"duplicate tensor", TEXT("{" A_0_8 "," A_0_8 "}"), 8, "tensor 'a'|duplicate"},
    {"duplicate by escape", TEXT("{" A_0_8 ",\"\\u0061\":" ENTRY("[2]", "[8,16]") "}"), 16, "tensor 'a'|duplicate"},
    {"duplicate in entry", TEXT("{\"q\":{\"shape\":[],\"shape\":[]}}"), 0, "tensor 'q'|duplicate|shape"},
    {"duplicate metadata", TEXT("{\"__metadata__\":{},\"__metadata__\":{}}"), 0, "duplicate|__metadata__"},
    {"duplicate metadata key", TEXT(META("{\"k\":\"1\",\"k\":\"2\"}")), 8, "__metadata__|duplicate|'k'"},

    // metadata
    {"metadata is no object", TEXT(META("[]")), 8, "__metadata__ is not an object"},
    {"metadata of a number", TEXT(META("{\"k\":1}")), 8, "__metadata__|'k'|not a string"},
    {"metadata of an object", TEXT(META("{\"k\":{}}")), 8, "__metadata__|'k'|not a string"},
    {"metadata key is no string", TEXT(META("{1:1}")), 8, "not valid JSON|instead of '\"'"},
    {"open metadata", TEXT("{\"__metadata__\":{\"a\":\"b\""), 0, "not valid JSON|ends at byte"},
    {"metadata with NUL", TEXT(META("{\"k\":\"\\u0000\"}")), 8, "a value of __metadata__|u0000"},

    // names
    {"empty name", TEXT("{\"\":" ENTRY("[]", "[0,4]") "}"), 4, "name is empty"},
    {"newline in name", TEXT("{\"a\\nb\":" ENTRY("[]", "[0,4]") "}"), 4, "tensor 'a\\x0ab'|control character"},
    {"raw newline in name", TEXT("{\"a\nb\":" ENTRY("[]", "[0,4]") "}"), 4, "unexpected newline"},
    {"DEL in name", TEXT("{\"a\x7f\":" ENTRY("[]", "[0,4]") "}"), 4, "'a\\x7f'|control character"},
    {"C1 in name", TEXT("{\"\\u009b2J\":" ENTRY("[]", "[0,4]") "}"), 4, "'\\xc2\\x9b2J'|control character"},
    {"NUL in name", TEXT("{\"a\\u0000\":" ENTRY("[]", "[0,4]") "}"), 4, "name is not valid|u0000"},
    {"name of 1025 bytes", TEXT("{\"" N256 N256 N256 N256 "x\":" ENTRY("[]", "[0,4]") "}"), 4,
     "tensor '" N16 "|...'|1025 bytes|1024"},

    // entries
    {"entry is no object", TEXT("{\"q\":[1]}"), 0, "tensor 'q'|not an object"},
    {"unknown key", TEXT("{\"q\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}"), 4,
     "tensor 'q'|unknown key 'x'"},
    {"no dtype", TEXT("{\"q\":{\"shape\":[],\"data_offsets\":[0,4]}}"), 4, "'dtype' is missing"},
    {"no shape", TEXT("{\"q\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}"), 4, "tensor 'q'|'shape' is missing"},
    {"no data_offsets", TEXT("{\"q\":{\"dtype\":\"F32\",\"shape\":[]}}"), 4, "tensor 'q'|'data_offsets' is missing"},
    {"unknown dtype", TEXT("{\"q\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,4]}}"), 4,
     "tensor 'q'|unknown dtype 'F4'"},
    {"dtype is no string", TEXT("{\"q\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}"), 4,
     "tensor 'q'|dtype is not a string"},
    {"shape is no array", TEXT(Q("6", "[0,24]")), 24, "tensor 'q'|shape is not an array"},
    {"shape of a real", TEXT(Q("[2.0,3]", "[0,24]")), 24, "tensor 'q'|shape[0]|not an integer"},
    {"shape of a string", TEXT(Q("[2,\"3\"]", "[0,24]")), 24, "shape[1]|not an integer"},
    {"negative shape", TEXT(Q("[2,-3]", "[0,24]")), 24, "tensor 'q'|shape[1]|negative|-3"},
    {"nine dimensions", TEXT(Q("[1,1,1,1,1,1,1,1,6]", "[0,24]")), 24, "tensor 'q'|shape|9|8"},
    {"product overflows", TEXT(Q("[4294967296,4294967296]", "[0,24]")), 24,
     "tensor 'q'|[4294967296,4294967296]|overflows"},
    {"bytes overflow", TEXT(Q("[2305843009213693952]", "[0,24]")), 24,
     "tensor 'q'|[2305843009213693952] of F32|overflows"},
    {"0 hides no overflow", TEXT(Q("[0,4294967296,4294967296]", "[0,0]")), 0, "overflows"},
    {"offsets are no array", TEXT(Q("[6]", "24")), 24, "data_offsets is not an array"},
    {"one offset", TEXT(Q("[6]", "[24]")), 24, "tensor 'q'|data_offsets|1 numbers instead of 2"},
    {"three offsets", TEXT(Q("[6]", "[0,24,24]")), 24, "tensor 'q'|data_offsets|3 numbers"},
    {"negative offset", TEXT(Q("[6]", "[-24,0]")), 24, "data_offsets[0]|negative|-24"},
    {"offset is no integer", TEXT(Q("[6]", "[0,24.5]")), 24, "data_offsets[1]|not an integer"},
    {"end before begin", TEXT(Q("[6]", "[24,0]")), 24, "data_offsets [24, 0]|end before"},
    {"too few bytes", TEXT(Q("[2,3]", "[0,12]")), 12,
     "tensor 'q': data_offsets [0, 12] hold 12 bytes but shape [2,3] of F32 needs 24"},
    {"too many bytes", TEXT(Q("[2,3]", "[0,28]")), 28, "hold 28 bytes|needs 24"},
    {"bytes of an empty one", TEXT(Q("[2,0]", "[0,4]")), 4, "hold 4 bytes|needs 0"},

    // the layout
    {"overlap", TEXT("{" A_0_8 ",\"b\":" ENTRY("[2]", "[4,12]") "}"), 12, "'a' and 'b' overlap|[0, 8]|[4, 12]"},
    {"same bytes twice", TEXT("{" A_0_8 ",\"b\":" ENTRY("[2]", "[0,8]") "}"), 8, "overlap"},
    {"empty one inside", TEXT("{" A_0_8 ",\"b\":" ENTRY("[0]", "[4,4]") "}"), 8, "overlap"},
    {"hole", TEXT("{" A_0_8 ",\"b\":" ENTRY("[2]", "[12,20]") "}"), 20, "tensor 'b'|hole of 4 bytes|8|12"},
    {"hole at 0", TEXT(Q("[2]", "[4,12]")), 12, "tensor 'q'|hole of 4 bytes|at 4"},
    {"trailing data", TEXT(Q("[6]", "[0,24]")), 31, "7 trailing bytes|'q'|24|31"},
    {"data without tensors", TEXT("{}"), 5, "5 trailing bytes|no tensors"},
    {"truncated data", TEXT(Q("[6]", "[0,24]")), 14, "truncated: 10 bytes are missing|'q'|24|14"},
    {"huge end", TEXT(Q("[0]", "[9223372036854775807,9223372036854775807]")), 0, "hole of 922"},
};

static void test_header(void **state) {
    const header_case *c = *state;
    char err[ST_ERR_SIZE] = "";
    unsigned char *bytes = st_bytes(c->header, c->header_size, c->data_size);
    st_file *file = st_open_memory(bytes, 8 + c->header_size + c->data_size, err, sizeof err);
    if (c->words == NULL) {
        assert_string_equal(err, "");
        assert_non_null(file);
    } else {
        assert_null(file);
        assert_line(err, c->words);
        assert_null(st_open_memory(bytes, 8 + c->header_size + c->data_size, NULL, 0));
    }
    st_close(file);
    free(bytes);
}

static void refuse_bytes(const void *bytes, size_t size, const char *words) {
    char err[ST_ERR_SIZE] = "";
    void *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, size);
    assert_null(st_open_memory(exact, size, err, sizeof err));
    assert_line(err, words);
    free(exact);
}

static void test_sizes(void **state) {
    (void)state;
    refuse_bytes("", 0, "not a safetensors file|empty|0 bytes");
    refuse_bytes("\x02\0\0\0\0\0\0", 7, "not a safetensors file|7 bytes|shorter than the 8 bytes");
    refuse_bytes("\0\0\0\0\0\0\0\0", 8, "header size 0");
    refuse_bytes("\x02\0\0\0\0\0\0\0", 8, "header size 2 exceeds the file's 8 bytes");
    refuse_bytes("\x0c\0\0\0\0\0\0\0{\"a\"", 12, "truncated: 8 bytes are missing|12");
    refuse_bytes("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "not a safetensors file|18446744073709551615|10 bytes");
    assert_null(st_open_memory(NULL, 0, NULL, 0));
}

// Above the limit although the file is long enough; sparse, so the test costs no disk.
static void test_header_limit(void **state) {
    (void)state;
    const char *path = scratch_path("limit");
    char err[ST_ERR_SIZE] = "";
    write_file(path, "\x01\xe1\xf5\x05\0\0\0\0{}", 10); // 100,000,001
    assert_int_equal(truncate(path, 100000009), 0);
    assert_null(st_open(path, err, sizeof err));
    assert_line(err, "header size 100000001 exceeds the limit of 100000000");
    unlink(path);
}

static void test_deep_nesting(void **state) {
    (void)state;
    size_t size = 60000;
    char *header = malloc(size);
    assert_non_null(header);
    memset(header, '[', size);
    memcpy(header, "{\"q\":{", 6);
    char err[ST_ERR_SIZE] = "";
    unsigned char *bytes = st_bytes(header, size, 0);
    assert_null(st_open_memory(bytes, 8 + size, err, sizeof err));
    assert_line(err, "tensor 'q'|nested deeper than the format allows");
    free(bytes);
    free(header);
}

// jansson's tree of an entry is 20 times the text, so an entry's text has a limit of its own.
static void test_long_entry(void **state) {
    (void)state;
    size_t size = 200000;
    char *header = malloc(size);
    assert_non_null(header);
    memset(header, '1', size);
    for (size_t i = 15; i < size; i += 2)
        header[i] = ',';
    memcpy(header, "{\"q\":{\"shape\":[", 15);
    char err[ST_ERR_SIZE] = "";
    unsigned char *bytes = st_bytes(header, size, 0);
    assert_null(st_open_memory(bytes, 8 + size, err, sizeof err));
    assert_line(err, "tensor 'q'|entry has more than 65536 bytes");
    free(bytes);
    free(header);
}

static void refuse_path(const char *path, const char *words) {
    char err[ST_ERR_SIZE] = "";
    assert_null(st_open(path, err, sizeof err));
    assert_line(err, words);
    assert_null(strstr(err, path));
}

static void test_paths(void **state) {
    (void)state;
    refuse_path(scratch_path("missing"), "cannot open: No such file");
    refuse_path(scratch_folder(), "is a directory");
    refuse_path("/dev/null", "is not a regular file");
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    refuse_path(scratch_path("pipe"), "is not a regular file");
    unlink(scratch_path("pipe"));
    write_file(scratch_path("empty"), "", 0);
    refuse_path(scratch_path("empty"), "not a safetensors file|empty");
    if (geteuid() != 0) { // root may read everything
        chmod(scratch_path("empty"), 0);
        refuse_path(scratch_path("empty"), "cannot open: Permission denied");
    }
    unlink(scratch_path("empty"));
    refuse_path(QSA_GOLDEN_DIR "/README.md", "not a safetensors file: header size|exceeds the file");
}

// A buffer that is too small gets the beginning of the line.
static void test_small_buffer(void **state) {
    (void)state;
    char err[8];
    assert_null(st_open_memory("", 0, err, sizeof err));
    assert_string_equal(err, "not a s");
}

static int remove_scratch(void **state) {
    (void)state;
    return rmdir(scratch_folder());
}

int main(void) {
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    static struct CMUnitTest tests[N_CASES];
    for (int i = 0; i < N_CASES; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = test_header, .initial_state = (void *)(uintptr_t)&cases[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_sizes),      cmocka_unit_test(test_header_limit), cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_long_entry), cmocka_unit_test(test_paths),        cmocka_unit_test(test_small_buffer),
    };
    int failed = cmocka_run_group_tests_name("headers", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("files", others, NULL, remove_scratch);
}
