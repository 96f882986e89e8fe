// SPDX-License-Identifier: Apache-2.0
//
// Every strict row of kernels.tbl that this machine runs equals the reference by memcmp, on random calls between guard
// pages (support/kernel_case.h); a row of class fast must keep to its memory and give the same bits again. A new row is tested without an edit here; a new kernel needs one maker. Every row of the
// table is listed as run or skipped with the reason, on stdout and in kernel_rows.txt of the build folder. Once there are
// rows avx2, a skip of one on x86-64 is a failure, and so is one of neon on AArch64.
// LABELS: small cross
// RUNNER: plain
#include "api/internal.h"
#include "emulated/emulated.h"
#include "support/candidates.h"
#include "support/kernel_case.h"
#include "support/plain_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef QSA_SANITIZED
enum { CASES = 200 };
#else
enum { CASES = 400 };
#endif

// ---- Rows of every instruction set, also of others -----------------------------------------------

typedef struct {
    const char *stage, *kernel, *where, *name;
} listed_row;

#define QSA_KERNEL(stage, kernel, where, rank, kernel_class) {#stage, #kernel, #where, #kernel "_" #where},
static const listed_row listed[] = {
#include "kernels/cuda.tbl"
#include "kernels/kernels.tbl"
};
#undef QSA_KERNEL
enum { LISTED = sizeof listed / sizeof listed[0] };

#if defined(__x86_64__)
static const char architecture[] = "x86-64", must_run[] = "avx2";
#elif defined(__aarch64__)
static const char architecture[] = "aarch64", must_run[] = "neon";
#else
static const char architecture[] = "this architecture", must_run[] = "ref";
#endif

static const qsa_kernel_row *built_row(const char *name) {
    for (int32_t i = 0; i < qsa_table_rows(); i++)
        if (strcmp(qsa_table_row(i)->name, name) == 0)
            return qsa_table_row(i);
    return NULL;
}

// 1 for a row of this architecture that QSA_HOST_ROWS left out: the machine lacks its instructions.
static bool left_out(const listed_row *row) {
    static const char *const gone[] = {
#ifdef QSA_WITHOUT_avx512
        "avx512",
        "avx512_i16",
#endif
#ifdef QSA_WITHOUT_avx2_vnni
        "avx2_vnni",
#endif
#ifdef QSA_WITHOUT_avx512_vnni
        "avx512_vnni",
#endif
#ifdef QSA_WITHOUT_amx
        "amx",
#endif
        ""};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        if (strcmp(gone[i], row->where) == 0)
            return true;
    return false;
}

// "" if the row is run here, else why not.
static const char *skip_reason(const listed_row *row) {
    static char reason[64];
    const qsa_kernel_row *built = built_row(row->name);
    if (strncmp(row->where, "cuda", 4) == 0)
        return "on a GPU: ctest -L cuda";
    if (!built) {
        snprintf(reason, sizeof reason, "not built: not on %s", left_out(row) ? "this machine" : architecture);
        return reason;
    }
    return qsa_table_ready(built);
}

// Rows that nobody skips here: the references, and the instruction set that every machine of a build farm has. Names that
// begin with it (avx2_vnni) may be other instruction sets.
static bool may_skip(const listed_row *row) {
    return strcmp(row->where, must_run) != 0 && strcmp(row->where, "ref") != 0;
}

static void rows(void) {
    const char *folder = getenv("BUILD");
    char path[4096];
    snprintf(path, sizeof path, "%s/kernel_rows.txt", folder && *folder ? folder : QSA_BUILD_DIR);
    FILE *file = fopen(path, "w");
    PLAIN_CHECK(file != NULL);
    if (!file)
        return;
    for (int i = 0; i < LISTED; i++) {
        const listed_row *row = &listed[i];
        const char *reason = skip_reason(row);
        char line[256];
        snprintf(line, sizeof line, "row %s %s %s: %s%s%s%s\n", row->stage, row->kernel, row->where,
                 *reason ? "skipped" : "run", *reason ? " (" : "", reason, *reason ? ")" : "");
        fputs(line, stdout);
        PLAIN_CHECK(fputs(line, file) >= 0);
        plain_check(!*reason || may_skip(row), __FILE__, __LINE__, line);
        // A `where` that the dispatch does not know would be skipped everywhere.
        plain_check(strcmp(reason, "unknown instruction set") != 0, __FILE__, __LINE__, line);
    }
    PLAIN_CHECK(fclose(file) == 0);
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        bool found = false;
        for (int j = 0; j < LISTED; j++)
            found |= strcmp(listed[j].name, qsa_table_row(i)->name) == 0;
        PLAIN_CHECK(found);
    }
}

