// SPDX-License-Identifier: Apache-2.0
//
// Loading, asking, compiling, probing. What proves and times is in device_run.c.
#include "lab/device.h"

#include "lab/launch.h"
#include "lab/lint.h"
#include "lab/process.h"
#include "lab/scratch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPILE_SECONDS = 60, PROBE_SECONDS = 60, ROOM = 1 << 20 };

// ---- The library --------------------------------------------------------------------------------

const lab_device_ops *lab_device_load(bench_error *error) {
    static const lab_device_ops *loaded;
    if (loaded)
        return loaded;
    void *object = dlopen(LAB_DEVICE_FILE, RTLD_NOW | RTLD_LOCAL), *symbol = NULL;
    if (!object) {
        const char *reason = dlerror();
        bench_say(error, "the lab's part for GPUs cannot be loaded: %.300s", reason ? reason : "no reason given");
        return NULL;
    }
    symbol = dlsym(object, LAB_DEVICE_SYMBOL);
    lab_device_entry entry;
    memcpy(&entry, &symbol, sizeof entry); // a function's address out of a data pointer, as POSIX has it
    const lab_device_ops *ops = symbol ? entry() : NULL;
    if (!ops || ops->abi != LAB_DEVICE_ABI || ops->layout != LAB_DEVICE_LAYOUT) {
        bench_say(error, LAB_DEVICE_FILE " is of another build of the lab");
        return NULL;
    }
    loaded = ops;
    return ops;
}

typedef struct about_job {
    const lab_device_ops *ops;
    lab_device_about *about;
} about_job;

static void about_child(void *arg) {
    const about_job *j = arg;
    j->ops->about(j->about);
}

bool lab_device_tell(lab_device_about *about, bench_error *error) {
    static lab_device_about known;
    static bool asked;
    if (!asked) {
        lab_outcome outcome;
        about_job j = {lab_device_load(error), lab_share(sizeof *j.about)};
        bool right = j.ops && (j.about || bench_fail(error, "no memory for a child"));
        right = right && lab_child_wide(about_child, &j, PROBE_SECONDS, &outcome, error);
        if (right) {
            known = *j.about;
            if (outcome.how != LAB_EXITED || outcome.value != 0)
                snprintf(known.why, sizeof known.why, "no CUDA device: asking for one ended the process");
        }
        lab_unshare(j.about, sizeof *j.about);
        if (!right)
            return false;
        asked = true;
    }
    *about = known;
    return true;
}

bool lab_device_need(bench_error *error) {
    lab_device_about about;
    return lab_device_tell(&about, error) && (!about.why[0] || bench_fail(error, "%s", about.why));
}

json_t *lab_device_json(void) {
    lab_device_about a;
    bench_error ignored;
    if (!lab_device_tell(&a, &ignored) || a.why[0])
        return json_null();
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i}", "backend", "cuda", "name", a.name, "major", a.major,
                     "minor", a.minor, "multiprocessors", a.multiprocessors, "driver", a.driver, "nvrtc", a.nvrtc);
}

json_t *lab_resources_json(const lab_arm *arm) {
    json_t *list = json_array();
    for (int i = 0; i < LAB_DEVICE_CASES; i++) {
        const lab_device_resources *r = &arm->resources[i];
        if (!r->kernel[0])
            continue;
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s}", "case", r->at, "kernel",
                                              r->kernel, "registers", r->registers, "spill_bytes", r->spill_bytes,
                                              "shared_static", r->shared_static, "shared_dynamic", r->shared_dynamic,
                                              "threads", r->threads, "blocks_per_sm", r->blocks_per_sm, "limited_by",
                                              r->limited_by));
    }
    return list;
}

// ---- Compiling ----------------------------------------------------------------------------------

typedef struct compile_job {
    const lab_device_ops *ops;
    lab_device_source source;
    const lab_launch *list;
    const char *code, *launches; // files to write
    struct compile_result {
        bool compiled, written;
        char log[600];
    } * result;
} compile_job;

static void compile_child(void *arg) {
    const compile_job *j = arg;
    static lab_device_code code;
    char lines[LAB_LAUNCHES * LAB_LAUNCH_LINE];
    size_t used = 0;
    bench_error error;
    j->result->compiled = j->ops->compile(&j->source, &code);
    snprintf(j->result->log, sizeof j->result->log, "%.590s", code.log);
    if (!j->result->compiled)
        return;
    for (int i = 0; i < j->source.kernels_count; i++)
        used += (size_t)lab_launch_write(&j->list[i], code.lowered[i], lines + used, sizeof lines - used);
    j->result->written = used < sizeof lines && lab_write(j->code, code.bytes, code.size, &error) &&
                         lab_write(j->launches, lines, used, &error);
}

// The flags of both arms: a strict kernel contracts nothing, and one that is held to a bound may.
static int flags_of(const lab_arm *arm, char line[512], const char *words[16], bench_error *error) {
    static char cut[512];
    lab_device_about about;
    int n = 0;
    if (!lab_device_tell(&about, error))
        return -1;
    const int major = about.why[0] ? 9 : about.major, minor = about.why[0] ? 0 : about.minor;
    snprintf(line, 512,
             "--gpu-architecture=sm_%d%d%s --std=c++17 --fmad=%s --prec-div=true --prec-sqrt=true --ftz=false "
             "-default-device -w",
             major, minor, major == 9 ? "a" : "", arm->fast ? "true" : "false");
    snprintf(cut, sizeof cut, "%s", line);
    for (char *word = strtok(cut, " "); word && n < 16; word = strtok(NULL, " "))
        words[n++] = word;
    return n;
}

