// SPDX-License-Identifier: Apache-2.0
//
// The digest tests' main: every scenario with every set of kernels against the file, and the controls.
#include "cuda/cuda_test.h"
#include "digest.h"
#include "plain_runner.h"
#include "sha256.h"

static const char path[] = QSA_SOURCE_DIR "/tests/digests.txt";
static const char comment[] =
    "# SHA-256 of every stage's outputs on raw rows made of integers (support/digest.h): the bits that\n"
    "# every strict kernel on every machine gives. Made by test_digests --write and\n"
    "# test_digests_real --write; a change here is a change of the numeric contract.\n";

static const digest_scenario *scenarios;
static int scenario_count;

static bool belongs(const char *name, const digest_scenario *s) {
    const size_t length = strlen(s->name);
    return strncmp(name, s->name, length) == 0 && name[length] == '/';
}

static bool is_ours(const char *name) {
    for (int i = 0; i < scenario_count; i++)
        if (belongs(name, &scenarios[i]))
            return true;
    return false;
}

static int write_file(void) {
    digest_list old = {0}, list = {0};
    digest_read(&old, path);
    for (int i = 0; i < scenario_count; i++)
        digest_run(&list, &scenarios[i], NULL, DIGEST_AS_IS, false);
    if (list.conflicts)
        return 1;
    const int made = list.count;
    for (int i = 0; i < old.count; i++)
        if (!is_ours(old.line[i].name))
            digest_append(&list, old.line[i].name, old.line[i].hash);
    const bool written = digest_write(&list, path, comment);
    printf("%d digests made, %d kept\n", made, list.count - made);
    digest_free(&old);
    digest_free(&list);
    return written ? 0 : 1;
}

// Names of `want` of one scenario are exactly those of `got`, with the same hashes. Returns how many differ.
static int differences(const digest_list *got, const digest_list *want, const digest_scenario *s, bool say) {
    int count = 0;
    for (int i = 0; i < want->count; i++) {
        const digest_line *line = &want->line[i];
        const char *hash = digest_find(got, line->name);
        if (!belongs(line->name, s) || (hash && strcmp(hash, line->hash) == 0))
            continue;
        count++;
        if (say && count <= 5)
            printf("  %s: %s\n", line->name, hash ? "other bits" : "is in the file and was not computed");
    }
    for (int i = 0; i < got->count; i++)
        if (!digest_find(want, got->line[i].name)) {
            count++;
            if (say)
                printf("  %s: is not in the file\n", got->line[i].name);
        }
    return count;
}

static void check_kernels(const digest_list *want, const char *where, const char *names) {
    printf("%s: %s\n", where ? where : "picked", names);
#ifdef QSA_SANITIZED // the ways through the code are the same
    const int most = 2;
#else
    const int most = INT32_MAX;
#endif
    for (int i = 0; i < scenario_count && i < most; i++) {
        digest_list got = {0};
        digest_run(&got, &scenarios[i], where, DIGEST_AS_IS, false);
        PLAIN_CHECK_INT(got.conflicts, 0); // scores that depend on the format of the values, ...
        PLAIN_CHECK(got.count > 0);
        PLAIN_CHECK_INT(differences(&got, want, &scenarios[i], true), 0);
        digest_free(&got);
    }
}

// The kernels that the library picks, then each `where` of the table that this machine runs, in every stage that has it.
static void digests(void) {
    enum { NAMES = 1000, SETS = 16 };
    static char seen[SETS][NAMES];
    int sets = 0;
    digest_list want = {0};
    PLAIN_CHECK(digest_read(&want, path));
    PLAIN_CHECK_INT(want.conflicts, 0);
#ifdef QSA_SANITIZED // test_kernels calls every row there
    const int32_t rows = 0;
#else
    const int32_t rows = qsa_kernel_count();
#endif
    for (int32_t i = -1; i < rows && sets < SETS; i++) {
        qsa_kernel_info info = {.size = sizeof info};
        if (i >= 0 && (qsa_kernel_at(i, &info) != QSA_OK || !info.usable || info.kernel_class != QSA_CLASS_STRICT))
            continue;
        bool known = false;
        digest_kernels(info.where, NAMES, seen[sets]);
        for (int j = 0; j < sets; j++)
            known |= strcmp(seen[j], seen[sets]) == 0;
        if (!known)
            check_kernels(&want, info.where, seen[sets++]);
    }
    PLAIN_CHECK(sets >= 1 && sets < SETS);
    digest_free(&want);
}

