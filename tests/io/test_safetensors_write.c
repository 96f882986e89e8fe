// SPDX-License-Identifier: Apache-2.0
//
// The safetensors writer: what it writes is read back the same, the same contents are the same
// bytes, and a failure at any point leaves the old file and nothing else in the folder.
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "st_bytes.h"

static const float floats[6] = {0, 1, -2, 3.5f, 1e-30f, 1e30f};
static const int64_t longs[1] = {-7};
static const unsigned char flags[3] = {1, 0, 1};

static st_writer *filled(bool reversed) {
    static const int64_t shape[2] = {2, 3}, three = 3, none[3] = {5, 0, 2};
    st_writer *w = st_writer_new();
    assert_non_null(w);
    for (int i = 0; i < 6; i++) {
        switch (reversed ? 5 - i : i) {
        case 0:
            assert_true(st_writer_add(w, "flags", ST_BOOL, 1, &three, flags));
            break;
        case 1:
            assert_true(st_writer_add(w, "say \"\\\" \xc3\xa9", ST_F32, 2, shape, floats));
            break;
        case 2:
            assert_true(st_writer_add(w, "scalar", ST_I64, 0, NULL, longs));
            break;
        case 3:
            assert_true(st_writer_add(w, "none", ST_BF16, 3, none, NULL));
            break;
        case 4:
            assert_true(st_writer_metadata(w, "config", "{\"a\": 1}\n\t\x01"));
            break;
        default:
            assert_true(st_writer_metadata(w, "about", "caf\xc3\xa9"));
        }
    }
    return w;
}

static size_t read_file(const char *path, char *bytes, size_t size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, size, f);
    fclose(f);
    return n;
}

static int files_in_scratch(void) {
    int n = 0;
    DIR *folder = opendir(scratch_folder());
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void save(st_writer *w, const char *path) {
    char err[ST_ERR_SIZE] = "";
    if (!st_writer_save(w, path, err, sizeof err))
        fail_msg("%s", err);
    assert_string_equal(err, "");
}

static void refuse_save(st_writer *w, const char *path, const char *words) {
    char err[ST_ERR_SIZE] = "";
    assert_false(st_writer_save(w, path, err, sizeof err));
    assert_line(err, words);
}

static void check_contents(const char *path) {
    char err[ST_ERR_SIZE] = "";
    st_file *file = st_open(path, err, sizeof err);
    assert_string_equal(err, "");
    assert_non_null(file);
    assert_int_equal(st_tensor_count(file), 4);
    const st_tensor *t = st_find(file, "say \"\\\" \xc3\xa9");
    assert_non_null(t);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[1], 3);
    assert_memory_equal(t->data, floats, sizeof floats);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    t = st_find(file, "scalar");
    assert_int_equal(t->n_dims, 0);
    assert_memory_equal(t->data, longs, sizeof longs);
    assert_int_equal((uintptr_t)t->data % 8, 0);
    assert_memory_equal(st_find(file, "flags")->data, flags, sizeof flags);
    t = st_find(file, "none");
    assert_int_equal(t->count, 0);
    assert_int_equal(t->shape[0], 5);
    assert_int_equal(t->shape[2], 2);
    assert_int_equal(st_metadata_count(file), 2);
    assert_string_equal(st_metadata(file, "config"), "{\"a\": 1}\n\t\x01");
    assert_string_equal(st_metadata(file, "about"), "caf\xc3\xa9");
    st_close(file);
}

static void test_round_trip(void **state) {
    (void)state;
    const char *path = scratch_path("out");
    char one[4096], other[4096];
    st_writer *w = filled(false), *reversed = filled(true);
    save(w, path);
    check_contents(path);
    size_t n = read_file(path, one, sizeof one);
    save(w, path); // over itself
    check_contents(path);
    save(reversed, path);
    assert_int_equal(read_file(path, other, sizeof other), n);
    assert_memory_equal(one, other, n);
    assert_int_equal((unsigned char)one[0] % 8, 0);
    st_writer_free(w);
    st_writer_free(reversed);
    assert_int_equal(files_in_scratch(), 1);
    unlink(path);
}

