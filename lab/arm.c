// SPDX-License-Identifier: Apache-2.0
//
// From sources to a function pointer.
#include "lab/arm.h"

#include "lab/device.h"
#include "lab/lint.h"
#include "lab/process.h"
#include "lab/scratch.h"
#include "lab_build.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- Sources ------------------------------------------------------------------------------------

static void identify(lab_arm *arm) {
    char text[256 + LAB_UNITS * (LAB_HASH + 40)];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", lab_kernel_name(arm->number));
    for (int i = 0; i < arm->units; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %s %s", arm->unit[i].where, arm->unit[i].sha);
    lab_hash(arm->id, text, used);
}

bool lab_arm_from_file(lab_arm *arm, qsa_kernel_number number, const char *path, const char *where,
                       const char *otherwise, bench_error *error) {
    memset(arm, 0, sizeof *arm);
    arm->number = number;
    arm->lint = true;
    snprintf(arm->label, sizeof arm->label, "%s", path);
    if (lab_is_cuda(number))
        snprintf(arm->where, sizeof arm->where, "cuda");
    else if (where)
        snprintf(arm->where, sizeof arm->where, "%s", where);
    else if (!lab_where_of(path, arm->where))
        snprintf(arm->where, sizeof arm->where, "%s", otherwise);
    if (!lab_unit_make(&arm->unit[0], path, arm->where, error))
        return false;
    arm->units = 1;
    identify(arm);
    if (lab_unit_layout(&arm->unit[0], number, arm->layout, error))
        return true;
    lab_arm_free(arm);
    return false;
}

static bool row_source(const qsa_kernel_row *row, char path[LAB_PATH], bench_error *error) {
    char name[160];
    snprintf(name, sizeof name, "src/kernels/%s/%s.c", row->stage, row->name);
    return lab_join(path, lab_root(), name, error);
}

bool lab_arm_from_row(lab_arm *arm, const qsa_kernel_row *row, bench_error *error) {
    char path[LAB_PATH];
    if (!row_source(row, path, error) || !lab_arm_from_file(arm, row->number, path, NULL, row->where, error))
        return false;
    snprintf(arm->label, sizeof arm->label, "%s", row->name);
    arm->fast = row->kernel_class == QSA_CLASS_FAST;
    return true;
}

void lab_arm_free(lab_arm *arm) {
    for (int i = 0; i < arm->units; i++)
        lab_unit_free(&arm->unit[i]);
    arm->units = 0;
}

bool lab_arm_check_layout(const lab_arm *arm, bench_error *error) {
    char path[LAB_PATH], text[128], today[LAB_HASH];
    lab_unit unit;
    const bool cuda = lab_is_cuda(arm->number);
    const char *stage = lab_kernel_stage(arm->number);
    const int n =
        cuda ? snprintf(text, sizeof text, "// LAUNCH: kernel=k grid=1 block=1\n#include \"kernels/cuda_args.h\"\n")
             : snprintf(text, sizeof text, "#include \"kernels/%s/%s.h\"\n", stage, stage);
    if (!lab_scratch_name(path, cuda ? "contract_cuda.cu" : "contract_ref.c", error) ||
        !lab_write(path, text, (size_t)n, error) || !lab_unit_make(&unit, path, cuda ? "cuda" : "ref", error))
        return false;
    const bool right = lab_unit_layout(&unit, arm->number, today, error);
    lab_unit_free(&unit);
    if (!right)
        return false;
    return strcmp(today, arm->layout) == 0 ||
           bench_fail(error, "%s is incompatible: its qsa_%s%s_args is not the one of today's contract", arm->label,
                      cuda ? "cuda_" : "", lab_kernel_name(arm->number));
}

// ---- Objects ------------------------------------------------------------------------------------

static bool run_compiler(const char *const *argv, const char *folder, const char *label, bool *refused,
                         bench_error *error) {
    char said[8192];
    lab_outcome outcome;
    if (!lab_command(argv, folder, 60, said, sizeof said, &outcome, error))
        return false;
    if (outcome.how == LAB_EXITED && outcome.value == 0)
        return true;
    *refused = true;
    const char *at = strstr(said, "error: ");
    at = at ? at + 7 : said;
    return bench_fail(error, "%s: the compiler says: %.*s", label, (int)strcspn(at, "\n"), at);
}

static int split(char *line, const char **words, int most) {
    int n = 0;
    for (char *word = strtok(line, " "); word && n < most; word = strtok(NULL, " "))
        words[n++] = word;
    return n;
}

// Objects of this run of the lab by unit and flags: both arms often share one, and the zoo has one baseline for many.
enum { REMEMBERED = 64 };
static struct { char key[LAB_HASH], object[LAB_PATH]; } remembered[REMEMBERED];

static void object_key(const lab_unit *unit, const char *flags, char key[LAB_HASH]) {
    char text[LAB_HASH + 600];
    const int n = snprintf(text, sizeof text, "%s %s", unit->sha, flags);
    lab_hash(key, text, (size_t)n);
}

static bool recall(const char *key, const char *object, bool *found, bench_error *error) {
    *found = false;
    for (int i = 0; i < REMEMBERED; i++)
        if (strcmp(remembered[i].key, key) == 0) {
            *found = true;
            return lab_copy(remembered[i].object, object, error);
        }
    return true;
}

static void remember(const char *key, const char *object) {
    static int next;
    memcpy(remembered[next].key, key, LAB_HASH);
    snprintf(remembered[next].object, LAB_PATH, "%s", object);
    next = (next + 1) % REMEMBERED;
}

static bool compile(const lab_arm *arm, int i, const char *folder, char flags[512], bool *refused, bench_error *error) {
    char row[128], words[512], source[32], object[32], path[LAB_PATH], out[LAB_PATH], key[LAB_HASH];
    const char *argv[64] = {LAB_CC};
    int n = 1;
    bool found;
    if (!lab_where_flags(arm->unit[i].where, row, sizeof row))
        return bench_fail(error, "%s: there is no instruction set %s on %s", arm->label, arm->unit[i].where, LAB_ARCH);
    snprintf(flags, 512, "%s %s", LAB_FLAGS, row);
    snprintf(words, sizeof words, "%s", flags);
    snprintf(source, sizeof source, "unit_%d.c", i);
    snprintf(object, sizeof object, "unit_%d.o", i);
    n += split(words, argv + n, 40);
    const char *const rest[] = {"-w", "-c", source, "-o", object, NULL};
    memcpy(argv + n, rest, sizeof rest);
    object_key(&arm->unit[i], flags, key);
    if (!lab_join(path, folder, source, error) || !lab_join(out, folder, object, error) ||
        !recall(key, out, &found, error) || !lab_write(path, arm->unit[i].text.bytes, arm->unit[i].text.size, error))
        return false;
    if (!found && !run_compiler(argv, folder, arm->label, refused, error))
        return false;
    if (!found)
        remember(key, out);
    return true;
}

// Takes the row that a unit calls as another unit.
static bool add_row(lab_arm *arm, const char *symbol, bench_error *error) {
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        char path[LAB_PATH];
        if (strcmp(row->name, symbol + 4) != 0)
            continue;
        if (arm->units == LAB_UNITS)
            return bench_fail(error, "%s: calls more than %d other kernels", arm->label, LAB_UNITS - 1);
        if (!row_source(row, path, error) || !lab_unit_make(&arm->unit[arm->units], path, row->where, error))
            return false;
        arm->units++;
        return true;
    }
    return bench_fail(error, "%s: calls %s, which is no row of the table", arm->label, symbol);
}