// The strict kernels of the backend cuda.
static void on_device(void) {
    digest_list want = {0};
    PLAIN_CHECK(digest_read(&want, path));
    check_kernels(&want, "cuda", "cuda");
    digest_free(&want);
}

static void sha_vectors(void) {
    static const struct {
        const char *text;
        int times;
        const char *hash;
    } vectors[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (int i = 0; i < 4; i++) {
        sha256 s;
        char hex[65];
        sha256_init(&s);
        for (int n = 0; n < vectors[i].times; n++)
            sha256_add(&s, vectors[i].text, strlen(vectors[i].text));
        sha256_hex(&s, hex);
        PLAIN_CHECK(strcmp(hex, vectors[i].hash) == 0);
    }
}

// The last bit of the numbers of one raw vector changes the digests that it reaches, and no others. On the first scenario.
static void last_bit(void) {
    static const struct {
        digest_change change;
        const char *reached, *untouched;
    } changes[] = {{DIGEST_Q, "q", "k"},
                   {DIGEST_K, "f32/stored_k_0", "q"},
                   {DIGEST_V, "f32/stored_v_0", "keys_f32/scores"},
                   {DIGEST_INDEX_Q, "index_q", "f32/stored_k_0"},
                   {DIGEST_INDEX_K, "keys_f32/block_keys_0", "f32/stored_v_0"},
                   {DIGEST_GATE, "f32/keys_f32/forward", "f32/keys_f32/out"}};
    const digest_scenario *s = &scenarios[0];
    digest_list plain_list = {0};
    digest_run(&plain_list, s, NULL, DIGEST_AS_IS, true);
    for (int i = 0; i < 6; i++) {
        digest_list changed = {0};
        char reached[80], untouched[80];
        snprintf(reached, sizeof reached, "%s/%s", s->name, changes[i].reached);
        snprintf(untouched, sizeof untouched, "%s/%s", s->name, changes[i].untouched);
        digest_run(&changed, s, NULL, changes[i].change, true);
        const char *before = digest_find(&plain_list, reached), *after = digest_find(&changed, reached);
        PLAIN_CHECK(before && after && strcmp(before, after) != 0);
        before = digest_find(&plain_list, untouched), after = digest_find(&changed, untouched);
        PLAIN_CHECK(before && after && strcmp(before, after) == 0);
        PLAIN_CHECK(differences(&changed, &plain_list, s, false) > 0);
        digest_free(&changed);
    }
    // A line too few and a line too many are differences too.
    digest_list less = {0};
    digest_run(&less, s, NULL, DIGEST_AS_IS, true);
    PLAIN_CHECK_INT(differences(&less, &plain_list, s, false), 0);
    less.count--;
    PLAIN_CHECK_INT(differences(&less, &plain_list, s, false), 1);
    PLAIN_CHECK_INT(differences(&plain_list, &less, s, false), 1);
    digest_free(&less);
    digest_free(&plain_list);
}

int digest_main(int argc, char **argv, const digest_scenario *list, int count, bool controls) {
    scenarios = list;
    scenario_count = count;
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        return write_file();
    if (argc > 1 && strcmp(argv[1], "--cuda") == 0) {
        cuda_need();
        PLAIN_RUN(on_device);
        return plain_finish();
    }
    if (controls) {
        PLAIN_RUN(sha_vectors);
        PLAIN_RUN(last_bit);
    }
    PLAIN_RUN(digests);
    return plain_finish();
}