static void test_nothing(void **state) {
    (void)state;
    const char *path = scratch_path("out");
    st_writer *w = st_writer_new();
    save(w, path);
    st_file *file = st_open(path, NULL, 0);
    assert_non_null(file);
    assert_int_equal(st_tensor_count(file), 0);
    st_close(file);
    st_writer_free(w);
    st_writer_free(NULL);
    unlink(path);
}

// An open file stays what it was when another is renamed over its name.
static void test_open_file_is_kept(void **state) {
    (void)state;
    const char *path = scratch_path("out");
    st_writer *w = filled(false), *empty = st_writer_new();
    save(w, path);
    st_file *file = st_open(path, NULL, 0);
    assert_non_null(file);
    save(empty, path);
    assert_memory_equal(st_find(file, "flags")->data, flags, sizeof flags);
    st_close(file);
    st_writer_free(w);
    st_writer_free(empty);
    unlink(path);
}

static void test_permissions_and_links(void **state) {
    (void)state;
    char path[512], link_path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s", scratch_path("out"));
    snprintf(link_path, sizeof link_path, "%s", scratch_path("link"));
    st_writer *w = filled(false);
    write_file(path, "old", 3);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("out", link_path), 0);
    save(w, link_path);
    check_contents(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    unlink(path);
    refuse_save(w, link_path, "cannot follow the symbolic link: No such file");
    unlink(link_path);
    st_writer_free(w);
    assert_int_equal(files_in_scratch(), 0);
}

static void test_bad_paths(void **state) {
    (void)state;
    st_writer *w = filled(false);
    refuse_save(w, scratch_folder(), "is a directory");
    refuse_save(w, "/dev/full", "is not a regular file");
    assert_int_equal(access("/dev/full", F_OK), 0);
    refuse_save(w, scratch_path("missing/out"), "cannot create a temporary file|No such file");
    write_file(scratch_path("file"), "", 0);
    refuse_save(w, scratch_path("file/out"), "cannot be replaced: Not a directory");
    unlink(scratch_path("file"));
    char name[300];
    memset(name, 'n', sizeof name);
    name[250] = '\0'; // the name fits, the temporary one does not
    refuse_save(w, scratch_path(name), "File name too long");
    if (geteuid() != 0) { // root may write everywhere
        const char *path = scratch_path("out");
        write_file(path, "old", 3);
        assert_int_equal(chmod(scratch_folder(), 0500), 0);
        refuse_save(w, path, "cannot create a temporary file|Permission denied");
        assert_int_equal(chmod(scratch_folder(), 0700), 0);
        assert_int_equal(files_in_scratch(), 1);
        unlink(path);
    }
    st_writer_free(w);
    assert_int_equal(files_in_scratch(), 0);
}

