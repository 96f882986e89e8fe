// SPDX-License-Identifier: Apache-2.0
//
// Units, lint, frozen baselines and the ledger: what is kept is found again, and what was edited is refused.
#include "support/unit.h"

#include "lab/frozen.h"
#include "lab/record.h"
#include "lab/scratch.h"
#include "synthetic.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char here[LAB_PATH]; // scratch of this test

static void path_of(char path[LAB_PATH], const char *name) {
    bench_error error;
    assert_true(lab_join(path, here, name, &error));
}

static void write_text(const char *name, const char *text) {
    char path[LAB_PATH];
    bench_error error;
    path_of(path, name);
    assert_true(lab_write(path, text, strlen(text), &error));
}

// A gate kernel with something in it, compiled and linted: the line of the refusal, or NULL.
static const char *lint(const char *before, const char *inside) {
    static bench_error error;
    char text[2000], path[LAB_PATH];
    bool refused = false;
    lab_arm arm;
    snprintf(text, sizeof text,
             "#include \"kernels/merge/merge.h\"\n%s\nvoid qsa_gate_test_ref(const qsa_gate_args *args);\n"
             "void qsa_gate_test_ref(const qsa_gate_args *args) {\n%s\n((char *)args->out)[0] = 0; }\n",
             before, inside);
    write_text("gate_test_ref.c", text);
    path_of(path, "gate_test_ref.c");
    error.text[0] = '\0';
    if (!lab_arm_from_file(&arm, QSA_K_gate, path, NULL, "ref", &error))
        return error.text;
    const bool right = lab_arm_build(&arm, false, &refused, &error);
    assert_true(right != refused);
    lab_arm_free(&arm);
    return right ? NULL : error.text;
}

static void says(const char *line, const char *words) {
    if (!line || !strstr(line, words))
        fail_msg("'%s' does not contain '%s'", line ? line : "no refusal", words);
}

static void lint_refuses(void **state) {
    (void)state;
    assert_null(lint("", ""));
    assert_null(
        lint("static const int table[4] = {1, 2, 3, 4};", "((char *)args->out)[1] = (char)table[args->dim & 3];"));
    assert_null(lint("#include <string.h>", "memset(args->out, 0, (size_t)args->dim * 4);"));
    says(lint("static int calls;", "calls++; ((char *)args->out)[1] = (char)calls;"), "writable data");
    says(lint("static int calls = 3;", "calls++; ((char *)args->out)[1] = (char)calls;"), "writable data");
    says(lint("int shared;", "shared++;"), "writable data");
    says(lint("static _Thread_local int calls;", "calls++;"), "_Thread_local");
    says(lint("__attribute__((constructor)) static void first(void) {volatile int x = 0; (void)x;}", ""),
         "runs code when it is loaded");
    says(lint("void other(void); void other(void) {}", ""), "two global functions");
    says(lint("const int qsa_table = 3;", ""), "global symbol");
    says(lint("int puts(const char *);", "puts(\"x\");"), "imports puts");
    says(lint("void *malloc(unsigned long);", "*(void **)args->out = malloc(4);"), "imports malloc");
    says(lint("#include <stdio.h>", ""), "stdio.h");
    says(lint("#include <time.h>", ""), "time.h");
    says(lint("", "__asm__ volatile(\"syscall\");"), "syscall");
    says(lint("", "__asm__ volatile(\".byte 15, 5\");"), "a directive");
    says(lint("", "((char *)args->out)[1] = (char)__builtin_ia32_rdtsc();"), "rdtsc");
    says(lint("", "((char *)args->out)[1] = (char)(long)__builtin_return_address(0);"), "return_address");
    says(lint("", "undeclared();"), "imports undeclared");
    says(lint("", "this is no C"), "the compiler says");
    says(lint("#define qsa_gate_test_ref qsa_merge_test_ref", ""), "is not named qsa_gate_");
}

static void names(void **state) {
    (void)state;
    char where[32], flags[128];
    assert_true(lab_where_of("a/b/attend_avx2_i16.c", where));
    assert_string_equal(where, "avx2");
    assert_true(lab_where_of("attend_avx512_vnni.c", where));
    assert_string_equal(where, "avx512_vnni");
    assert_true(lab_where_of("gate_mine_fma.c", where));
    assert_string_equal(where, "fma");
    assert_false(lab_where_of("gate_mine.c", where));
    assert_false(lab_where_of("avx2.c", where));
    assert_null(lab_where_flags("neon_of_mars", flags, sizeof flags));
    assert_non_null(lab_where_flags("ref", flags, sizeof flags));
}

static void freeze_gate(const char *store, const char *name, bool expect_made) {
    lab_arm arm;
    bench_error error = {""};
    bool refused, made;
    char source[LAB_PATH];
    assert_true(lab_arm_from_row(&arm, lab_row(QSA_K_gate, "ref"), &error));
    assert_true(lab_arm_build(&arm, false, &refused, &error));
    assert_true(lab_join(source, lab_root(), "src/kernels/merge/gate_ref.c", &error));
    assert_true(frozen_keep(&arm, source, name, store, &made, &error));
    assert_int_equal(made, expect_made);
    lab_arm_free(&arm);
}

static bool load_gate(const char *store, const char *what, bool *found, bench_error *error) {
    lab_arm arm;
    const bool right = frozen_load(&arm, QSA_K_gate, what, store, found, error);
    if (right && *found)
        lab_arm_free(&arm);
    return right;
}