// Every function that a unit calls is the entry of one of the units, which may be added.
static bool resolve(lab_arm *arm, lab_object *objects, int done, bool complete, bool *refused, bench_error *error) {
    for (int i = 0; i < done; i++)
        for (int k = 0; k < objects[i].n_needs; k++) {
            bool found = false;
            for (int j = 0; j < arm->units; j++) {
                char stem[128];
                snprintf(stem, sizeof stem, "qsa_%.60s", arm->unit[j].file);
                *strrchr(stem, '.') = '\0';
                found |= strcmp(objects[i].needs[k], j < done ? objects[j].entry : stem) == 0;
            }
            if (found)
                continue;
            if (complete)
                return bench_fail(error, "%s: %s is not among its units", arm->label, objects[i].needs[k]);
            if (!add_row(arm, objects[i].needs[k], error)) {
                *refused = true;
                return false;
            }
        }
    return true;
}

static bool link_units(lab_arm *arm, const char *folder, bool *refused, bench_error *error) {
    char names[LAB_UNITS][32];
    const char *argv[32] = {
        LAB_CC,           "-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,relro,-z,now", "-Wl,--build-id=none",
        "-Wl,-Bsymbolic", "-o",      "arm.so"};
    int n = 9;
    for (int i = 0; i < arm->units; i++) {
        snprintf(names[i], sizeof names[i], "unit_%d.o", i);
        argv[n++] = names[i];
    }
    argv[n++] = "-lm";
    argv[n] = NULL;
    return run_compiler(argv, folder, arm->label, refused, error) && lab_join(arm->object, folder, "arm.so", error) &&
           lab_hash_file(arm->object_sha, arm->object, error);
}

