// SPDX-License-Identifier: Apache-2.0
// LABELS: small cross
// RUNNER: plain
//
// What the bench measures is what it says: spread of the logits, selections and how much neighbours share, the counts of
// operations and bytes by hand, and that a roof is one: positive, and not reached by half the work.

#include "bench/cases.h"
#include "bench/json.h"
#include "bench/roof.h"
#include "support/plain_runner.h"

#include <stdlib.h>

// Options of a command line, split at spaces.
static bench_options options_of(const char *line) {
    char text[128], *argv[16], *rest = NULL;
    int argc = 0;
    snprintf(text, sizeof text, "bench %s", line);
    for (char *word = strtok_r(text, " ", &rest); word && argc < 15; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    argv[argc] = NULL;
    bench_options options;
    bench_error error = {""};
    PLAIN_CHECK(bench_parse(&options, argc, argv, false, &error));
    return options;
}

// A world of a case.
static bool open_world(bench_world *world, bench_options *options, bench_id id, int32_t pos, int32_t tokens) {
    bench_error error = {""};
    qsa_context *context = world_context(options, &error);
    const bool opened = context && world_open(world, options, context, id, pos, tokens, &error);
    if (!PLAIN_CHECK(opened)) {
        printf("%s\n", error.text);
        qsa_context_destroy(context);
    }
    return opened;
}

static void close_world(bench_world *world) {
    qsa_context *context = world->context;
    world_close(world);
    qsa_context_destroy(context);
}

static void test_logits(void) {
    static const char *const lines[] = {"decode --logits 1", "decode --logits 4", "decode --logits wide"};
    const double wanted[] = {1, 4, BENCH_WIDE_LOGITS};
    for (int i = 0; i < 3; i++) {
        bench_options options = options_of(lines[i]);
        bench_world world;
        bench_error error = {""};
        double deviation = 0;
        if (!open_world(&world, &options, BENCH_DECODE, 2100, 1))
            return;
        PLAIN_CHECK_INT(world_append(&world), QSA_OK);
        PLAIN_CHECK(world_logits(&world, &deviation, &error));
        PLAIN_CHECK_NEAR(deviation, wanted[i], 0.1 * wanted[i]);
        // wide: records with exponentials that are cut, m - s > 80 for the logits of standard deviation 30.
        PLAIN_CHECK(i < 2 || deviation * 2.4 + deviation > 80);
        PLAIN_CHECK_INT(world_discard(&world), QSA_OK);
        close_world(&world);
    }
}

// Ids ascend, are distinct, below the row's blocks, and as many as the budget has.
static void check_ids(const bench_world *world) {
    const int32_t take = world->geometry.budget / world->geometry.ratio;
    for (int32_t i = 0; i < world->rows; i++) {
        const int32_t *ids = world->selection.ids + i * world->selection.stride;
        PLAIN_CHECK_INT(world->selection.count[i], take);
        bool right = ids[0] >= 0 && ids[take - 1] < world->cells[i] / world->geometry.ratio;
        for (int32_t k = 1; k < take; k++)
            right = right && ids[k] > ids[k - 1];
        PLAIN_CHECK(right);
    }
}

static void test_selections(void) {
    bench_options options = options_of("decode");
    bench_world world;
    bench_error error = {""};
    if (!open_world(&world, &options, BENCH_DECODE, 30000, 16))
        return;
    PLAIN_CHECK(world_select(&world, BENCH_WALK, &error));
    check_ids(&world);
    PLAIN_CHECK_NEAR(world.jaccard, 0.86, 0.02);
    PLAIN_CHECK(world.union8 > 1.2 && world.union8 < 1.5);
    PLAIN_CHECK(world.union16 > world.union8 && world.union16 < 1.9);
    PLAIN_CHECK(world_select(&world, BENCH_RANDOM, &error));
    check_ids(&world);
    // Independent sets of 512 out of 7,500: shared 35 of 989; the union of m is 7,500 (1 - (1 - 512 / 7,500)^m).
    PLAIN_CHECK_NEAR(world.jaccard, 35.0 / 989, 0.01);
    PLAIN_CHECK_NEAR(world.union8, 6.33, 0.15);
    PLAIN_CHECK_NEAR(world.union16, 9.93, 0.25);
    PLAIN_CHECK(world_select(&world, BENCH_RECENT, &error));
    check_ids(&world);
    PLAIN_CHECK(world.jaccard > 0.99);
    PLAIN_CHECK_NEAR(world.union16, 1.01, 0.01);
    close_world(&world);
}

static void test_work(void) {
    bench_options options = options_of("decode --seqs 2");
    bench_world world;
    bench_error error = {""};
    // 4,003 cells committed, so the one row of each sequence sees 4,004: 1,001 blocks, no tail, 2,048 cells selected.
    if (!open_world(&world, &options, BENCH_ALL, 4003, 1))
        return;
    PLAIN_CHECK(world_select(&world, BENCH_RANDOM, &error));
    const double cell = 2 * 2 * (256 + 2 * 4), row = 24 * 256 * 4;
    bench_work work = bench_work_of(&world, BENCH_DECODE);
    PLAIN_CHECK_NEAR(work.operations, 2 * 2048.0 * 24 * 256 * 4, 0);
    PLAIN_CHECK_NEAR(work.bytes, 2 * (2048 * cell + 512 * 4 + 3 * row), 0);
    PLAIN_CHECK_NEAR(work.gathered, 2 * 2048 * cell, 0);
    work = bench_work_of(&world, BENCH_SCORE);
    PLAIN_CHECK_NEAR(work.operations, 2 * 1001.0 * 4 * 128 * 2, 0);
    PLAIN_CHECK_NEAR(work.bytes, 2 * (1001.0 * 512 + 4 * 128 * 4 + 1001 * 4), 0);
    work = bench_work_of(&world, BENCH_TOPK);
    PLAIN_CHECK_NEAR(work.bytes, 2 * (1001.0 + 512) * 4, 0);
    work = bench_work_of(&world, BENCH_SCORE_TOPK);
    PLAIN_CHECK_NEAR(work.bytes, 2 * (1001.0 * 512 + 4 * 128 * 4 + 512 * 4), 0);
    work = bench_work_of(&world, BENCH_MERGE);
    PLAIN_CHECK_NEAR(work.operations, 2 * 32.0 * 24 * 257 * 2, 0);
    PLAIN_CHECK_NEAR(work.bytes, 2 * (32.0 * 24 * 258 * 4 + 2 * row), 0);
    // Rows of one sequence read what they share once.
    PLAIN_CHECK_NEAR(world.unique_cells, 2 * 2048, 0);
    close_world(&world);
}

static void nothing(void *arg, int32_t thread) {
    ((int32_t *)arg)[thread]++;
}

static void test_roofs(void) {
    for (int32_t threads = 1; threads <= 3; threads++) {
        bench_error error = {""};
        bench_team *team = bench_team_create(threads);
        int32_t ran[3] = {0};
        PLAIN_CHECK(team != NULL);
        for (int i = 0; team && i < 20; i++)
            bench_team_run(team, nothing, ran);
        for (int32_t t = 0; t < threads; t++)
            PLAIN_CHECK_INT(ran[t], 20);
        bench_flusher flusher = bench_flusher_open();
        roof_meter *warm = team ? roof_open(team, threads, 100000, NULL, &error) : NULL;
        roof_meter *cold = team ? roof_open(team, threads, 100000, &flusher, &error) : NULL;
        if (PLAIN_CHECK(warm && cold && flusher.memory)) {
            const roof_values a = roof_measure(warm), b = roof_measure(cold);
            for (int roof = 0; roof < ROOFS; roof++)
                PLAIN_CHECK(a.of[roof] > 0 && a.of[roof] < 1e6 && b.of[roof] > 0 && b.of[roof] < 1e6);
            PLAIN_CHECK(*roof_loops(warm));
        }
        roof_close(cold);
        roof_close(warm);
        bench_flusher_close(&flusher);
        bench_team_destroy(team);
    }
}

static void test_json(void) {
    char text[256] = "";
    FILE *to = tmpfile();
    PLAIN_CHECK(to != NULL);
    if (!to)
        return;
    bench_json json = {.to = to};
    json_open(&json, NULL, '{');
    json_number(&json, "a", 0.5);
    json_number(&json, "b", (double)INFINITY);
    json_word(&json, "c", "x\"\\\n");
    json_open(&json, "d", '[');
    json_truth(&json, NULL, true);
    json_number(&json, NULL, 50331648);
    json_close(&json, ']');
    json_close(&json, '}');
    rewind(to);
    PLAIN_CHECK(fgets(text, sizeof text, to) != NULL);
    PLAIN_CHECK(strcmp(text, "{\"a\":0.5,\"b\":null,\"c\":\"x\\\"\\\\\\u000a\",\"d\":[true,50331648]}") == 0);
    fclose(to);
}

int main(void) {
    PLAIN_RUN(test_json);
    PLAIN_RUN(test_roofs);
    PLAIN_RUN(test_logits);
    PLAIN_RUN(test_selections);
    PLAIN_RUN(test_work);
    return plain_finish();
}
