// SPDX-License-Identifier: Apache-2.0
//
// A cheat is right when it is refused at the stage and for the reason its file names: a lab that refuses everything is wrong too.
#include "lab/zoo.h"

#include "lab/device.h"
#include "lab/judge.h"
#include "lab/pair.h"
#include "lab/prove.h"
#include "lab/record.h"
#include "lab/session.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Notes --------------------------------------------------------------------------------------

// The rest of the line "// KEY: ..." in a text; false: there is none.
static bool note_of(const char *text, const char *key, char *out, size_t size) {
    char start[40];
    snprintf(start, sizeof start, "\n// %s: ", key);
    const char *at = strstr(text, start);
    if (!at)
        return false;
    at += strlen(start);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
    return true;
}

static bool stage_and_words(const char *line, char stage[16], char words[64]) {
    const char *blank = strchr(line, ' ');
    snprintf(stage, 16, "%.*s", blank ? (int)(blank - line) : (int)strlen(line), line);
    snprintf(words, 64, "%s", blank ? blank + 1 : "");
    return stage[0] != '\0';
}

bool zoo_read_note(zoo_note *note, const char *path, bench_error *error) {
    lab_text text;
    char line[96];
    memset(note, 0, sizeof *note);
    note->seconds = 30;
    if (!lab_read(path, &text, error))
        return false;
    const bool right = note_of(text.bytes, "KERNEL", note->kernel, sizeof note->kernel) &&
                       note_of(text.bytes, "EXPECT", line, sizeof line) &&
                       stage_and_words(line, note->stage, note->words);
    if (note_of(text.bytes, "WITHOUT LINT", line, sizeof line))
        stage_and_words(line, note->bare_stage, note->bare_words);
    note_of(text.bytes, "BASELINE", note->baseline, sizeof note->baseline);
    if (note_of(text.bytes, "SECONDS", line, sizeof line))
        note->seconds = strtod(line, NULL);
    free(text.bytes);
    return right || bench_fail(error, "%s: has no lines KERNEL and EXPECT", path);
}

// ---- One animal ---------------------------------------------------------------------------------

static bool open_baseline(lab_pair *pair, const char *path, const zoo_note *note, bench_error *error) {
    char file[LAB_PATH];
    bool refused;
    if (lab_is_cuda_file(path)) {
        static const lab_options none;
        return lab_cuda_kernel(note->kernel, &pair->number, error) &&
               lab_baseline_open(&pair->baseline, &none, pair->number, false, error);
    }
    bool right = lab_kernel(note->kernel, &pair->number, error);
    if (right && strstr(note->baseline, ".c")) {
        snprintf(file, sizeof file, "%.*s/%s", (int)(strrchr(path, '/') - path), path, note->baseline);
        right = lab_arm_from_file(&pair->baseline, pair->number, file, NULL, "ref", error);
    } else if (right) {
        const qsa_kernel_row *row =
            note->baseline[0] ? lab_row(pair->number, note->baseline) : qsa_table_best(pair->number, QSA_CLASS_STRICT);
        right = (row || bench_fail(error, "%s: there is no row %s", path, note->baseline)) &&
                lab_arm_from_row(&pair->baseline, row, error);
    }
    return right && lab_arm_build(&pair->baseline, false, &refused, error);
}

static void say(zoo_result *result, const char *stage, const char *said) {
    snprintf(result->stage, sizeof result->stage, "%s", stage);
    snprintf(result->said, sizeof result->said, "%.299s", said);
}

static bool try_time(zoo_result *result, const lab_pair *pair, bool live, const lab_options *options,
                     bench_error *error) {
    lab_options few = *options;
    timed_case cases[TIMED_CASES];
    char stopped[400];
    json_t *samples = NULL;
    few.processes = live ? options->processes : 1;
    few.limit = live ? options->limit : 1;
    const int count = session_cases(cases, pair->number, &few);
    json_t *plan = session_plan(cases, count, &few, 4e-3);
    if (!session_run(pair, cases, count, plan, &samples, stopped, error)) {
        json_decref(plan);
        return false;
    }
    json_t *record = json_pack("{s:{s:b}, s:o, s:o}", "proof", "passed", 1, "plan", plan, "samples", samples);
    if (stopped[0])
        json_object_set_new(record, "stopped", json_string(stopped));
    json_t *judgement = judge_record(record, error);
    if (judgement) {
        const char *verdict = json_string_value(json_object_get(judgement, "verdict"));
        const bool refused = stopped[0] || strcmp(verdict, "reject") == 0;
        say(result, refused ? "time" : verdict, json_string_value(json_object_get(judgement, "reason")));
    }
    json_decref(judgement);
    json_decref(record);
    return judgement != NULL;
}

static bool try_pair(zoo_result *result, lab_pair *pair, const char *path, const zoo_note *note, bool lint, bool live,
                     const lab_options *options, bench_error *error) {
    bench_error said = {""};
    bool refused = false;
    lab_arm *candidate = &pair->candidate;
    if (!lab_arm_from_file(candidate, pair->number, path, NULL, pair->baseline.where, &said)) {
        say(result, "lint", said.text);
        return true;
    }
    candidate->lint = lint;
    if (!lab_arm_build(candidate, false, &refused, &said)) {
        *error = said;
        say(result, "lint", said.text);
        return refused;
    }
    prove_report report = {0};
    const prove_plan plan = {.baseline = &pair->baseline,
                             .candidate = candidate,
                             .seed = options->seed,
                             .random = options->cases,
                             .cpu_seconds = note->seconds};
    if (!(lab_is_cuda(pair->number) ? lab_prove_pair(pair, &report, &plan, error) : lab_prove(&report, &plan, error)))
        return false;
    if (!report.passed)
        say(result, "prove", report.complaint);
    else
        say(result, "passed", "");
    const bool timed = strcmp(lint ? note->stage : note->bare_stage, "time") == 0;
    const bool honest = strcmp(note->stage, "honest") == 0;
    return !report.passed || !(timed || (honest && live)) || try_time(result, pair, honest && live, options, error);
}

static bool as_expected(const zoo_result *result, const zoo_note *note, bool lint) {
    if (strcmp(note->stage, "honest") == 0 && strcmp(note->words, "not kept") == 0)
        return strcmp(result->stage, "passed") == 0 || strcmp(result->stage, "inconclusive") == 0;
    if (strcmp(note->stage, "honest") == 0)
        return strcmp(result->stage, "passed") == 0 || strcmp(result->stage, "inconclusive") == 0 ||
               strcmp(result->stage, "keep") == 0;
    return strcmp(result->stage, lint ? note->stage : note->bare_stage) == 0 &&
           strstr(result->said, lint ? note->words : note->bare_words) != NULL;
}

bool zoo_try(zoo_result *result, const char *path, const zoo_note *note, bool lint, bool live,
             const lab_options *options, bench_error *error) {
    static lab_pair pair;
    memset(&pair, 0, sizeof pair);
    memset(result, 0, sizeof *result);
    const char *slash = strrchr(path, '/');
    snprintf(result->name, sizeof result->name, "%s%s", slash ? slash + 1 : path, lint ? "" : " without lint");
    const bool right =
        open_baseline(&pair, path, note, error) && try_pair(result, &pair, path, note, lint, live, options, error);
    lab_pair_close(&pair);
    result->right = right && as_expected(result, note, lint);
    return right;
}
