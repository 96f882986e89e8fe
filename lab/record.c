// SPDX-License-Identifier: Apache-2.0
//
// What a record says about arms, lab and machine; reading it again.
#define _GNU_SOURCE
#include "lab/record.h"

#include "lab/device.h"
#include "lab/process.h"
#include "lab_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

void lab_print_json(json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(json);
}

json_t *lab_proof_json(const lab_pair *pair, const prove_report *report, uint64_t seed, bool bound) {
    json_t *proof = json_pack("{s:b, s:s, s:s, s:I, s:i, s:f}", "passed", report->passed && !pair->refused, "stage",
                              pair->refused ? "lint" : "prove", "held_to", bound ? "bound" : "memcmp", "seed",
                              (json_int_t)(int64_t)seed, "calls", (int)report->calls, "seconds", report->seconds);
    if (report->cached)
        json_object_set_new(proof, "cached", json_true());
    if (pair->refused)
        json_object_set_new(proof, "complaint", json_string(pair->reason));
    else if (!report->passed) {
        json_object_set_new(proof, "complaint", json_string(report->complaint));
        json_object_set_new(proof, "call", json_string(report->what));
    }
    if (report->differs) {
        const lab_difference *d = &report->difference;
        json_object_set_new(proof, "difference",
                            json_pack("{s:s, s:I, s:s, s:s, s:s, s:s}", "field", d->field, "element",
                                      (json_int_t)d->element, "got", d->got, "got_bits", d->got_bits, "want", d->want,
                                      "want_bits", d->want_bits));
    }
    if (bound && report->worst[0] > 0)
        json_object_set_new(proof, "relative_l2", json_pack("[f, f]", report->worst[0], report->worst[1]));
    return proof;
}

// ---- Beginning ----------------------------------------------------------------------------------

static json_t *arm_json(const lab_arm *arm, bool whole) {
    json_t *units = json_array();
    for (int i = 0; i < arm->units; i++)
        json_array_append_new(units, json_string(arm->unit[i].sha));
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "label", arm->label, "id", arm->id, "where", arm->where,
                            "flags", arm->flags, "object", arm->object_sha, "units", units);
    if (whole && arm->units > 0)
        json_object_set_new(out, "source", json_stringn(arm->unit[0].text.bytes, arm->unit[0].text.size));
    return out;
}

static void first_line_of(const char *path, const char *key, char *out, size_t size) {
    char line[256];
    FILE *file = fopen(path, "r");
    snprintf(out, size, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    if (file)
        fclose(file);
}

static json_t *machine_json(void) {
    struct utsname name = {0};
    char cpu[128];
    uname(&name);
    first_line_of("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    return json_pack("{s:s, s:s, s:s, s:s, s:i}", "cpu", cpu, "system", name.sysname, "release", name.release,
                     "architecture", name.machine, "cores", (int)sysconf(_SC_NPROCESSORS_ONLN));
}

static bool compiler_line(char line[160], bench_error *error) {
    const char *const argv[] = {LAB_CC, "--version", NULL};
    char said[512];
    lab_outcome outcome;
    if (!lab_command(argv, NULL, 10, said, sizeof said, &outcome, error))
        return false;
    snprintf(line, 160, "%.*s", (int)strcspn(said, "\n"), said);
    return true;
}

json_t *lab_record_begin(const lab_pair *pair, const lab_options *options, bench_error *error) {
    char lab[LAB_HASH], cases[LAB_HASH], path[LAB_PATH], name[64], compiler[160], root[] = LAB_ROOT;
    const char *kernel = lab_kernel_name(pair->number);
    const bool cuda = lab_is_cuda(pair->number);
    snprintf(name, sizeof name, "lab/cases/%s.c", kernel);
    if (cuda) // the random calls are one header for all kernels
        snprintf(name, sizeof name, "tests/cuda/cuda_cases.h");
    if (!compiler_line(compiler, error) || !lab_hash_file(lab, "/proc/self/exe", error) ||
        !lab_join(path, cuda ? lab_root() : root, name, error) || !lab_hash_file(cases, path, error))
        return NULL;
    json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s}", "schema", LAB_SCHEMA, "kernel", kernel, "class",
                               pair->baseline.fast || options->bound ? "fast" : "strict", "held_to",
                               options->bound ? "bound" : "memcmp", "compiler", compiler, "lab", lab, "cases", cases);
    json_object_set_new(record, "machine", machine_json());
    if (cuda)
        json_object_set_new(record, "device", lab_device_json());
    json_object_set_new(record, "baseline", arm_json(&pair->baseline, false));
    json_object_set_new(record, "candidate", arm_json(&pair->candidate, true));
    return record;
}

// ---- Reading again ------------------------------------------------------------------------------

void lab_hash_json(char sha[LAB_HASH], json_t *json) {
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    lab_hash(sha, text ? text : "", text ? strlen(text) : 0);
    free(text);
}

json_t *lab_record_read(const char *path, bench_error *error) {
    json_error_t at;
    char sha[LAB_HASH];
    lab_text text;
    if (!lab_read(path, &text, error))
        return NULL;
    json_t *record = json_loadb(text.bytes, text.size, JSON_REJECT_DUPLICATES, &at);
    free(text.bytes);
    if (!record) {
        bench_say(error, "%s: line %d: %s", path, at.line, at.text);
        return NULL;
    }
    json_t *schema = json_object_get(record, "schema"), *plan = json_object_get(record, "plan");
    const char *told = json_string_value(json_object_get(record, "plan_sha256"));
    if (json_integer_value(schema) != LAB_SCHEMA) {
        bench_say(error, "%s: is no record of schema %d", path, LAB_SCHEMA);
    } else if (plan && (lab_hash_json(sha, plan), !told || strcmp(told, sha) != 0)) {
        bench_say(error, "%s: the plan was edited: its SHA-256 is %.12s", path, sha);
    } else {
        return record;
    }
    json_decref(record);
    return NULL;
}

int lab_record_check(json_t *record, const char *path, bench_error *error) {
    bench_error said = {""};
    json_t *again = judge_record(record, &said), *told = json_object_get(record, "judgement");
    if (!again) {
        bench_say(error, "%s: %s", path, said.text);
        return LAB_BAD;
    }
    const char *now = json_string_value(json_object_get(again, "verdict"));
    const char *then = json_string_value(json_object_get(told, "verdict"));
    int code = (int)json_integer_value(json_object_get(again, "exit"));
    if (told && (!then || strcmp(now, then) != 0)) {
        bench_say(error, "%s: says %s, its samples say %s", path, then ? then : "nothing", now);
        code = LAB_BAD;
    }
    json_object_set_new(record, "judgement", again);
    return code;
}
