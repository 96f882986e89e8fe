// SPDX-License-Identifier: Apache-2.0
//
// A baseline is written beside the store's other folders under a name that nobody reads, and renamed when it is whole.
#define _DEFAULT_SOURCE // DT_DIR is not needed, but readdir's names are
#include "lab/frozen.h"

#include "lab/readable.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SCHEMA = 1, DIGITS = 12 };

// ---- Reading ------------------------------------------------------------------------------------

static json_t *read_manifest(const char *folder, bench_error *error) {
    char path[LAB_PATH];
    json_error_t at;
    if (!lab_join(path, folder, "manifest.json", error))
        return NULL;
    json_t *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &at);
    if (!manifest)
        bench_say(error, "%s: %s", path, at.text);
    return manifest;
}

static bool text_of(json_t *object, const char *key, char *out, size_t size) {
    const char *text = json_string_value(json_object_get(object, key));
    return text && (size_t)snprintf(out, size, "%s", text) < size;
}

static bool read_entry(frozen_entry *entry, json_t *manifest, const char *folder, bench_error *error) {
    snprintf(entry->folder, sizeof entry->folder, "%s", folder);
    if (json_integer_value(json_object_get(manifest, "schema")) != SCHEMA ||
        !text_of(manifest, "id", entry->id, sizeof entry->id) ||
        !text_of(manifest, "name", entry->name, sizeof entry->name) ||
        !text_of(manifest, "kernel", entry->kernel, sizeof entry->kernel) ||
        !text_of(manifest, "where", entry->where, sizeof entry->where) ||
        !text_of(manifest, "class", entry->kernel_class, sizeof entry->kernel_class))
        return bench_fail(error, "%s/manifest.json: is no manifest of schema %d", folder, SCHEMA);
    return true;
}

static int by_name(const void *a, const void *b) {
    const frozen_entry *x = a, *y = b;
    const int order = strcmp(x->kernel, y->kernel);
    return order ? order : strcmp(x->name, y->name);
}

bool frozen_read_list(frozen_list *list, const char *store, bench_error *error) {
    *list = (frozen_list){NULL, 0};
    DIR *folder = opendir(store);
    if (!folder)
        return errno == ENOENT || bench_fail(error, "%s: %s", store, strerror(errno));
    bool right = true;
    for (struct dirent *entry; right && (entry = readdir(folder));) {
        char path[LAB_PATH];
        if (entry->d_name[0] == '.' || strlen(entry->d_name) != DIGITS)
            continue;
        right = lab_join(path, store, entry->d_name, error);
        json_t *manifest = right ? read_manifest(path, error) : NULL;
        frozen_entry *more = manifest ? realloc(list->entry, (list->count + 1) * sizeof *more) : NULL;
        list->entry = more ? more : list->entry;
        right = more && read_entry(&list->entry[list->count], manifest, path, error);
        list->count += right;
        json_decref(manifest);
    }
    closedir(folder);
    if (!right)
        frozen_free_list(list);
    else if (list->count)
        qsort(list->entry, list->count, sizeof *list->entry, by_name);
    return right;
}

void frozen_free_list(frozen_list *list) {
    free(list->entry);
    *list = (frozen_list){NULL, 0};
}

static bool load_unit(lab_unit *unit, json_t *item, const char *folder, bench_error *error) {
    char file[64], name[64], where[32], sha[LAB_HASH], path[LAB_PATH];
    lab_text text;
    if (!text_of(item, "file", file, sizeof file) || !text_of(item, "source", name, sizeof name) ||
        !text_of(item, "where", where, sizeof where) || !text_of(item, "sha256", sha, sizeof sha) || strchr(file, '/'))
        return bench_fail(error, "%s/manifest.json: a unit lacks file, source, where or sha256", folder);
    if (!lab_join(path, folder, file, error) || !lab_read(path, &text, error))
        return false;
    lab_unit_of(unit, name, where, text);
    if (strcmp(unit->sha, sha) == 0)
        return true;
    bench_say(error, "%s: was edited: its SHA-256 is %.12s, the manifest says %.12s", path, unit->sha, sha);
    lab_unit_free(unit);
    return false;
}

