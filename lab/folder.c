// SPDX-License-Identifier: Apache-2.0
//
// Candidates of a folder. They stay loaded until the process ends; scratch goes at once.
#include "lab/folder.h"

#include "api/internal.h"
#include "lab/arm.h"
#include "lab/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = QSA_K_COUNT, NAME = 80 };

static struct {
    qsa_kernel_row row;
    char name[NAME], where[32];
} loaded[MOST];
static int n_loaded;
static enum { NOT_YET, READY, REFUSED } state;

static bool load_built(lab_arm *arm, const char *file, bench_error *error) {
    bool refused;
    if (!lab_where_runs(arm->where, file, error) || !lab_arm_check_layout(arm, error) ||
        !lab_arm_build(arm, false, &refused, error))
        return false;
    const qsa_kernel_fn function = lab_arm_load(arm->object, arm->entry, error);
    if (!function)
        return false;
    for (int i = 0; i < n_loaded; i++)
        if (loaded[i].row.number == arm->number)
            return bench_fail(error, "%s: there is another candidate for %s, %s", file, lab_kernel_name(arm->number),
                              loaded[i].name);
    snprintf(loaded[n_loaded].name, NAME, "%.*s", (int)strlen(file) - 2, file);
    snprintf(loaded[n_loaded].where, sizeof loaded[0].where, "%s", arm->where);
    loaded[n_loaded].row = (qsa_kernel_row){.stage = lab_kernel_stage(arm->number),
                                            .kernel = lab_kernel_name(arm->number),
                                            .where = loaded[n_loaded].where,
                                            .name = loaded[n_loaded].name,
                                            .rank = INT32_MAX,
                                            .number = arm->number,
                                            .function = function};
    n_loaded++;
    return true;
}

static bool load_file(const char *folder, const char *file, bench_error *error) {
    static lab_arm arm;
    char path[LAB_PATH];
    qsa_kernel_number number = QSA_K_COUNT;
    if (!lab_kernel_of_file(file, &number))
        return bench_fail(error, "%s/%s: its name does not begin with a kernel's", folder, file);
    if (!lab_join(path, folder, file, error) ||
        !lab_arm_from_file(&arm, number, path, NULL, qsa_table_best(number, QSA_CLASS_STRICT)->where, error))
        return false;
    const bool right = load_built(&arm, file, error);
    lab_arm_free(&arm);
    return right;
}

static bool load_all(const char *folder, bench_error *error) {
    DIR *list = opendir(folder);
    if (!list)
        return bench_fail(error, "QSA_LAB_KERNELS=%s: %s", folder, strerror(errno));
    bool right = true;
    for (const struct dirent *entry; right && (entry = readdir(list));) {
        const size_t length = strlen(entry->d_name);
        if (length > 2 && length < NAME && strcmp(entry->d_name + length - 2, ".c") == 0)
            right = load_file(folder, entry->d_name, error);
    }
    closedir(list);
    lab_scratch_remove();
    return right && (n_loaded > 0 || bench_fail(error, "QSA_LAB_KERNELS=%s: has no candidates", folder));
}

bool lab_folder_use(qsa_context *context, bench_error *error) {
    static bench_error reason;
    const char *folder = getenv("QSA_LAB_KERNELS");
    if (!folder || !*folder)
        return true;
    if (state == NOT_YET)
        state = load_all(folder, &reason) ? READY : REFUSED;
    if (state == REFUSED) {
        *error = reason;
        return false;
    }
    for (int i = 0; i < n_loaded; i++) {
        qsa_table_pick(&context->kernels, &loaded[i].row);
        context->picked[loaded[i].row.number] = &loaded[i].row;
    }
    return true;
}
