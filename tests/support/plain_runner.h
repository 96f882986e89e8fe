// SPDX-License-Identifier: Apache-2.0
// A test runner without dependencies, for tests that are also built where cmocka is not (cross
// builds, QSA_TOOL=OFF). A test file carries the line `RUNNER: plain` and ends like this:
//
//     int main(void) {
//         PLAIN_RUN(test_rounding);
//         return plain_finish();
//     }
//
// A failed check prints file, line and values, is counted, and the test goes on, so that one run shows
// every difference (the first PLAIN_MAX_PRINTED of them). plain_finish() gives 1 upon any failure, and
// also when nothing was checked: a test that cannot fail is a defect. For one thread only.
#ifndef QSA_TESTS_PLAIN_RUNNER_H
#define QSA_TESTS_PLAIN_RUNNER_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PLAIN_MAX_PRINTED = 20, PLAIN_SKIPPED = 77 };

static struct {
    long checks, failures; // of all tests
    int tests, failed, skipped;
} plain;

// Counts one check; prints where and what when it failed.
static inline bool plain_check(bool ok, const char *file, int line, const char *what) {
    plain.checks++;
    if (!ok && plain.failures++ < PLAIN_MAX_PRINTED)
        printf("%s:%d: %s\n", file, line, what);
    return ok;
}

static inline bool plain_check_int(int64_t got, int64_t want, const char *file, int line, const char *what) {
    char text[256];
    snprintf(text, sizeof text, "%s is %lld, not %lld", what, (long long)got, (long long)want);
    return plain_check(got == want, file, line, text);
}

// NaN is near nothing, so a NaN on either side fails.
static inline bool plain_check_near(double got, double want, double bound, const char *file, int line,
                                    const char *what) {
    char text[256];
    snprintf(text, sizeof text, "%s is %.9g, not within %.3g of %.9g", what, got, bound, want);
    return plain_check(fabs(got - want) <= bound, file, line, text);
}

// Byte by byte; names the first byte that differs.
static inline bool plain_check_bytes(const void *got, const void *want, size_t size, const char *file, int line,
                                     const char *what) {
    const unsigned char *a = got, *b = want;
    size_t i = 0;
    while (i < size && a[i] == b[i])
        i++;
    char text[256];
    if (i < size)
        snprintf(text, sizeof text, "%s differs at byte %zu of %zu: %02x, not %02x", what, i, size, a[i], b[i]);
    return plain_check(i == size, file, line, i < size ? text : what);
}

#define PLAIN_CHECK(cond)                  plain_check((cond), __FILE__, __LINE__, #cond)
#define PLAIN_CHECK_INT(got, want)         plain_check_int((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, #got)
#define PLAIN_CHECK_NEAR(got, want, bound) plain_check_near((got), (want), (bound), __FILE__, __LINE__, #got)
#define PLAIN_CHECK_BYTES(got, want, size) plain_check_bytes((got), (want), (size), __FILE__, __LINE__, #got)

// Runs one test (void (*)(void)) and prints its name and result.
static inline void plain_run(void (*test)(void), const char *name) {
    const long failures = plain.failures, checks = plain.checks;
    const int skipped = plain.skipped;
    plain.tests++;
    test();
    if (plain.skipped > skipped)
        return;
    const bool ok = plain.failures == failures && plain.checks > checks;
    plain.failed += !ok;
    printf("%s %s (%ld checks)%s\n", ok ? "ok  " : "FAIL", name, plain.checks - checks,
           plain.checks > checks ? "" : ": nothing was checked");
}
#define PLAIN_RUN(test) plain_run(test, #test)

// Called by a test that cannot run here, with the reason; the test then returns at once.
static inline void plain_skip(const char *name, const char *reason) {
    plain.skipped++;
    printf("skip %s (%s)\n", name, reason);
}

// The closing line and the exit status: 0, 1, or 77 when every test was skipped.
static inline int plain_finish(void) {
    printf("%d tests, %d failed, %d skipped, %ld checks, %ld failures\n", plain.tests, plain.failed, plain.skipped,
           plain.checks, plain.failures);
    if (plain.failed || !plain.tests)
        return 1;
    return plain.skipped == plain.tests ? PLAIN_SKIPPED : 0;
}

#endif