// A disk that is full at every possible byte, by the limit on a file's size.
static void test_disk_full(void **state) {
    (void)state;
    const char *path = scratch_path("out");
    char bytes[4096];
    struct rlimit old, limit;
    struct stat st;
    st_writer *w = filled(false);
    save(w, path);
    assert_int_equal(stat(path, &st), 0);
    write_file(path, "old", 3);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    limit = old;
    for (rlim_t n = 0; n <= (rlim_t)st.st_size; n++) {
        char err[ST_ERR_SIZE] = "";
        limit.rlim_cur = n;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        bool saved = st_writer_save(w, path, err, sizeof err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(saved, n == (rlim_t)st.st_size);
        if (!saved) {
            assert_line(err, "cannot write: File too large");
            assert_int_equal(read_file(path, bytes, sizeof bytes), 3);
            assert_memory_equal(bytes, "old", 3);
        }
        assert_int_equal(files_in_scratch(), 1);
    }
    signal(SIGXFSZ, handler);
    check_contents(path);
    st_writer_free(w);
    unlink(path);
}

// Each refusal on a writer of its own; the save repeats its reason and leaves the old file.
static void refuse_add(const char *name, st_dtype dtype, int n_dims, const int64_t *shape, const void *data,
                       const char *words) {
    const char *path = scratch_path("out");
    char bytes[8];
    st_writer *w = filled(false);
    write_file(path, "old", 3);
    assert_false(st_writer_add(w, name, dtype, n_dims, shape, data));
    assert_false(st_writer_add(w, "", ST_F32, 0, NULL, floats)); // the first reason stays
    refuse_save(w, path, words);
    assert_int_equal(read_file(path, bytes, sizeof bytes), 3);
    st_writer_free(w);
    unlink(path);
}

static void test_refused_tensors(void **state) {
    (void)state;
    static const int64_t two = 2, negative[2] = {1, -2}, huge[2] = {INT64_MAX, 2};
    static const int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    char name[1026];
    memset(name, 'n', 1025);
    name[1025] = '\0';
    refuse_add("", ST_F32, 1, &two, floats, "name is empty");
    refuse_add("a\nb", ST_F32, 1, &two, floats, "a\\x0ab|control character");
    refuse_add("a\xff", ST_F32, 1, &two, floats, "a\\xff|not valid UTF-8");
    refuse_add(name, ST_F32, 1, &two, floats, "1025|1024");
    refuse_add("__metadata__", ST_F32, 1, &two, floats, "'__metadata__'");
    refuse_add("flags", ST_F32, 1, &two, floats, "'flags'|duplicate");
    refuse_add("q", (st_dtype)ST_DTYPES, 1, &two, floats, "'q'|15 is not a dtype");
    refuse_add("q", ST_F32, -1, &two, floats, "'q'|-1 dimensions");
    refuse_add("q", ST_F32, 9, ones, floats, "'q'|9 dimensions|8");
    refuse_add("q", ST_F32, 2, negative, floats, "'q'|shape[1] is negative: -2");
    refuse_add("q", ST_F32, 2, huge, floats, "'q'|overflows");
    refuse_add("q", ST_F32, 1, &two, NULL, "'q'|8 bytes but no data");
}

static void test_refused_metadata(void **state) {
    (void)state;
    st_writer *w = filled(false);
    assert_false(st_writer_metadata(w, "about", "again"));
    refuse_save(w, scratch_path("out"), "__metadata__|duplicate|'about'");
    st_writer_free(w);
    w = filled(false);
    assert_false(st_writer_metadata(w, "k", "\xc0\x80"));
    refuse_save(w, scratch_path("out"), "__metadata__|'k'|not valid UTF-8");
    st_writer_free(w);
    assert_int_equal(files_in_scratch(), 0);
}

// Tensors that fit one by one and not together.
static void test_refused_sum(void **state) {
    (void)state;
    static const int64_t half = INT64_MAX / 2 + 1;
    st_writer *w = st_writer_new();
    assert_true(st_writer_add(w, "a", ST_U8, 1, &half, floats));
    assert_true(st_writer_add(w, "b", ST_U8, 1, &half, floats));
    refuse_save(w, scratch_path("out"), "tensor 'b'|together overflow");
    st_writer_free(w);
}

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

static bool write_once(const char *path, char *err) {
    st_writer *w = st_writer_new();
    if (w == NULL) {
        snprintf(err, ST_ERR_SIZE, "out of memory");
        return false;
    }
    // Not checked on purpose: the save tells.
    st_writer_add(w, "flags", ST_BOOL, 1, (const int64_t[]){3}, flags);
    st_writer_metadata(w, "k", "v");
    bool saved = st_writer_save(w, path, err, ST_ERR_SIZE);
    st_writer_free(w);
    return saved;
}

static void test_out_of_memory(void **state) {
    (void)state;
    const char *path = scratch_path("out");
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_get_alloc_funcs(&old_malloc, &old_free);
    json_set_alloc_funcs(failing_malloc, counting_free);
    write_file(path, "old", 3);
    bool saved = false, last = false;
    int failures = -1;
    while (!last && failures < 1000) {
        char err[ST_ERR_SIZE] = "", bytes[8];
        until_failure = ++failures;
        saved = write_once(path, err);
        last = until_failure >= 0; // none failed
        if (!saved) {
            assert_line(err, "out of memory");
            assert_int_equal(read_file(path, bytes, sizeof bytes), 3);
        }
        assert_int_equal(live, 0);
        assert_int_equal(files_in_scratch(), 1);
    }
    json_set_alloc_funcs(old_malloc, old_free);
    assert_true(saved && failures > 8);
    unlink(path);
}

static int remove_scratch(void **state) {
    (void)state;
    return rmdir(scratch_folder());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_open_file_is_kept), cmocka_unit_test(test_permissions_and_links),
        cmocka_unit_test(test_bad_paths),         cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_refused_tensors),   cmocka_unit_test(test_refused_metadata),
        cmocka_unit_test(test_refused_sum),       cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
