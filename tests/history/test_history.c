// SPDX-License-Identifier: Apache-2.0
//
// Random histories of a cache: after any of them every sequence is, byte for byte, what its tokens make when they are
// appended from nothing. A failing one is shrunk and printed as a program. `test_history SECONDS` goes on for that long
// with new seeds (make soak).
// LABELS: small threads
// RUNNER: plain
#include "support/history.h"
#include "support/plain_runner.h"

#include <stdlib.h>
#include <time.h>

// Under the thread sanitizer, which takes ten times as long, what threads do is looked at and no more; that faults are found
// needs no sanitizer.
#if defined(__SANITIZE_THREAD__)
enum { HISTORIES = 6, OPERATIONS = 60, LONG = 60, LEAST = 0, CONTROLS = 0 };
#elif defined(QSA_SANITIZED)
enum { HISTORIES = 12, OPERATIONS = 60, LONG = 200, LEAST = 1, CONTROLS = 0 };
#else
enum { HISTORIES = 80, OPERATIONS = 100, LONG = 3000, LEAST = 10, CONTROLS = 1 };
#endif

static hx_program program;
static hx_counts counts;

static int one_history(uint64_t seed, int32_t count) {
    int32_t at;
    hx_generate(&program, seed, count, HX_SOUND);
    const char *failure = hx_run(&program, 25, &at, &counts);
    if (!plain_check(!failure[0], __FILE__, __LINE__, failure)) {
        failure = hx_shrink(&program);
        printf("shrunk to %d operations: %s\n", (int)program.count, failure);
        hx_print(&program);
        return 0;
    }
    return 1;
}

static void histories(void) {
    for (uint64_t seed = 1; seed <= HISTORIES; seed++)
        if (!one_history(seed, seed == HISTORIES / 2 ? LONG : OPERATIONS))
            return;
    long sum = 0;
    for (int kind = 0; kind < HX_KINDS; kind++) {
        PLAIN_CHECK(counts.operations[kind] >= LEAST);
        sum += counts.operations[kind];
    }
    PLAIN_CHECK(counts.refused > HISTORIES && counts.copied > HISTORIES);
    printf("     %ld operations, %ld refused, %ld pages copied\n", sum, counts.refused, counts.copied);
}

// Something broken on purpose is found in some history, and shrunk to the few operations that it takes; without the fault
// these are a good history.
static void control(hx_fault fault, int32_t most) {
    int32_t at;
    uint64_t seed = 1000;
    const char *failure = "";
    for (; !failure[0] && seed < 1200; seed++) {
        hx_generate(&program, seed, 60, fault);
        failure = hx_run(&program, 10, &at, NULL);
    }
    if (!PLAIN_CHECK(failure[0] != 0))
        return;
    failure = hx_shrink(&program);
    PLAIN_CHECK(failure[0] != 0);
    printf("     fault %d, history %d: %d operations, %s\n", (int)fault, (int)(seed - 1000), (int)program.count,
           failure);
    if (!PLAIN_CHECK(program.count <= most))
        hx_print(&program);
    program.fault = HX_SOUND;
    PLAIN_CHECK(hx_run(&program, 1, &at, NULL)[0] == 0);
}

static void controls(void) {
    control(HX_FORK_WITHOUT_COPY, 5);  // create, append, fork, append twice
    control(HX_FORK_WITHOUT_RAW, 5);   // create, append, fork, append
    control(HX_TRUNCATE_ANYWHERE, 4);  // create, append, truncate, (append)
    control(HX_ACCEPT_ONE_TOO_FEW, 3); // create, draft
    control(HX_LOAD_A_WRONG_CODE, 5);  // create, append, save, load
}

static int soak(long seconds) {
    const time_t end = time(NULL) + seconds;
    uint64_t seed = (uint64_t)time(NULL) << 20;
    long count = 0;
    printf("from seed %llu on\n", (unsigned long long)seed);
    while (time(NULL) < end) {
        rng r = rng_make(seed);
        if (!one_history(seed++, rng_range(&r, 20, 400)))
            return 1;
        count++;
    }
    long sum = 0;
    for (int kind = 0; kind < HX_KINDS; kind++)
        sum += counts.operations[kind];
    printf("%ld histories, %ld operations\n", count, sum);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return soak(strtol(argv[1], NULL, 10));
    if (CONTROLS)
        PLAIN_RUN(controls);
    PLAIN_RUN(histories);
    return plain_finish();
}