static bool load_arm(lab_arm *arm, qsa_kernel_number number, const frozen_entry *entry, json_t *manifest,
                     bench_error *error) {
    char layout[LAB_HASH], text[256 + LAB_UNITS * (LAB_HASH + 40)], id[LAB_HASH];
    json_t *units = json_object_get(manifest, "units"), *item;
    size_t i, used = (size_t)snprintf(text, sizeof text, "%s", entry->kernel);
    memset(arm, 0, sizeof *arm);
    arm->number = number;
    arm->fast = strcmp(entry->kernel_class, "fast") == 0;
    arm->lint = true;
    snprintf(arm->label, sizeof arm->label, "%s", entry->name);
    snprintf(arm->where, sizeof arm->where, "%s", entry->where);
    if (json_array_size(units) < 1 || json_array_size(units) > LAB_UNITS ||
        !text_of(manifest, "layout", layout, sizeof layout))
        return bench_fail(error, "%s/manifest.json: has no units or no layout", entry->folder);
    json_array_foreach(units, i, item) {
        if (!load_unit(&arm->unit[i], item, entry->folder, error))
            return false;
        arm->units++;
        used += (size_t)snprintf(text + used, sizeof text - used, " %s %s", arm->unit[i].where, arm->unit[i].sha);
    }
    lab_hash(id, text, used);
    if (strcmp(id, entry->id) != 0 || strncmp(id, strrchr(entry->folder, '/') + 1, DIGITS) != 0)
        return bench_fail(error, "%s/manifest.json: was edited: its units are %.12s", entry->folder, id);
    memcpy(arm->id, id, LAB_HASH);
    if (!lab_unit_layout(&arm->unit[0], number, arm->layout, error))
        return false;
    if (strcmp(arm->layout, layout) != 0)
        return bench_fail(error, "%s/manifest.json: was edited: the layout of its units is %.12s", entry->folder,
                          arm->layout);
    return lab_arm_check_layout(arm, error);
}

bool frozen_load(lab_arm *arm, qsa_kernel_number number, const char *what, const char *store, bool *found,
                 bench_error *error) {
    frozen_list list;
    *found = false;
    if (!frozen_read_list(&list, store, error))
        return false;
    const frozen_entry *entry = NULL;
    for (size_t i = 0; i < list.count; i++) {
        const frozen_entry *e = &list.entry[i];
        const bool by_id = strlen(what) >= 6 && strncmp(e->id, what, strlen(what)) == 0;
        const bool cuda = strcmp(e->where, "cuda") == 0;
        if (cuda == lab_is_cuda(number) && strcmp(e->kernel, lab_kernel_name(number)) == 0 &&
            (by_id || strcmp(e->name, what) == 0))
            entry = e;
    }
    bool right = true;
    if (entry) {
        *found = true;
        json_t *manifest = read_manifest(entry->folder, error);
        right = manifest && load_arm(arm, number, entry, manifest, error);
        json_decref(manifest);
        if (!right && manifest)
            lab_arm_free(arm);
    }
    frozen_free_list(&list);
    return right;
}

// ---- Keeping ------------------------------------------------------------------------------------

static const char *extension(const lab_arm *arm) {
    return lab_is_cuda(arm->number) ? "cu" : "c";
}

static json_t *make_manifest(const lab_arm *arm, const char *name) {
    json_t *units = json_array();
    for (int i = 0; i < arm->units; i++) {
        char file[32];
        snprintf(file, sizeof file, "unit_%d.%s", i, extension(arm));
        json_array_append_new(units, json_pack("{s:s, s:s, s:s, s:s}", "file", file, "source", arm->unit[i].file,
                                               "where", arm->unit[i].where, "sha256", arm->unit[i].sha));
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "schema", SCHEMA, "id", arm->id, "name", name,
                     "kernel", lab_kernel_name(arm->number), "where", arm->where, "class",
                     arm->fast ? "fast" : "strict", "layout", arm->layout, "source",
                     lab_is_cuda(arm->number) ? "source.cu" : "source.c", "units", units);
}

