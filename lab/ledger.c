// SPDX-License-Identifier: Apache-2.0
//
// The ledger: files NNNN-<kernel>-<verdict>.json, each with the hash of the one before.
#define _GNU_SOURCE // flock, O_DIRECTORY
#include "lab/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_record(const char *name) {
    const size_t length = strlen(name);
    return strspn(name, "0123456789") >= 4 && name[strspn(name, "0123456789")] == '-' && length > 5 &&
           strcmp(name + length - 5, ".json") == 0;
}

static int by_name(const void *a, const void *b) {
    const char *x = a, *y = b;
    const long left = strtol(strrchr(x, '/') + 1, NULL, 10), right = strtol(strrchr(y, '/') + 1, NULL, 10);
    return left != right ? (left > right) - (left < right) : strcmp(x, y);
}

bool lab_ledger_read(lab_ledger *ledger, const char *folder, bench_error *error) {
    *ledger = (lab_ledger){NULL, 0};
    DIR *list = opendir(folder);
    if (!list)
        return errno == ENOENT || bench_fail(error, "%s: %s", folder, strerror(errno));
    bool right = true;
    for (struct dirent *entry; right && (entry = readdir(list));) {
        if (!is_record(entry->d_name))
            continue;
        char(*more)[LAB_PATH] = realloc(ledger->path, (ledger->count + 1) * sizeof *more);
        right = more || bench_fail(error, "no memory for the ledger %s", folder);
        if (!more)
            break;
        ledger->path = more;
        right = lab_join(ledger->path[ledger->count], folder, entry->d_name, error);
        ledger->count += right;
    }
    closedir(list);
    if (!right)
        lab_ledger_free(ledger);
    else if (ledger->count > 1)
        qsort(ledger->path, ledger->count, sizeof *ledger->path, by_name);
    return right;
}

void lab_ledger_free(lab_ledger *ledger) {
    free(ledger->path);
    *ledger = (lab_ledger){NULL, 0};
}

bool lab_ledger_check(const lab_ledger *ledger, bench_error *error) {
    char before[LAB_HASH] = "";
    for (size_t i = 0; i < ledger->count; i++) {
        json_t *record = lab_record_read(ledger->path[i], error);
        if (!record)
            return false;
        const char *previous = json_string_value(json_object_get(record, "previous"));
        const json_int_t attempt = json_integer_value(json_object_get(record, "attempt"));
        const bool right = previous && strcmp(previous, before) == 0 && attempt == (json_int_t)i + 1;
        json_decref(record);
        if (!right)
            return bench_fail(error, "%s: does not follow the record before it: one was edited or is missing",
                              ledger->path[i]);
        if (!lab_hash_file(before, ledger->path[i], error))
            return false;
    }
    return true;
}

// How many records of the ledger are of the same kernel and baseline.
static int attempts_of(const lab_ledger *ledger, json_t *record) {
    int count = 0;
    const char *id = json_string_value(json_object_get(json_object_get(record, "baseline"), "id"));
    for (size_t i = 0; i < ledger->count; i++) {
        bench_error ignored;
        json_t *other = lab_record_read(ledger->path[i], &ignored);
        const char *theirs = json_string_value(json_object_get(json_object_get(other, "baseline"), "id"));
        count += id && theirs && strcmp(id, theirs) == 0;
        json_decref(other);
    }
    return count;
}

// With the folder locked, so that numbers are given once.
static bool append_next(const char *folder, json_t *record, char path[LAB_PATH], bench_error *error) {
    lab_ledger ledger;
    bool exists;
    char previous[LAB_HASH] = "", name[128];
    if (!lab_ledger_read(&ledger, folder, error))
        return false;
    const int of_kernel = attempts_of(&ledger, record) + 1, attempt = (int)ledger.count + 1;
    const bool hashed = ledger.count == 0 || lab_hash_file(previous, ledger.path[ledger.count - 1], error);
    lab_ledger_free(&ledger);
    json_object_set_new(record, "attempt", json_integer(attempt));
    json_object_set_new(record, "of_kernel", json_integer(of_kernel));
    json_object_set_new(record, "previous", json_string(previous));
    snprintf(name, sizeof name, "%04d-%s-%s.json", attempt, json_string_value(json_object_get(record, "kernel")),
             json_string_value(json_object_get(json_object_get(record, "judgement"), "verdict")));
    char *text = json_dumps(record, JSON_COMPACT);
    const bool right = hashed && lab_join(path, folder, name, error) &&
                       (text || bench_fail(error, "no memory for a record")) &&
                       lab_publish(path, text, strlen(text), &exists, error);
    free(text);
    return right;
}

bool lab_ledger_append(const char *folder, json_t *record, char path[LAB_PATH], bench_error *error) {
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return bench_fail(error, "%s: %s", folder, strerror(errno));
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        bench_say(error, "%s: %s", folder, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    const bool right = append_next(folder, record, path, error);
    close(fd);
    return right;
}