bool lab_arm_build(lab_arm *arm, bool complete, bool *refused, bench_error *error) {
    char folder[LAB_PATH], name[32], path[LAB_PATH], flags[512];
    lab_object objects[LAB_UNITS];
    *refused = false;
    if (lab_is_cuda(arm->number))
        return lab_device_build(arm, refused, error);
    if (!lab_scratch_name(folder, "arm", error))
        return false;
    if (mkdir(folder, 0700) != 0)
        return bench_fail(error, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < arm->units; i++) {
        if (arm->lint && !lab_unit_lint(&arm->unit[i], error)) {
            *refused = true;
            return false;
        }
        snprintf(name, sizeof name, "unit_%d.o", i);
        if (!compile(arm, i, folder, i ? flags : arm->flags, refused, error) || !lab_join(path, folder, name, error))
            return false;
        if (!lab_object_read(&objects[i], path, arm->unit[i].file, arm->lint, error)) {
            *refused = true;
            return false;
        }
        if (!resolve(arm, objects, i + 1, complete, refused, error))
            return false;
    }
    char prefix[64];
    snprintf(prefix, sizeof prefix, "qsa_%s_", lab_kernel_name(arm->number));
    if (strncmp(objects[0].entry, prefix, strlen(prefix)) != 0) {
        *refused = true;
        return bench_fail(error, "%s: its function %s is not named %s...", arm->label, objects[0].entry, prefix);
    }
    memcpy(arm->entry, objects[0].entry, sizeof arm->entry);
    identify(arm);
    return link_units(arm, folder, refused, error);
}

bool lab_arm_copy_object(const lab_arm *arm, char path[LAB_PATH], bench_error *error) {
    char from[LAB_PATH + 8], to[LAB_PATH + 8];
    if (!lab_scratch_name(path, "null.so", error) || !lab_copy(arm->object, path, error))
        return false;
    snprintf(from, sizeof from, "%s.launch", arm->object);
    snprintf(to, sizeof to, "%s.launch", path);
    return !lab_is_cuda(arm->number) || lab_copy(from, to, error);
}

qsa_kernel_fn lab_arm_load(const char *object, const char *entry, bench_error *error) {
    void *handle = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        bench_say(error, "%s", dlerror());
        return NULL;
    }
    // POSIX lets dlsym's pointer be a function's.
    qsa_kernel_fn function;
    void *symbol = dlsym(handle, entry);
    memcpy(&function, &symbol, sizeof function);
    if (!symbol)
        bench_say(error, "no %s in the object", entry);
    return function;
}