// The control of the rule above: rows that the table does not have yet.
static void rows_that_must_run(void) {
    char where[16];
    snprintf(where, sizeof where, "%s", must_run);
    const listed_row missing = {"prep", "nothing", where, "nothing_here"};
    PLAIN_CHECK(*skip_reason(&missing) && !may_skip(&missing));
    const listed_row other = {"prep", "nothing", "cuda", "nothing_cuda"};
    PLAIN_CHECK(*skip_reason(&other) && may_skip(&other));
    const listed_row vnni = {"prep", "nothing", "avx2_vnni", "nothing_avx2_vnni"};
    PLAIN_CHECK(may_skip(&vnni));
}

// ---- Cases ---------------------------------------------------------------------------------------

static kernel_case the_case;
static char running[400]; // what to say when a guard page is hit

static void on_guard_page(int signal_number) {
    (void)signal_number;
    if (write(STDOUT_FILENO, running, strlen(running)) < 0)
        _exit(3);
}

static const char *run_row(const qsa_kernel_row *row, int number, bool learn) {
    snprintf(running, sizeof running, "SIGSEGV: %s touches what is not its own; case %d: %s\n", row->name, number,
             the_case.what);
    const char *complaint = case_run_both(&the_case, row->function, learn);
    if (complaint)
        snprintf(running, sizeof running, "%s: %s; case %d: %s", row->name, complaint, number, the_case.what);
    return complaint;
}

// The candidate of QSA_LAB_KERNELS for a kernel, or null.
static const qsa_kernel_row *candidate_of(qsa_kernel_number number) {
    static qsa_context *context;
    if (!context) {
        if (qsa_context_create(NULL, &context) != QSA_OK)
            return NULL;
        use_candidates(context);
    }
    for (int32_t j = 0; j < qsa_table_rows(); j++)
        if (context->picked[number] == qsa_table_row(j))
            return NULL;
    return context->picked[number];
}

static void run_kernel(qsa_kernel_number number, const char *kernel) {
    char name[64];
    snprintf(name, sizeof name, "%s_ref", kernel);
    const qsa_kernel_row *reference = built_row(name);
    if (!PLAIN_CHECK(reference != NULL))
        return;
    for (int i = 0; i < CASES; i++) {
        rng r = rng_make((uint64_t)number * 1000003u + (uint64_t)i);
        case_make(&the_case, number, &r);
        if (!plain_check(!run_row(reference, i, true), __FILE__, __LINE__, running))
            continue;
        const qsa_kernel_row *candidate = candidate_of(number);
        if (candidate && candidate->kernel_class == QSA_CLASS_STRICT)
            plain_check(!run_row(candidate, i, false), __FILE__, __LINE__, running);
        // Rows of class fast last: what they give takes the place of what is compared with.
        for (int fast = 0; fast < 2; fast++)
            for (int32_t j = 0; j < qsa_table_rows(); j++) {
                const qsa_kernel_row *row = qsa_table_row(j);
                if (row->number == number && row != reference && !*qsa_table_ready(row) &&
                    (row->kernel_class == QSA_CLASS_FAST) == fast)
                    plain_check(!run_row(row, i, fast), __FILE__, __LINE__, running);
            }
    }
}

// Rows on emulated instructions keep to their memory too, and to themselves: what they write is in test_fast_model.c.
static void emulated(void) {
    const qsa_kernel_row *row = emulated_row(0);
    if (!row)
        plain_skip("emulated", "no emulated row runs here");
    for (int n = 0; (row = emulated_row(n)) != NULL; n++)
        for (int i = 0; i < CASES; i++) {
            rng r = rng_make((uint64_t)row->number * 1000003u + (uint64_t)i);
            case_make(&the_case, row->number, &r);
            plain_check(!run_row(row, i, true), __FILE__, __LINE__, running);
        }
}

#define KERNEL_TEST(stage, kernel)                                                                                     \
    static void stage##_##kernel(void) {                                                                               \
        run_kernel(QSA_K_##kernel, #kernel);                                                                           \
    }
QSA_KERNELS(KERNEL_TEST)

int main(void) {
    PLAIN_RUN(rows);
    PLAIN_RUN(rows_that_must_run);
    struct sigaction action = {.sa_handler = on_guard_page, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGSEGV, &action, NULL);
    case_open(&the_case);
#define KERNEL_RUN(stage, kernel) PLAIN_RUN(stage##_##kernel);
    QSA_KERNELS(KERNEL_RUN)
    PLAIN_RUN(emulated);
    case_close(&the_case);
    return plain_finish();
}
