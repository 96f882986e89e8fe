// SPDX-License-Identifier: Apache-2.0
//
// `qsa-lab cheats`: every file of lab/cheats, with the lint, and without it where there is a second line of defence; those of
// lab/cheats/cuda where there is a GPU.
#include "lab/commands.h"
#include "lab/device.h"
#include "lab/record.h"
#include "lab/unit.h"
#include "lab/zoo.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 200 };

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static int list_files(char (*names)[80], const char *folder, const char *end, bench_error *error) {
    int count = 0;
    DIR *list = opendir(folder);
    if (!list) {
        bench_say(error, "%s: %s", folder, strerror(errno));
        return -1;
    }
    for (const struct dirent *entry; (entry = readdir(list)) && count < MOST;) {
        const size_t length = strlen(entry->d_name);
        if (length > strlen(end) && length < 80 && strcmp(entry->d_name + length - strlen(end), end) == 0)
            memcpy(names[count++], entry->d_name, length + 1);
    }
    closedir(list);
    qsort(names, (size_t)count, sizeof *names, by_name);
    return count;
}

typedef struct tally {
    json_t *list;
    int right, wrong, skipped, without_gpu;
    bool json;
} tally;

static void count_one(tally *t, const zoo_result *r) {
    t->right += r->right;
    t->wrong += !r->right;
    if (!t->json)
        printf("%s %-46s %-12s %.90s\n", r->right ? "ok   " : "WRONG", r->name, r->stage, r->said);
    fflush(stdout);
    json_array_append_new(t->list, json_pack("{s:s, s:s, s:s, s:b}", "name", r->name, "stage", r->stage, "said",
                                             r->said, "right", r->right));
}

static bool try_file(tally *t, const char *path, const lab_options *o, bench_error *error) {
    zoo_note note;
    zoo_result result;
    char where[32], flags[128];
    if (!zoo_read_note(&note, path, error))
        return false;
    if (strcmp(note.stage, "baseline") == 0)
        return true;
    if (lab_where_of(path, where) && !lab_where_flags(where, flags, sizeof flags)) {
        t->skipped++;
        return true;
    }
    if (!zoo_try(&result, path, &note, true, !o->brief, o, error))
        return false;
    count_one(t, &result);
    if (!note.bare_stage[0])
        return true;
    if (!zoo_try(&result, path, &note, false, !o->brief, o, error))
        return false;
    count_one(t, &result);
    return true;
}

// The zoo of a GPU: run where there is one, else counted. A tree may lack the folder.
static bool try_cuda(tally *t, char (*names)[80], const lab_options *o, bench_error *error) {
    char folder[LAB_PATH], path[LAB_PATH];
    lab_device_about about;
    bench_error ignored;
    if (!lab_join(folder, lab_root(), "lab/cheats/cuda", error))
        return false;
    const int count = list_files(names, folder, ".cu", &ignored);
    if (count <= 0)
        return true;
    if (!lab_device_tell(&about, &ignored) || about.why[0]) {
        t->without_gpu = count;
        return true;
    }
    bool right = true;
    for (int i = 0; right && i < count; i++)
        right = lab_join(path, folder, names[i], error) && try_file(t, path, o, error);
    return right;
}

int cmd_cheats(const lab_options *o, bench_error *error) {
    char folder[LAB_PATH], path[LAB_PATH];
    char(*names)[80] = calloc(MOST, sizeof *names);
    tally t = {.list = json_array(), .json = o->json};
    if (o->operands > 0)
        bench_say(error, "cheats takes no operand, and there is %s", o->operand[0]);
    const int count = names && o->operands == 0 && lab_join(folder, lab_root(), "lab/cheats", error)
                          ? list_files(names, folder, ".c", error)
                          : -1;
    bool right = count >= 0;
    for (int i = 0; right && i < count; i++)
        right = lab_join(path, folder, names[i], error) && try_file(&t, path, o, error);
    right = right && try_cuda(&t, names, o, error);
    free(names);
    if (right && o->json)
        lab_print_json(json_pack("{s:b, s:i, s:i, s:i, s:i, s:O}", "right", t.wrong == 0 && t.right > 0, "as_expected",
                                 t.right, "wrong", t.wrong, "skipped", t.skipped, "without_gpu", t.without_gpu,
                                 "cheats", t.list));
    else if (right)
        printf("%d as expected, %d wrong, %d of other architectures, %d skipped without a GPU\n", t.right, t.wrong,
               t.skipped, t.without_gpu);
    json_decref(t.list);
    if (right && (t.wrong > 0 || t.right == 0)) {
        bench_say(error, "cheats: %d not as expected: nothing that this lab says can be believed", t.wrong);
        right = false;
    }
    return right ? LAB_KEEP : LAB_BAD;
}