// Machine code of this run of the lab by unit and flags: seconds of NVRTC each, and the zoo has one baseline for many.
enum { REMEMBERED = 32 };
static struct { char key[LAB_HASH], object[LAB_PATH]; } remembered[REMEMBERED];

static void remember(const char *key, const char *object) {
    static int next;
    memcpy(remembered[next].key, key, LAB_HASH);
    snprintf(remembered[next].object, LAB_PATH, "%s", object);
    next = (next + 1) % REMEMBERED;
}

static bool recall(const char *key, const compile_job *j, bool *found, bench_error *error) {
    char launches[LAB_PATH + 8];
    *found = false;
    for (int i = 0; i < REMEMBERED; i++)
        if (strcmp(remembered[i].key, key) == 0) {
            *found = true;
            snprintf(launches, sizeof launches, "%s.launch", remembered[i].object);
            return lab_copy(remembered[i].object, j->code, error) && lab_copy(launches, j->launches, error);
        }
    return true;
}

static bool compile(lab_arm *arm, compile_job *j, bool *refused, bench_error *error) {
    static lab_launch list[LAB_LAUNCHES];
    const char *flags[16], *kernels[LAB_LAUNCHES];
    char why[300], key[LAB_HASH], text[LAB_HASH + 600];
    bool found;
    lab_outcome outcome;
    int count;
    if (!lab_launch_read(list, &count, arm->unit[0].text.bytes, why, sizeof why)) {
        *refused = true;
        return bench_fail(error, "%s: %s", arm->label, why);
    }
    for (int i = 0; i < count; i++)
        kernels[i] = list[i].kernel;
    const int n = flags_of(arm, arm->flags, flags, error);
    if (n < 0)
        return false;
    j->source = (lab_device_source){arm->unit[0].text.bytes, arm->unit[0].file, flags, n, kernels, count};
    j->list = list;
    snprintf(arm->entry, sizeof arm->entry, "%.120s", list[0].kernel);
    lab_hash(key, text, (size_t)snprintf(text, sizeof text, "%s %s", arm->unit[0].sha, arm->flags));
    if (!recall(key, j, &found, error) || found)
        return found;
    if (!lab_child_wide(compile_child, j, COMPILE_SECONDS, &outcome, error))
        return false;
    if (j->result->compiled && j->result->written) {
        remember(key, j->code);
        return true;
    }
    *refused = !j->result->compiled && (j->result->log[0] || outcome.how != LAB_EXITED);
    if (j->result->log[0])
        return bench_fail(error, "%s: the compiler says: %.500s", arm->label, j->result->log);
    lab_outcome_text(&outcome, why, sizeof why);
    return bench_fail(error, "%s: NVRTC ended with %.60s", arm->label, why);
}

bool lab_device_build(lab_arm *arm, bool *refused, bench_error *error) {
    char launches[LAB_PATH + 8];
    *refused = false;
    if (arm->lint && !lab_unit_lint(&arm->unit[0], error)) {
        *refused = true;
        return false;
    }
    compile_job j = {.ops = lab_device_load(error), .result = lab_share(sizeof *j.result)};
    bool right = j.ops && (j.result || bench_fail(error, "no memory for a child")) &&
                 lab_scratch_name(arm->object, "arm.cubin", error);
    snprintf(launches, sizeof launches, "%s.launch", arm->object);
    j.code = arm->object;
    j.launches = launches;
    right = right && compile(arm, &j, refused, error);
    lab_unshare(j.result, sizeof *j.result);
    if (!right)
        return false;
    if (arm->lint && !lab_cubin_lint(arm->object, arm->unit[0].file, error)) {
        *refused = true;
        return false;
    }
    return lab_hash_file(arm->object_sha, arm->object, error);
}

// ---- Probes -------------------------------------------------------------------------------------

typedef struct probe_job {
    const lab_device_ops *ops;
    const char *name;
    bool json;
    struct probe_result {
        bool right;
        char why[300], said[ROOM];
    } * result;
} probe_job;

static void probe_child(void *arg) {
    const probe_job *j = arg;
    j->result->right = j->ops->probe(j->name, j->json, j->result->said, ROOM, j->result->why, sizeof j->result->why);
}

bool lab_device_probe(const char *name, bool json, char **said, bench_error *error) {
    lab_outcome outcome;
    lab_device_about about;
    char how[64];
    *said = NULL;
    if (!lab_device_tell(&about, error))
        return false;
    if (about.why[0])
        return bench_fail(error, "layout %s: %s", name, about.why);
    probe_job j = {lab_device_load(error), name, json, lab_share(sizeof *j.result)};
    bool right = j.result || bench_fail(error, "no memory for a probe");
    right = right && lab_child_wide(probe_child, &j, PROBE_SECONDS, &outcome, error);
    if (right && (outcome.how != LAB_EXITED || outcome.value != 0)) {
        lab_outcome_text(&outcome, how, sizeof how);
        right = bench_fail(error, "layout %s: the probe ended with %s", name, how);
    }
    right = right && (j.result->right || bench_fail(error, "%s", j.result->why));
    if (right) {
        const size_t size = strlen(j.result->said) + 1;
        *said = malloc(size);
        right = *said || bench_fail(error, "no memory for a probe");
        if (right)
            memcpy(*said, j.result->said, size);
    }
    lab_unshare(j.result, sizeof *j.result);
    return right;
}