static void edit(const char *folder, const char *file, const char *from, const char *to) {
    char path[LAB_PATH];
    bench_error error;
    lab_text text;
    assert_true(lab_join(path, folder, file, &error) && lab_read(path, &text, &error));
    char *at = strstr(text.bytes, from);
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    assert_true(lab_write(path, text.bytes, text.size, &error));
    free(text.bytes);
}

static void frozen(void **state) {
    (void)state;
    char store[LAB_PATH];
    bool found;
    bench_error error = {""};
    frozen_list list;
    path_of(store, "frozen");
    assert_true(load_gate(store, "first", &found, &error) && !found);
    freeze_gate(store, "first", true);
    freeze_gate(store, "again", false); // the same units
    assert_true(load_gate(store, "first", &found, &error) && found);
    assert_true(load_gate(store, "nobody", &found, &error) && !found);
    assert_true(frozen_read_list(&list, store, &error));
    assert_int_equal(list.count, 1);
    frozen_entry entry = list.entry[0];
    frozen_free_list(&list);
    char prefix[9];
    snprintf(prefix, sizeof prefix, "%.8s", entry.id);
    assert_true(load_gate(store, prefix, &found, &error) && found);

    edit(entry.folder, "unit_0.c", "typedef", "Typedef");
    assert_false(load_gate(store, "first", &found, &error));
    says(error.text, "was edited");
    edit(entry.folder, "unit_0.c", "Typedef", "typedef");
    assert_true(load_gate(store, "first", &found, &error));
    edit(entry.folder, "manifest.json", "\"where\": \"ref\"", "\"where\": \"fma\"");
    edit(entry.folder, "manifest.json", "\"where\": \"ref\"", "\"where\": \"fma\"");
    assert_false(load_gate(store, "first", &found, &error));
    says(error.text, "was edited");
}

// A contract that has changed since: another tree, where gate's arguments are longer.
static void incompatible(void **state) {
    (void)state;
    char store[LAB_PATH], tree[LAB_PATH], command[4 * LAB_PATH];
    bool found;
    bench_error error = {""};
    path_of(store, "frozen_layout");
    path_of(tree, "tree");
    freeze_gate(store, "first", true);
    snprintf(command, sizeof command,
             "mkdir '%s' && cp -R '%s/src' '%s/include' '%s' && sed -i 's/^} qsa_gate_args;/    int more;\\n&/' "
             "'%s/src/kernels/merge/merge.h'",
             tree, lab_root(), lab_root(), tree, tree);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a test's own words
    setenv("QSA_LAB_ROOT", tree, 1);
    assert_false(load_gate(store, "first", &found, &error));
    unsetenv("QSA_LAB_ROOT");
    says(error.text, "incompatible");
    assert_true(load_gate(store, "first", &found, &error) && found);
}

static void ledger(void **state) {
    (void)state;
    char folder[LAB_PATH], path[2][LAB_PATH];
    bench_error error = {""};
    lab_ledger list;
    path_of(folder, "ledger");
    for (int i = 0; i < 2; i++) {
        synthetic s = synthetic_of(i ? 0 : -0.1, 7);
        json_t *record = synthetic_record(&s);
        json_object_set_new(record, "judgement", judge_record(record, &error));
        assert_true(lab_ledger_append(folder, record, path[i], &error));
        json_decref(record);
    }
    says(path[0], "/0001-gate-keep.json");
    says(path[1], "/0002-gate-inconclusive.json");
    assert_true(lab_ledger_read(&list, folder, &error));
    assert_int_equal(list.count, 2);
    assert_true(lab_ledger_check(&list, &error));
    json_t *record = lab_record_read(path[1], &error);
    assert_int_equal(json_integer_value(json_object_get(record, "of_kernel")), 2);
    assert_int_equal(lab_record_check(record, path[1], &error), LAB_INCONCLUSIVE);
    // A record that claims more than its samples say.
    json_object_set_new(record, "judgement", json_pack("{s:s}", "verdict", "keep"));
    assert_int_equal(lab_record_check(record, path[1], &error), LAB_BAD);
    says(error.text, "says keep, its samples say inconclusive");
    json_decref(record);
    // One that was edited breaks the chain, and an edited plan is seen in the record itself.
    edit(folder, "0001-gate-keep.json", "\"gate\"", "\"gaze\"");
    assert_false(lab_ledger_check(&list, &error));
    says(error.text, "does not follow");
    edit(folder, "0001-gate-keep.json", "\"effect_floor\":3.0", "\"effect_floor\":1.0");
    assert_null(lab_record_read(path[0], &error));
    says(error.text, "the plan was edited");
    lab_ledger_free(&list);
}

static void publish(void **state) {
    (void)state;
    char path[LAB_PATH];
    bool exists;
    bench_error error = {""};
    path_of(path, "published");
    assert_true(lab_publish(path, "one", 3, &exists, &error));
    assert_false(lab_publish(path, "two", 3, &exists, &error));
    assert_true(exists);
    lab_text text;
    assert_true(lab_read(path, &text, &error));
    assert_string_equal(text.bytes, "one");
    free(text.bytes);
}

static int open_scratch(void **state) {
    (void)state;
    bench_error error;
    return lab_scratch(here, &error) ? 0 : -1;
}

static int close_scratch(void **state) {
    (void)state;
    lab_scratch_remove();
    return access(here, F_OK) == 0 ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),        cmocka_unit_test(lint_refuses), cmocka_unit_test(frozen),
        cmocka_unit_test(incompatible), cmocka_unit_test(ledger),       cmocka_unit_test(publish),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