static void discard(const char *folder) {
    char path[LAB_PATH], name[32];
    bench_error ignored;
    static const char *const rest[] = {"source.c", "source.cu", "unit_0.cu", "manifest.json"};
    for (int i = 0; i < LAB_UNITS + 4; i++) {
        snprintf(name, sizeof name, "unit_%d.c", i);
        if (i >= LAB_UNITS)
            snprintf(name, sizeof name, "%s", rest[i - LAB_UNITS]);
        if (lab_join(path, folder, name, &ignored))
            unlink(path);
    }
    rmdir(folder);
}

// What killed labs left: .writing.<pid>, whose process is gone.
static void sweep(const char *store) {
    DIR *folder = opendir(store);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[LAB_PATH], *rest = NULL;
        bench_error ignored;
        if (strncmp(entry->d_name, ".writing.", 9) != 0)
            continue;
        const long pid = strtol(entry->d_name + 9, &rest, 10);
        if (pid > 0 && !*rest && kill((pid_t)pid, 0) != 0 && errno == ESRCH &&
            lab_join(path, store, entry->d_name, &ignored))
            discard(path);
    }
    if (folder)
        closedir(folder);
}

static bool fill_folder(const char *folder, const lab_arm *arm, const char *source, const char *name,
                        bench_error *error) {
    char path[LAB_PATH], file[32];
    for (int i = 0; i < arm->units; i++) {
        snprintf(file, sizeof file, "unit_%d.%s", i, extension(arm));
        if (!lab_join(path, folder, file, error) ||
            !lab_write(path, arm->unit[i].text.bytes, arm->unit[i].text.size, error))
            return false;
    }
    lab_text readable;
    if (!lab_readable(&readable, source, lab_kernel_stage(arm->number), error))
        return false;
    snprintf(file, sizeof file, "source.%s", extension(arm));
    const bool kept = lab_join(path, folder, file, error) && lab_write(path, readable.bytes, readable.size, error) &&
                      lab_join(path, folder, "manifest.json", error);
    free(readable.bytes);
    if (!kept)
        return false;
    json_t *manifest = make_manifest(arm, name);
    char *text = manifest ? json_dumps(manifest, JSON_INDENT(2)) : NULL;
    json_decref(manifest);
    if (!text)
        return bench_fail(error, "no memory for a manifest");
    const bool right = lab_write(path, text, strlen(text), error);
    free(text);
    return right;
}

// Whether the arm is there (under any name), or another has its name.
static bool look_up(const lab_arm *arm, const char *name, const char *store, bool *there, bench_error *error) {
    frozen_list list;
    if (!frozen_read_list(&list, store, error))
        return false;
    bool right = true;
    *there = false;
    for (size_t i = 0; i < list.count; i++) {
        const frozen_entry *e = &list.entry[i];
        if (strcmp(e->id, arm->id) == 0)
            *there = true;
        else if (strcmp(e->name, name) == 0 && strcmp(e->kernel, lab_kernel_name(arm->number)) == 0 &&
                 (strcmp(e->where, "cuda") == 0) == lab_is_cuda(arm->number))
            right = bench_fail(error, "%s=%s: the name is taken by %.12s", e->kernel, name, e->id);
    }
    frozen_free_list(&list);
    return right;
}

bool frozen_keep(const lab_arm *arm, const char *source, const char *name, const char *store, bool *made,
                 bench_error *error) {
    char writing[32], temporary[LAB_PATH], path[LAB_PATH], digits[DIGITS + 1];
    bool there;
    *made = false;
    if (!look_up(arm, name, store, &there, error))
        return false;
    if (there)
        return true;
    if (mkdir(store, 0755) != 0 && errno != EEXIST)
        return bench_fail(error, "%s: %s", store, strerror(errno));
    sweep(store);
    snprintf(writing, sizeof writing, ".writing.%ld", (long)getpid());
    snprintf(digits, sizeof digits, "%.12s", arm->id);
    if (!lab_join(temporary, store, writing, error) || !lab_join(path, store, digits, error))
        return false;
    if (mkdir(temporary, 0755) != 0)
        return bench_fail(error, "%s: %s", temporary, strerror(errno));
    bool right = fill_folder(temporary, arm, source, name, error);
    if (right && rename(temporary, path) != 0)
        right = bench_fail(error, "%s: %s", path, strerror(errno));
    if (!right)
        discard(temporary);
    *made = right;
    return right;
}
